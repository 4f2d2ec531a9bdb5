"""Questions asked together, replayed on two tables that differ by one person: the one price holds for all."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit.replay import replay
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.sensitivity import ContributionBounds
from sfumato.curator.plan.together import plan
from sfumato.curator.plan.together.pool import Pool, StrategyItem

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    made = sf.create(tmp_path / "lab")
    draw = np.random.default_rng(3)
    who = np.array([0] * 20 + draw.integers(1, 30, 100).tolist())
    rows = pa.table({"who": who, "ward": draw.choice(["A", "B"], 120), "sex": draw.choice(["f", "m"], 120)})
    columns = {"ward": sf.one_of("A", "B"), "sex": sf.one_of("f", "m")}
    unit = sf.Unit("who", max_rows=5)
    made.register("full", rows, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000))
    made.register("rest", rows.filter(pa.array(who != 0)), unit=unit, columns=columns)
    return made


def _ask(lab: sf.Lab, epsilon: float) -> Any:
    def released(table: str) -> list[Any]:
        asked = [
            f"SELECT {keys}, COUNT(*) AS n FROM {table} GROUP BY {keys}" for keys in ("ward", "ward, sex")
        ]
        answers = lab.session().ask_together(asked).release(epsilon=epsilon)
        return [each.to_arrow().to_pydict() for each in answers]

    return replay(released, [("full", "rest")], claim=epsilon)


def test_questions_together_keep_their_price(lab: sf.Lab) -> None:
    found = _ask(lab, 1)
    assert found.finding is None
    assert found.reached == 1


def test_too_little_noise_is_caught(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise for one row of a person who has five."""
    monkeypatch.setattr(ResolvedQuestion, "contribution", ContributionBounds(rows=1, cells=1, each=1))
    assert _ask(lab, 1).violates


def test_parts_that_add_up_to_more_than_the_spend_are_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strategy that gives every marginal the whole spend costs more than is claimed."""

    def give_all(pool: Pool, spend: Any) -> tuple[StrategyItem, ...]:
        return tuple(StrategyItem(keys, pool.names[0], Fraction(1)) for keys in ((0,), (0, 1)))

    monkeypatch.setattr(plan, "plan_strategy", give_all)
    assert _ask(lab, 1).violates
