"""The audit of any program: neighbours are searched, noise of NumPy is replayed, everything is an output.

Programs that keep their claim are given noise with room to spare or no loss at all, and alpha is 1e-7.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sfumato import audit
from sfumato.audit import programs
from sfumato.audit.claims import parse_claim
from sfumato.audit.neighbours import describe_pair
from sfumato.audit.programs import replay_program
from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise

SMALL: dict[str, Any] = {"samples": 2000, "alpha": 1e-7}
ONE_MORE = [(np.array([]), np.array([1.0]))]


def counted(rows: Any) -> int:
    return int(LaplaceNoise(4).release(np.array([len(rows)]))[0])


def summed(rows: Any, scale: float = 1.0) -> float:
    bounded = np.clip(np.nan_to_num(rows, posinf=0, neginf=0), 0, 1)
    return float(bounded.sum() + np.random.default_rng().laplace(0, scale))


def test_a_program_of_ours_is_replayed_and_sampled() -> None:
    pairs = audit.number_tables()
    assert {len(one) for one, _ in pairs} >= {0, 1, 2}
    found = audit.run(counted, claim=1, neighbours=pairs[::9], **SMALL)
    assert not found.violates
    assert found.replayed is not None
    assert "the worst of 5 pairs" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["replay"]["violates"] is False
    assert "share of" in str(found.plot().spec)
    assert audit.run(counted, claim=0.2, neighbours=ONE_MORE, **SMALL).violates


@pytest.mark.parametrize(
    "leak",
    [
        lambda rows: rows[0],  # an exception on the empty table
        lambda rows: np.mean(rows) if len(rows) < 2 else 0.0,  # NaN
        lambda rows: float(len(rows)) if len(rows) % 2 else len(rows),  # a type
        lambda rows: {"a": 0, "b": 0} if len(rows) % 2 else {"b": 0, "a": 0},  # an order
        lambda rows: [0] * len(rows),  # a length
        lambda rows: "no rows" if not len(rows) else "rows",
        lambda rows: (lambda noise: [noise, noise + len(rows)])(np.random.normal(0, 100)),  # shared noise
    ],
)
def test_whatever_differs_is_found(leak: Any) -> None:
    found = audit.run(leak, claim=1, neighbours=audit.number_tables(hostile=False)[:3], **SMALL)
    assert found.broken
    assert found.lower_bound > 1


def test_time_is_an_output_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(programs, "perf_counter_ns", lambda: clock[0])

    def slow(rows: Any) -> int:
        clock[0] += 1000 * len(rows)
        return 0

    few: dict[str, Any] = {"samples": 1000, "neighbours": ONE_MORE}
    assert not audit.run(slow, claim=1, **few).violates
    assert audit.run(slow, claim=1, time=True, **few).event.startswith("nanoseconds")


def test_last_bits_are_an_output_unless_they_are_left_out() -> None:
    assert "last bit" in audit.run(summed, claim=2, neighbours=ONE_MORE, **SMALL).event
    assert not audit.run(summed, claim=2, neighbours=ONE_MORE, last_bits=False, **SMALL).violates


@pytest.mark.parametrize(
    ("program", "finding"),
    [
        (summed, None),
        (lambda rows: summed(rows, 0.9), "moved by 1.111 scales"),
        (lambda rows: summed(rows, 1 + len(rows)), "depends on the rows"),
        (lambda rows: len(rows) + np.random.laplace(0, 0.5, size=1)[0], "moved by 2 scales"),
        (lambda rows: np.random.default_rng(7).normal(), "seed that can be searched"),
    ],
)
def test_noise_of_numpy_is_replayed_exactly(program: Any, finding: str | None) -> None:
    before = np.random.default_rng, np.random.laplace
    found = replay_program(program, parse_claim(1, 0), audit.number_tables())
    assert (np.random.default_rng, np.random.laplace) == before
    assert found is not None
    assert found.finding is None if finding is None else finding in str(found.finding)


def test_what_is_not_a_sum_with_noise_is_left_to_the_outputs() -> None:
    claim = parse_claim(1, 0)
    for program in (
        lambda rows: abs(len(rows) + np.random.laplace()),
        lambda rows: [np.random.laplace(), np.random.normal()],
        lambda rows: len(rows),
    ):
        assert replay_program(program, claim, ONE_MORE) is None


def test_a_run_with_canaries() -> None:
    def scores(included: np.ndarray) -> np.ndarray:
        return included + np.random.default_rng(1).normal(size=len(included))

    assert not audit.run(scores, claim=20, canaries=500).violates
    assert audit.run(lambda included: included * 1.0, claim=1, canaries=500).violates


def test_the_check_of_other_suites() -> None:
    assert audit.assert_private(counted, 1, neighbours=ONE_MORE, **SMALL).samples == 2000
    with pytest.raises(AssertionError, match="best output set"):
        audit.assert_private(len, 1, neighbours=ONE_MORE, **SMALL)


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        (len, {"neighbours": []}, "SF-A101"),
        (3, {}, "SF-A101"),
        (lambda rows: 1 / 0, {"neighbours": ONE_MORE}, "SF-A105"),
        (len, {"samples": 10}, "SF-A101"),
    ],
)
def test_mistakes_are_refused(target: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        audit.run(target, 1, **({"samples": 1000} | options))
    assert refused.value.code == code


def test_rows_with_labels_are_neighbours_too() -> None:
    """Pairs of arrays of different shapes have no shape of their own, and are described all the same."""
    rows, labels = np.ones((40, 2)), np.arange(40)
    told = describe_pair((rows, labels), (rows[1:], labels[1:]))
    assert " and " in told
    assert len(told) < 200
