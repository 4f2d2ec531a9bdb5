"""How far one unit moves all marginals of questions asked together, in the norms of their noise."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.curator.plan.steps import PooledSums
from sfumato.curator.plan.together.plan import plan_together
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privacy.test_sensitivity import Beside

SPENDS = {
    "pure": PureSpend(Fraction(1)),
    "gaussian": GaussianSpend(Fraction(2), "two"),
}
COUNT = "SELECT {keys}, COUNT(*) AS n FROM visits GROUP BY {keys}"
WORKLOADS = {
    "chain": ["SELECT COUNT(*) AS n FROM visits", COUNT.format(keys="ward"), COUNT.format(keys="ward, flag")],
    "cycle": [COUNT.format(keys=keys) for keys in ("ward, flag", "flag, ok", "ward, ok")],
    "averages": [
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward",
        "SELECT ward, flag, COUNT(*) AS n FROM visits GROUP BY ward, flag",
        "SELECT SUM(cost) AS s, COUNT(DISTINCT who) AS p FROM visits",
    ],
    "two averages": [
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS c, AVG(tip) AS t FROM visits GROUP BY ward",
        "SELECT flag, VARIANCE(stay) AS v FROM visits GROUP BY flag",
    ],
    "levels of averages": ["SELECT ward, flag, AVG(cost) AS c FROM visits GROUP BY ROLLUP (ward, flag)"],
    "levels": ["SELECT ward, flag, COUNT(*) AS n, SUM(gain) AS g FROM visits GROUP BY CUBE (ward, flag)"],
}


def nearest_to_price(worlds: Beside, workload: str, spend: str) -> Fraction:
    """How near to the one price the unit that moves furthest comes; and none moves further."""
    chosen = SPENDS[spend]
    tables = worlds.world.tables.__getitem__
    asked = [ResolvedQuestion(tables, parse_question(sql)) for sql in WORKLOADS[workload]]
    plan = plan_together(asked, chosen)
    pure = isinstance(chosen, PureSpend)
    price = chosen.epsilon if isinstance(chosen, PureSpend) else 1 / chosen.multiplier**2
    steps = [step for step in plan.steps if isinstance(step, PooledSums)]
    answers = [worlds.answers(step, "people") for step in steps]
    costs = [
        sum(_spent(step, own[0], own[other], pure) for step, own in zip(steps, answers, strict=True))
        for other in range(1, len(answers[0]))
    ]
    charged = plan.event.pure()
    assert charged is None or charged <= price
    assert max(costs) <= price
    return max(costs) / price


def list_moved(step: PooledSums, one: Any, other: Any) -> Iterator[tuple[Any, int, int]]:
    """Yield each sum or shape with what a unit moves it by: in the norm of its noise, and in l2, squared."""
    at = 0
    for each in step.measured:
        many = len(each.sums) if isinstance(each, ShapedSum) else 1
        yield each, *_moved(each, one[at : at + many], other[at : at + many])
        at += many


def _moved(each: Any, one: Any, other: Any) -> tuple[int, int]:
    parts = [each.shape.compute(rows) if isinstance(each, ShapedSum) else rows for rows in (one, other)]
    apart = np.asarray(parts[0], dtype=object) - np.asarray(parts[1], dtype=object)
    simplices = isinstance(each.noise, JointNoise)
    norm = int(each.noise.norms(apart).sum()) if simplices else int(np.abs(apart).sum())
    return norm, int((apart**2).sum())


def _spent(step: PooledSums, one: Any, other: Any, pure: bool) -> Fraction:
    """Return what the removal of one unit costs by what it moved, and check each norm against its price."""
    total = Fraction(0)
    for each, norm, squares in list_moved(step, one, other):
        # A shape bounds what a row does in the norm of its noise.
        assert norm <= each.sensitivity.l1 or not pure
        assert squares <= each.sensitivity.l2_squared or isinstance(each.noise, JointNoise)
        if each.noise is not None:
            spread = each.noise.scale if isinstance(each.noise, JointNoise) else each.noise.spread
            total += norm / spread if pure else squares / spread**2
    return total
