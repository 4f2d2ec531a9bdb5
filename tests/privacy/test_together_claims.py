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
from sfumato.curator.plan.sensitivity import ContributionBounds, SumSensitivity
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.together import plan
from sfumato.curator.plan.together.pool import Pool, StrategyItem
from sfumato.privacy.events import Gaussian

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    made = sf.create(tmp_path / "lab")
    draw = np.random.default_rng(3)
    who = np.array([0] * 20 + draw.integers(1, 30, 100).tolist())
    rows = pa.table(
        {
            "who": who,
            "ward": np.where(who == 0, "A", draw.choice(["A", "B"], 120)),
            "sex": draw.choice(["f", "m"], 120),
            "cost": np.where(who == 0, 9, draw.integers(0, 10, 120)),
            "age": np.where(who == 0, 99, draw.integers(0, 100, 120)),
        }
    )
    columns = {
        "ward": sf.one_of("A", "B"),
        "sex": sf.one_of("f", "m"),
        "cost": sf.between(0, 9, step=1),
        "age": sf.between(0, 99, step=1),
    }
    unit = sf.Unit("who", max_rows=5)
    made.register("full", rows, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000, delta=1e-6))
    made.register("rest", rows.filter(pa.array(who != 0)), unit=unit, columns=columns)
    return made


COUNTS = [f"SELECT {keys}, COUNT(*) AS n FROM {{}} GROUP BY {keys}" for keys in ("ward", "ward, sex")]
AVERAGES = [
    "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, AVG(age) AS age FROM {} GROUP BY ward",
    "SELECT ward, sex, AVG(cost) AS cost FROM {} GROUP BY ROLLUP (ward, sex)",
]


def _ask(lab: sf.Lab, questions: list[str], **spend: float) -> Any:
    def released(table: str) -> list[Any]:
        asked = lab.session().ask_together([each.format(table) for each in questions])
        return [each.to_arrow().to_pydict() for each in asked.release(**spend)]

    claim = Gaussian((2 * spend["rho"]) ** -0.5) if "rho" in spend else spend["epsilon"]
    return replay(released, [("full", "rest")], claim=claim)


def test_questions_together_keep_their_price(lab: sf.Lab) -> None:
    found = _ask(lab, COUNTS, epsilon=1)
    assert found.finding is None
    assert found.reached == 1


def test_too_little_noise_is_caught(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise for one row of a person who has five."""
    monkeypatch.setattr(ResolvedQuestion, "contribution", ContributionBounds(rows=1, cells=1, each=1))
    assert _ask(lab, COUNTS, epsilon=1).violates


@pytest.mark.parametrize("spend", [{"epsilon": 1}, {"rho": 0.5}])
def test_shapes_together_keep_their_price(lab: sf.Lab, spend: dict[str, float]) -> None:
    """Of several columns and at several levels, with Laplace and Gaussian noise."""
    found = _ask(lab, AVERAGES, **spend)
    assert found.finding is None
    assert found.reached > 0.8


@pytest.mark.parametrize("spend", [{"epsilon": 1}, {"rho": 0.5}])
def test_shapes_with_too_little_noise_are_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch, spend: dict[str, float]
) -> None:
    """Noise for coordinates that rows move by half of what they do."""
    right = ContributionBounds.shape_sensitivity

    def halve(self: ContributionBounds, width: int) -> SumSensitivity:
        found = right(self, width)
        return SumSensitivity(-(-found.l1 // 2), -(-found.l2_squared // 4))

    monkeypatch.setattr(ContributionBounds, "shape_sensitivity", halve)
    monkeypatch.setattr(ShapedSum, "__post_init__", lambda self: None)
    assert _ask(lab, AVERAGES, **spend).violates


def test_parts_that_add_up_to_more_than_the_spend_are_caught(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strategy that gives every marginal the whole spend costs more than is claimed."""

    def give_all(pool: Pool, spend: Any) -> tuple[StrategyItem, ...]:
        return tuple(StrategyItem(keys, pool.names[0], Fraction(1)) for keys in ((0,), (0, 1)))

    monkeypatch.setattr(plan, "plan_strategy", give_all)
    assert _ask(lab, COUNTS, epsilon=1).violates
