"""What questions cost beside what their noise tells at most: never less, and at most 1.3 times as much.

The truth is summed in high precision from the noise that is drawn and the worst rows that a unit can have.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Table
from sfumato.curator.plan.graphs import plan_degrees
from sfumato.curator.plan.plan import QuestionPlan, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.noise import LaplaceNoise, RangeSums, ThresholdedNoise, TruncatedGeometric
from sfumato.oracle.blocks import COUNT, SumBlock, calibrate_noise
from sfumato.privacy.account import NAT, ORDERS, Cost, price
from sfumato.queries.sql import parse_question

Truth = Callable[[float], mp.mpf]

MOST = 1.3


def _shift(scale: Fraction, move: int) -> Truth:
    """The divergence of integer Laplace noise moved so far: tails in closed form, the rest term by term."""

    def at(order: float) -> mp.mpf:
        r, alpha = mp.e ** (-mp.mpf(scale.denominator) / scale.numerator), mp.mpf(order)
        middle = mp.fsum(r ** (alpha * x + (1 - alpha) * (move - x)) for x in range(1, move))
        tails = (r ** ((1 - alpha) * move) + r ** (alpha * move)) / (1 - r)
        return mp.log((1 - r) / (1 + r) * (middle + tails)) / (alpha - 1)

    return at


def _total(parts: list[tuple[int, Truth]]) -> Truth:
    return lambda order: mp.fsum(times * truth(order) for times, truth in parts)


def _check(cost: Cost, truth: Truth) -> None:
    with mp.workdps(40):
        for order, paid in zip(ORDERS, cost.renyi, strict=True):
            known = truth(order) * NAT
            assert known <= paid <= MOST * known, (order, float(paid / known))


def _plan(
    sql: str, epsilon: Fraction, rows: int, bounds: ContributionLimits | None = None, wards: int = 200
) -> QuestionPlan:
    columns = {"ward": sf.between(1, wards, step=1), "age": sf.between(0, 4, step=1), "note": sf.text()}
    table = Table("t", sf.Unit("who", max_rows=rows), columns)
    asked = ResolvedQuestion(lambda _: table, replace(parse_question(sql), bounds=bounds))
    return price_question(asked, PureSpend(epsilon, Fraction(1, 10**6)))


def _scale(plan: QuestionPlan) -> Fraction:
    noise = plan.measured[0].noise
    assert isinstance(noise, LaplaceNoise)
    return noise.scale


@pytest.mark.parametrize("groups", [5, 20, 100])
@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 10), Fraction(2)])
def test_a_unit_that_is_counted_in_many_groups(groups: int, epsilon: Fraction) -> None:
    plan = _plan("SELECT ward, COUNT(DISTINCT who) AS n FROM t GROUP BY ward", epsilon, groups)
    _check(plan.cost, _total([(groups, _shift(_scale(plan), 1))]))


@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(age)"])
def test_a_unit_with_a_bound_on_rows_in_each_group(what: str) -> None:
    plan = _plan(
        f"SELECT ward, {what} AS n FROM t GROUP BY ward", Fraction(1, 5), 23, ContributionLimits(8, 3)
    )
    bound = plan.measured[0].of.bound
    _check(plan.cost, _total([(7, _shift(_scale(plan), 3 * bound)), (1, _shift(_scale(plan), 2 * bound))]))


@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 10)])
def test_sums_over_ranges(epsilon: Fraction) -> None:
    tree = RangeSums.calibrated(1024, epsilon, rows=2)
    assert isinstance(tree.noise, LaplaceNoise)
    _check(price(tree.event(2)), _total([(tree.tree.height, _shift(tree.noise.scale, 2))]))


@pytest.mark.parametrize(("shares", "levels"), [("MEDIAN(age) AS m", 1), ("MIN(age) AS m", 1)])
def test_quantiles_over_groups(shares: str, levels: int) -> None:
    """The worst choice has many candidates on either side; the weight of one side is searched for."""
    epsilon, groups = Fraction(1, 5), 20
    plan = _plan(
        f"SELECT ward, {shares} FROM t GROUP BY ward", epsilon, groups, ContributionLimits(groups, 1)
    )

    def worst(order: float) -> mp.mpf:
        # A fiftieth of ε is for the counts around the places chosen.
        width, alpha = mp.mpf(49) / 50 / 100 / levels, mp.mpf(order)
        odds = [alpha * width * at / 40 for at in range(41)]
        return max(_two_ratios(odd, width, alpha) for odd in odds)

    counts = _shift(Fraction(50 * groups) / epsilon, 1)
    _check(plan.cost, _total([(groups * levels, worst), (groups, counts)]))


def _two_ratios(odds: mp.mpf, width: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    p = 1 / (1 + mp.e**odds)
    moment = mp.log(p + (1 - p) * mp.e ** (-alpha * width)) - alpha * mp.log(p + (1 - p) * mp.e**-width)
    return moment / (alpha - 1)


def test_the_degrees_of_a_graph() -> None:
    table = Table("calls", sf.Node("a", "b", max_degree=9), {})
    plan = plan_degrees(table, lambda _table, _needs: PureSpend(Fraction(1, 5)))
    noise = plan.steps[0].numbers.noise
    assert isinstance(noise, LaplaceNoise)
    _check(plan.cost, _total([(1, _shift(noise.scale, 10)), (8, _shift(noise.scale, 1))]))


# ---- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [10, 50])
def test_keys_with_gaussian_noise(groups: int) -> None:
    """The noise of the keys alone: beside the δ, whose losses above ε the price leaves out."""
    keys = ThresholdedNoise(Fraction(1, 5), Fraction(1, 10**8), groups, gaussian=True)
    cost, sigma = price(keys.event()), mp.mpf(float(keys.noise().spread))
    for order, paid in zip(ORDERS, cost.renyi, strict=True):
        assert paid <= MOST * order * groups / (2 * sigma**2) * NAT
    assert (cost.pure, cost.side) == (NAT // 5, -(-(2**60) // 10**8))


@pytest.mark.parametrize("kind", [ThresholdedNoise, TruncatedGeometric])
def test_keys_of_which_a_unit_has_several(kind: type[ThresholdedNoise] | type[TruncatedGeometric]) -> None:
    keys = kind(Fraction(1, 5), Fraction(1, 10**8), 20)
    _check(price(keys.event()), _total([(20, _shift(Fraction(100), 1))]))


def test_a_question_that_discovers_its_groups() -> None:
    plan = _plan("SELECT note, COUNT(DISTINCT who) AS n FROM t GROUP BY note", Fraction(1, 5), 12)
    scale = _scale(plan)
    with mp.workdps(40):
        for order, paid in zip(ORDERS, plan.cost.renyi, strict=True):
            counts = 12 * _shift(scale, 1)(order) * NAT
            assert counts <= paid <= 4 * counts  # the keys have as much of ε as the counts


def test_the_sums_of_a_learner() -> None:
    """Twelve counts of which a row adds to each, with two rows a unit, share one noise."""
    block = SumBlock((COUNT,) * 12, 12, 12, moves=((1, 12),))
    noisy = calibrate_noise(block, PureSpend(Fraction(1, 5)), 2, replaced=False)
    assert isinstance(noisy.noise, LaplaceNoise)
    _check(price(noisy.event()), _total([(12, _shift(noisy.noise.scale, 2))]))
