"""Memory and time of a synthesis follow from public facts, and what would take too much is refused first."""

from __future__ import annotations

import tracemalloc
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.program import IntegerKeys
from sfumato.synth import graphical_model, work_limits
from sfumato.synth.graphical_model import NoisyMarginal, estimate


def make_session(folder: Path, columns: dict[str, Any]) -> Any:
    rows = {name: np.arange(30) % 3 for name in columns}
    lab = sf.create(folder / "lab")
    lab.register(
        "visits",
        pa.table({**rows, "who": np.arange(30)}),
        unit=sf.Unit("who", max_rows=1),
        columns=columns,
        budget=sf.Budget(epsilon=50, delta=1e-6),
    )
    return lab.session()


WIDE = {name: sf.between(0, 4000, step=1, missing=0) for name in "abcd"}
REFUSED: list[dict[str, Any]] = [
    {"max_cells": work_limits.MOST_TREE + 1},
    {"method": "mst", "bins": 2048},
    {"method": "mst", "bins": 64, "max_cells": 1000},
]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_may_take_too_much_memory_is_refused_before_the_charge(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    session = make_session(tmp_path, WIDE)
    before = str(session.budget)
    for ask in (session.fit, session.quote):
        with pytest.raises(sf.errors.UsageError, match="SF-E230"):
            ask(sf.synth.Marginals(rho=0.1, **kind), table="visits", columns=list(WIDE))
    assert str(session.budget) == before


def test_all_that_a_choice_compares_is_bounded() -> None:
    columns = {f"x{at}": WIDE["a"] for at in range(40)}
    made = sf.synth.Marginals(rho=1, bounds=columns, bins=1000, workload=2, max_cells=work_limits.MOST_TREE)
    with pytest.raises(sf.errors.UsageError, match="SF-E230"):
        made.quote()


def test_what_was_answered_before_a_limit_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path, WIDE)
    asked = {"rho": 0.1, "method": "mst", "bins": 4}
    first = session.fit(sf.synth.Marginals(**asked), table="visits", columns=list("abcd"))
    monkeypatch.setattr(work_limits, "MOST_TREE", 1)
    before = str(session.budget)
    again = session.fit(sf.synth.Marginals(**asked), table="visits", columns=list("abcd"))
    assert again.sample(5, seed=0).equals(first.sample(5, seed=0))
    assert str(session.budget) == before


def test_exact_counts_of_large_marginals_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The triples of eight columns of 64 values have 117 MB of counts."""
    monkeypatch.setattr("sfumato.synth.measuring.KEPT", 2**18)
    random = np.random.default_rng(0)
    rows = {f"x{at}": random.integers(0, 64, 200) for at in range(8)}
    bounds = {name: sf.between(0, 63, step=1, missing=0) for name in rows}
    tracemalloc.start()
    try:
        sf.synth.Marginals(rho=1, bounds=bounds, workload=3).fit(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**26


@pytest.mark.parametrize("kept", [0, 100])
def test_counts_that_are_not_kept_are_counted_anew(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr("sfumato.synth.measuring.KEPT", kept)
    rows = {name: np.arange(300) % size for name, size in (("a", 3), ("b", 4), ("c", 5))}
    bounds = {name: sf.one_of(*range(5), missing=0) for name in rows}
    drawn = sf.synth.Marginals(rho=1000, bounds=bounds).fit(rows).sample(300, seed=0)
    assert np.abs(np.bincount(np.array(drawn["a"]), minlength=5) - [100, 100, 100, 0, 0]).sum() < 15


def test_expected_passes_grow_with_cells() -> None:
    columns = {name: sf.between(0, 4000, step=1) for name in "abc"}
    few, many = (
        sf.synth.Marginals(rho=1, bounds=columns, bins=bins)._declare(list("abc")).passes for bins in (8, 60)
    )
    assert many > 2 * few


def test_counts_of_one_fit_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.synth.selection.MOST_RELEASED", 60)
    rows = {name: np.arange(900) // step % 4 for name, step in (("a", 1), ("b", 1), ("c", 3))}
    bounds = {name: sf.one_of(*range(4), missing=0) for name in rows}
    fitted = sf.synth.Marginals(rho=1000, bounds=bounds).fit(rows)
    sizes = [each.counts.size for each in fitted.released.measured]
    assert sum(sizes) > 60, "rounds go on with the smallest marginal"
    assert max(sizes) <= 16


def test_a_tree_that_memory_does_not_hold_leaves_the_last_marginals_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphical_model, "_LARGEST", 40)
    parts = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    measured = [NoisyMarginal(each, np.full((4,) * len(each), 10.0), 1.0) for each in parts]
    model = estimate([4, 4, 4], measured, 5)
    assert model.tree.cells <= 40
    assert model.tree.find_clique((0, 1)) >= 0


HUGE = [10**400, -(10**400), 2**64, "99999999999999999-01-01", float("inf"), b"x", [1], None]


@pytest.mark.parametrize("declared", [sf.between(date(2020, 1, 1), date(2020, 12, 31)), sf.one_of(1, 2)])
def test_no_value_of_an_own_row_is_an_error(declared: Any) -> None:
    given = np.empty(len(HUGE) + 1, dtype=object)
    given[:] = [*HUGE, date(2020, 5, 5)]
    kinds = [given, np.array(["NaT"], dtype="datetime64[ns]"), np.array([2**64 - 1], dtype=np.uint64)]
    for each in kinds:
        fitted = sf.synth.Marginals(rho=1, bounds={"day": declared}).fit({"day": each})
        assert len(fitted.sample(3)) == 3
    with pytest.raises(sf.errors.UsageError, match="SF-E110"):
        sf.synth.Marginals(rho=1, bounds={"a": declared, "b": declared}).fit({"a": given, "b": given[:2]})


def test_keys_of_integers_are_tuples_that_take_little_room() -> None:
    keys = IntegerKeys(np.array([[1, 2], [3, 4]]))
    assert list(keys) == [(1, 2), (3, 4)]
    assert keys[1] == (3, 4)
    assert list(keys[:1]) == [(1, 2)]
