"""How far one unit moves the coordinates of shaped sums, in the norm of their noise. No noise is drawn."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance.worlds import SPEND
from sfumato.curator.plan.plan import QuestionPlan, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.curator.plan.steps import Choices, DiscoveredKeys

if TYPE_CHECKING:
    from privacy.test_sensitivity import Beside
    from sfumato.curator.plan.shaped.shapes import Shape
    from sfumato.curator.plan.steps import QuestionStep
    from sfumato.curator.question.measurement import Question

SHAPED = PureSpend(SPEND.epsilon, SPEND.delta, shaped=True)

ASKED = {
    "average of a nullable column": "SELECT COUNT(*) AS n, AVG(cost) AS c FROM visits",
    "average alone": "SELECT AVG(gain) AS g FROM visits",
    "average of a full column": "SELECT COUNT(*) AS n, AVG(tip) AS t FROM visits",
    "everything of one column": """SELECT ward, COUNT(*) AS n, COUNT(stay) AS k, SUM(stay) AS s,
        AVG(stay) AS a FROM visits GROUP BY ward""",
    "sum and count": "SELECT COUNT(*) AS n, SUM(gain) AS g FROM visits",
    "sum of what is there": "SELECT COUNT(born) AS n, SUM(born) AS b FROM visits",
    "two counts": "SELECT COUNT(*) AS n, COUNT(ok) AS k FROM visits",
    "filter": "SELECT COUNT(*) AS n, AVG(cost) FILTER (WHERE ward = 'A') AS a FROM visits",
    "shares": "SELECT AVG(flag) AS f FROM visits",
    "discovered": "SELECT note, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY note",
    "bounded": "SELECT sex, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY sex",
    "variance": "SELECT VARIANCE(tip) AS v, AVG(tip) AS t FROM visits",
    "variance of a nullable column": "SELECT COUNT(*) AS n, VARIANCE(stay) AS v FROM visits",
    "covariance": "SELECT CORR(cost, stay) AS r, COUNT(*) AS n FROM visits",
    "several columns": "SELECT COUNT(*) AS n, AVG(cost) AS c, AVG(tip) AS t, SUM(gain) AS g FROM visits",
}
LEAST = Fraction(9, 10)
GAUSSIAN = GaussianSpend(Fraction(3), "Gaussian")
NO_GAIN = ("average alone", "average of a full column", "shares", "discovered")
"""Questions whose sums have nothing in common that Gaussian noise could gain by, or whose keys need a δ."""


def plan_shaped(worlds: Beside, question: Question) -> QuestionPlan:
    return price_question(ResolvedQuestion(worlds.world.tables.__getitem__, question), SHAPED)


def plan_gaussian(worlds: Beside, question: Question) -> QuestionPlan:
    return price_question(ResolvedQuestion(worlds.world.tables.__getitem__, question), GAUSSIAN)


def nearest_to_gaussian_price(worlds: Beside, plan: QuestionPlan, population: str) -> Fraction:
    """How near to its price, in squares, the unit that moves furthest comes; and none moves further."""
    most = Fraction(0)
    for step in plan.steps:
        if isinstance(step, Choices):
            continue
        shaped = step.measured[0]
        assert isinstance(shaped, ShapedSum)
        assert isinstance(shaped.shape, GaussianShape)
        whole, *others = worlds.answers(step, population)
        for other in others:
            moved = _moved(step, shaped.shape, whole, other)
            share = Fraction(int((moved**2).sum()), shaped.sensitivity.l2_squared)
            assert share <= 1, (plan.question, float(share))
            most = max(most, share)
    return most


def nearest_to_price(worlds: Beside, plan: QuestionPlan, population: str) -> Fraction:
    """How near to its price the unit that moves furthest comes; and none moves further."""
    most = Fraction(0)
    for step in plan.steps:
        if isinstance(step, Choices):
            continue
        shaped = step.measured[0]
        assert isinstance(shaped, ShapedSum)
        whole, *others = worlds.answers(step, population)
        for other in others:
            moved = _moved(step, shaped.shape, whole, other)
            assert (moved >= 0).all()  # every row adds, whatever it holds
            share = Fraction(_norm(shaped.shape, moved), shaped.sensitivity.l1)
            assert share <= 1, (plan.question, float(share))
            squares = int((moved[:, :] ** 2).sum())
            assert shaped.shape.columns or squares <= shaped.sensitivity.l2_squared
            most = max(most, share)
    return most


def _moved(step: QuestionStep, shape: Shape | GaussianShape, one: Any, other: Any) -> Any:
    """How far each coordinate of each cell lies above where it was without the unit."""
    sums = len(shape.sums)
    if isinstance(step, DiscoveredKeys):
        assert other.keys() <= one.keys()
        one, other = (_of_keys(each, list(one), len(step.program.terms)) for each in (one, other))
    exact = [np.array(each[:sums], dtype=object) for each in (one, other)]
    for coordinate in shape.coordinates:
        for each in exact:
            total = sum(w * row for w, row in zip(coordinate.weights, each, strict=True))
            assert not (total % coordinate.divisor).any()
    return shape.compute(exact[0]) - shape.compute(exact[1])


def _of_keys(found: dict[Any, list[int]], keys: list[Any], sums: int) -> Any:
    nothing = [0] * (1 + sums)
    return np.array([found.get(key, nothing)[1:] for key in keys], dtype=object).T


def _norm(shape: Shape, moved: Any) -> int:
    """The norm of the noise, over all cells."""
    if not shape.columns:
        return int(np.abs(moved).sum())
    total, parts = moved[0], list(moved[1:])
    found = np.zeros(total.shape, dtype=object)
    for size in shape.columns:
        own, parts = parts[:size], parts[size:]
        found = np.maximum(found, sum(map(np.abs, own)) + np.abs(total - sum(own)))
    return int(found.sum())
