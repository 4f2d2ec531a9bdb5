"""The door itself, replayed: a lab's questions on two tables that differ by one patient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.sensitivity import ContributionBounds
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.errors import UsageError

COLUMNS = {"age": sf.between(0, 110), "cost": sf.between(-50, 5000), "ward": sf.one_of("A", "B", "C")}
QUESTIONS = [
    "SELECT COUNT(*) AS n FROM {table}",
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM {table} WHERE age >= 65 GROUP BY ward",
    "SELECT SUM(cost) AS total, AVG(age) AS age FROM {table} WHERE NOT ward = 'A'",
    "SELECT ward, SUM(age) AS age FROM {table} WHERE age < 20 OR cost > 100 GROUP BY ward",
    "SELECT COUNT(DISTINCT who) AS people FROM {table}",
    "SELECT ward, COUNT(DISTINCT who) AS people, STDDEV(cost) AS spread FROM {table} GROUP BY ward",
    "SELECT VAR_POP(age) AS age FROM {table} WHERE cost > 100",
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, AVG(age) AS age, SUM(age) FROM {table} GROUP BY ward",
]


def visits(rng: np.random.Generator, patients: int) -> pa.Table:
    """The first patient has many and extreme visits."""
    who = [0] * 40 + rng.integers(1, patients, size=100).tolist()
    rows = len(who)
    return pa.table(
        {
            "who": who,
            "age": np.where(np.arange(rows) < 40, 200.0, rng.uniform(0, 120, rows)),
            "cost": np.where(np.arange(rows) < 40, 1e9, rng.normal(500, 2000, rows)),
            "ward": rng.choice(["A", "B", "C", "D"], rows),
        }
    )


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    made = sf.create(tmp_path / "clinic")
    rng = np.random.default_rng(5)
    full = visits(rng, 30)
    budget, unit = sf.Budget(epsilon=1000), sf.Unit("who", max_rows=7)
    made.register("full", full, unit=unit, columns=COLUMNS, budget=budget)
    for patient in (0, 1, 2):
        rest = full.filter(pa.array([who != patient for who in full["who"].to_pylist()]))
        made.register(f"without{patient}", rest, unit=unit, columns=COLUMNS)
    return made


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_door_keeps_its_price(lab: sf.Lab, sql: str) -> None:
    found = [audit.question(lab, sql, ("full", f"without{who}"), epsilon=1 + who) for who in (0, 1, 2)]
    assert [each.finding for each in found] == [None] * 3
    assert max(each.reached for each in found) > 0.3


def test_a_door_that_prices_rows_and_not_people_is_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_row = ContributionBounds(rows=1, cells=1, each=1)
    monkeypatch.setattr(ResolvedQuestion, "contribution", one_row)
    found = audit.question(lab, QUESTIONS[0], ("full", "without0"), epsilon=1)
    assert found.finding == "the input of call 1 moved by 7, priced for 1"


@pytest.mark.parametrize("sql", [QUESTIONS[1], QUESTIONS[-1]])
def test_a_door_whose_shape_is_too_narrow_is_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """Noise for half of what a row adds to all coordinates together, as if it had one side alone."""
    found = ContributionBounds.shape_sensitivity
    monkeypatch.setattr(ContributionBounds, "shape_sensitivity", lambda self, width: found(self, width // 2))
    monkeypatch.setattr(ShapedSum, "__post_init__", lambda self: None)
    caught = audit.question(lab, sql, ("full", "without0"), epsilon=1)
    assert caught.finding is not None
    assert "priced for" in caught.finding


def test_an_answer_from_the_ledger_is_not_audited(lab: sf.Lab) -> None:
    lab.session().sql(QUESTIONS[0].format(table="full")).release(epsilon=1)
    with pytest.raises(UsageError) as refused:
        audit.question(lab, QUESTIONS[0], ("full", "without0"), epsilon=1)
    assert refused.value.code == "SF-A106"
