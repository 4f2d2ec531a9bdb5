"""Without noise, questions asked together have the answers that each has alone, for everybody who may ask.

Every mechanism gives its exact input, by the hook for auditors; what is compared went the whole way of a
release. So a sum that is lost, taken for another one, or computed from the wrong marginals is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.release import Release
from sfumato.noise.audit_hook import MechanismCall, recording

NUMBERS = [
    "COUNT(*)",
    "COUNT(x)",
    "SUM(x)",
    "AVG(x)",
    "SUM(y)",
    "AVG(y)",
    "AVG(z)",
    "SUM(z)",
    "SUM(x + y)",
    "COUNT(*) FILTER (WHERE sex = 'f')",
    "VARIANCE(y)",
    "AVG(wide)",
    "SUM(wide)",
]
GROUPS = ["", "ward", "sex", "ward, sex", "k", "sex, k", "ROLLUP (ward, sex)", "CUBE (ward, sex)"]
SPENDS = [
    *({"epsilon": epsilon} for epsilon in (0.001, 0.03, 1, 10)),
    {"epsilon": 1, "delta": 1e-6},
    {"rho": 0.1},
    {"rho": 1e-6},
    {"share": 1e-6},
]
COLUMNS = {
    "ward": sf.one_of("A", "B", "C"),
    "sex": sf.one_of("f", "m", missing="f"),
    "k": sf.between(0, 29, step=1, missing=0),
    "x": sf.between(-10, 31, step=1),
    "y": sf.between(3, 8, step=1, missing=3),
    "z": sf.between(-5, 5, step=1),
    "wide": sf.between(100, 2000, step=1, missing=100),
}
UNITS: dict[str, dict[str, Any]] = {
    "add": {"unit": sf.Unit("who", max_rows=1)},
    "several": {"unit": sf.Unit("who", max_rows=2)},
    "replace": {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "rows": 400},
}


class Exact:
    """Gives what a mechanism was given."""

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        return np.asarray(call.exact)


def _rows(owners: str) -> pa.Table:
    draw = np.random.default_rng(5)
    some = {name: draw.integers(low, high, 400) for name, low, high in RANGES}
    nulls = {name: pa.array(some[name], mask=draw.random(400) < 0.1) for name in ("x", "z")}
    wards = draw.choice(["A", "B", "C"], 400)
    ward = pa.array([None if at % 9 == 0 else each for at, each in enumerate(wards)])
    who = np.arange(400) // (2 if owners == "several" else 1)
    return pa.table({"who": who, "ward": ward, "sex": draw.choice(["f", "m"], 400), **some, **nulls})


RANGES = [("k", 0, 30), ("x", -10, 32), ("y", 3, 9), ("z", -5, 6), ("wide", 100, 2001)]


def make_lab(path: Any, kind: str) -> Any:
    """Return a lab with two analysts: the quota of one has a δ, that of the other has none."""
    lab = sf.create(path / kind)
    budget = sf.Budget(epsilon=1e9, delta=1e-2)
    lab.register("t", _rows(kind), columns=COLUMNS, budget=budget, **UNITS[kind])
    lab.grant("pure", epsilon=1e8)
    lab.grant("approximate", epsilon=1e8, delta=1e-3)
    return lab


def draw_questions(draw: np.random.Generator) -> list[str]:
    """Return two or three questions about one to three numbers each."""
    found = []
    for _ in range(int(draw.integers(2, 4))):
        groups = str(draw.choice(GROUPS))
        shown = groups.replace("ROLLUP (", "").replace("CUBE (", "").rstrip(")")
        many = draw.choice(len(NUMBERS), int(draw.integers(1, 4)), replace=False)
        numbers = ", ".join(f"{NUMBERS[at]} AS n{place}" for place, at in enumerate(many))
        by = f" GROUP BY {groups}" if groups else ""
        found.append(f"SELECT {shown + ', ' if shown else ''}{numbers} FROM t{by}")
    return found


def compare(lab: Any, asked: list[str], spend: dict[str, float], order: tuple[str, str]) -> None:
    """Compare answers together, alone, and replayed by another analyst."""
    first, second = (lab.session(who) for who in order)
    if "epsilon" not in spend or "delta" in spend:
        first = second = lab.session("approximate")
    with recording(Exact()):
        assert first.ask_together(asked).quote(**spend).error()
        together = first.ask_together(asked).release(**spend)
        again = second.ask_together(asked).release(**spend)
        alone = [plain_numbers(first.sql(sql).release(epsilon=1000)) for sql in asked]
    assert all(each.receipt.replayed for each in again)
    for one, other, expected in zip(together, again, alone, strict=True):
        assert one.to_arrow() == other.to_arrow()
        assert one.interval() == other.interval()
        assert_equal(plain_numbers(one).to_arrow(), expected.to_arrow())


def plain_numbers(release: Release) -> Release:
    """Return all groups of an answer whose averages and variances are plain quotients of its sums."""
    every = release.all_groups()
    silent = (NoiseLaw.of(None),) * len(every._answer.laws)
    return every._copy(_answer=replace(every._answer, laws=silent))


def assert_equal(found: pa.Table, expected: pa.Table) -> None:
    """Check that all numbers of two answers are the same, up to rounding."""
    assert found.schema == expected.schema
    for name in expected.column_names:
        for one, other in zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True):
            both = isinstance(one, float) and isinstance(other, float)
            assert one == (pytest.approx(other, rel=1e-9, abs=1e-9) if both else other), name


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {kind: make_lab(tmp_path_factory.mktemp("exact"), kind) for kind in UNITS}


@pytest.mark.parametrize("kind", UNITS)
def test_answers_without_noise_are_those_of_each_question_alone(labs: dict[str, Any], kind: str) -> None:
    draw = np.random.default_rng(len(kind))
    spend = SPENDS[int(draw.integers(len(SPENDS)))]
    compare(labs[kind], draw_questions(draw), spend, ("approximate", "pure"))


def test_sums_beside_a_public_number_of_rows_are_not_lost(labs: dict[str, Any]) -> None:
    """However much more noise they have than a number that has none."""
    asked = ["SELECT COUNT(*) AS n FROM t", "SELECT k, SUM(y) AS s FROM t GROUP BY k"]
    compare(labs["replace"], asked, {"epsilon": 0.0001}, ("approximate", "pure"))


def test_a_sum_of_two_shapes_is_read_as_one(labs: dict[str, Any]) -> None:
    asked = [
        "SELECT AVG(x) AS a, SUM(x) AS s FROM t",
        "SELECT sex, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY sex",
    ]
    compare(labs["add"], asked, {"epsilon": 1}, ("pure", "approximate"))
