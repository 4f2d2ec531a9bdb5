"""Gaussian noise in the shape of what a row does: its width, errors and prices, and what is kept of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from operator import le

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.answers.answer import match_kept_form, noise_laws, read_answer
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.plan import QuestionPlan, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.curator.plan.steps import GAUSSIAN
from sfumato.errors import UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.bodies.ellipsoid import fit_ellipsoid
from sfumato.queries.sql import parse_question

TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=2),
    {
        "x": sf.between(-10, 30),
        "y": sf.between(0, 7, step=1),
        "full": sf.between(3, 8, step=1, missing=3),
        "flag": sf.one_of(0, 1),
        **{f"c{at}": sf.between(0, 9, step=1) for at in range(12)},
    },
)
SPEND = GaussianSpend(Fraction(4), "Gaussian")
GAIN = [
    "COUNT(*), AVG(x)",
    "COUNT(*), COUNT(x)",
    "COUNT(*), SUM(x)",
    "COUNT(*), COUNT(x), SUM(x), AVG(x)",
    "AVG(x), AVG(y)",
    "SUM(x), SUM(y)",
    "VARIANCE(x), AVG(x)",
    "COUNT(*), STDDEV(full)",
    "CORR(x, y), COUNT(*)",
    "AVG(flag), COUNT(DISTINCT who), COUNT(*)",
    "COUNT(*), COUNT(*) FILTER (WHERE y > 3), COUNT(*) FILTER (WHERE flag = 1)",
]
NO_GAIN = [
    "COUNT(*)",
    "AVG(x)",
    "COUNT(*), AVG(full)",
    "COUNT(*), " + ", ".join(f"AVG(c{at})" for at in range(12)),
]
Exact = Callable[[QuestionPlan, list[dict[str, int | None]]], list[int]]


def _plan(columns: str, spend: GaussianSpend = SPEND) -> QuestionPlan:
    return price_question(
        ResolvedQuestion(lambda _: TABLE, parse_question(f"SELECT {columns} FROM t")), spend
    )


def _variances(plan: QuestionPlan) -> list[float]:
    return [float(1 / law.precision[0]) for law in noise_laws(plan)]


@pytest.mark.parametrize("columns", GAIN)
def test_every_sum_has_less_noise_at_no_higher_price(columns: str) -> None:
    shaped, apart = _plan(columns), _plan(columns, replace(SPEND, shaped=False))
    assert shaped.shaped is not None
    assert all(one < other for one, other in zip(_variances(shaped), _variances(apart), strict=True))
    assert all(map(le, shaped.cost.renyi, apart.cost.renyi))
    assert shaped.request == apart.request


def test_a_nullable_average_gains_what_was_computed() -> None:
    pairs = zip(
        _variances(_plan(GAIN[0])), _variances(_plan(GAIN[0], replace(SPEND, shaped=False))), strict=True
    )
    assert [np.sqrt(apart / shaped) for shaped, apart in pairs] == pytest.approx([1.13, 1.35, 1.10], abs=0.01)


@pytest.mark.parametrize("columns", NO_GAIN)
def test_where_independent_noise_is_as_good_it_stays(columns: str) -> None:
    assert _plan(columns).shaped is None


@pytest.mark.parametrize("columns", GAIN)
def test_the_width_holds_for_every_move_and_is_reached(columns: str) -> None:
    plan = _plan(columns)
    shape, moves = plan.shaped.shape, plan.resolved.row_moves  # type: ignore[union-attr]
    assert isinstance(shape, GaussianShape)
    assert moves is not None
    signs = np.where(moves.alone, -1, 1)
    lengths = [
        sum(int(np.dot(row, move)) ** 2 for row in np.array(shape.weights, dtype=object))
        for each in moves.moves
        for move in (np.array(each, dtype=object), np.array(each, dtype=object) * signs)
    ]
    assert (shape.width - 1) ** 2 < max(lengths) <= shape.width**2


def test_a_kept_answer_is_read_with_the_weights_that_it_has(exact_sums: Exact) -> None:
    rows: list[dict[str, int | None]] = [{"x": 2**15 * at if at % 3 else None} for at in range(30)]
    plan = _plan("COUNT(*), AVG(x)")
    moves, shaped = plan.resolved.row_moves, plan.measured[0]
    assert moves is not None
    assert isinstance(shaped, ShapedSum)
    assert isinstance(shaped.shape, GaussianShape)
    # As another machine may have found them: other weights, and so another width and σ.
    found_here = enumerate(shaped.shape.weights)
    weights = tuple(tuple(7 * w + (i == j) for j, w in enumerate(row)) for i, row in found_here)
    sums = dict(zip(plan.summands, exact_sums(plan, rows), strict=True))
    exact = moves.shape(weights).shape.compute(np.array([[sums[each]] for each in shaped.sums], dtype=object))
    kept = json.dumps([[GAUSSIAN, weights, *exact.tolist()]])
    found = match_kept_form(plan, kept)
    assert read_answer(found, kept).sums[:, 0].tolist() == pytest.approx(list(sums.values()), abs=1e-6)
    assert found.measured[0].noise != shaped.noise
    assert found.request == plan.request


def test_an_answer_from_before_is_read_as_it_was() -> None:
    plan = _plan("COUNT(*), AVG(x)")
    kept = json.dumps([[[30], [20], [12345]]])
    found = match_kept_form(plan, kept)
    assert found.shaped is None
    assert read_answer(found, kept).sums[:, 0].tolist() == [30, 20, 12345]


def test_weights_that_the_moves_are_not_for_are_refused() -> None:
    moves = _plan("COUNT(*), AVG(x)").resolved.row_moves
    assert moves is not None
    mixed = tuple(tuple(1 if i <= j else 0 for j in range(3)) for i in range(3))
    with pytest.raises(UsageError, match="SF-N118"):
        moves.shape(mixed)  # a sum that is alone beside others
    with pytest.raises(UsageError, match="SF-N118"):
        moves.shape(((1,),))
    shaped = _plan("COUNT(*), AVG(x)").measured[0]
    assert isinstance(shaped, ShapedSum)
    with pytest.raises(UsageError, match="SF-N118"):
        replace(shaped, noise=LaplaceNoise(Fraction(1)))


def test_noise_that_cannot_be_drawn_is_not_planned() -> None:
    wide = _plan("COUNT(*), AVG(x)", GaussianSpend(Fraction(6000 * 2**10), "Gaussian"))
    assert wide.shaped is None
    assert isinstance(wide.measured[0].noise, GaussianNoise)


# ---- the ellipsoid -----------------------------------------------------------------------------------------


def test_two_counts_have_the_harm_of_the_golden_ratio() -> None:
    moves = np.array([(1.0, 0.0), (1.0, 1.0)])
    found = fit_ellipsoid(moves, np.zeros((2, 0)), np.eye(2), np.zeros(0))
    covariance = np.linalg.inv(found.factor.T @ found.factor)
    assert np.trace(covariance) == pytest.approx((3 + np.sqrt(5)) / 2, rel=2e-3)
    assert np.linalg.norm(moves @ found.factor.T, axis=1).max() == pytest.approx(1)
    assert found.excess < 1.0011


def test_many_moves_end_near_the_best() -> None:
    rng = np.random.default_rng(1)
    moves, alone = rng.normal(size=(300, 6)), rng.uniform(0, 1, (300, 3))
    found = fit_ellipsoid(moves, alone, np.diag([1.0, 2, 3, 4, 5, 6]), np.ones(3))
    lengths = np.square(moves @ found.factor.T).sum(axis=1) + np.square(alone * found.alone).sum(axis=1)
    assert lengths.max() == pytest.approx(1)
    assert found.excess < 1.01


@pytest.mark.parametrize("columns", ["SUM(x), AVG(x)", "COUNT(*), SUM(x), AVG(x), AVG(y)"])
def test_between_symmetric_bounds_a_total_is_the_sum_of_deviations(columns: str) -> None:
    numbers = {"x": sf.between(-10, 10, step=1), "y": sf.between(0, 7, step=1)}
    table = declare_table("t", sf.Unit("who", max_rows=2), numbers)
    resolved = ResolvedQuestion(lambda _: table, parse_question(f"SELECT {columns} FROM t"))
    priced, alone = price_question(resolved, SPEND), price_question(resolved, replace(SPEND, shaped=False))
    assert priced.cost.renyi[7] <= alone.cost.renyi[7]
