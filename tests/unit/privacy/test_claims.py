"""Events for other people's claims: never below the truth, nothing beyond the claim, and charged safely."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.pld import privacy_loss_distribution as library

import sfumato as sf
from sfumato.errors import BudgetError, UsageError
from sfumato.privacy import (
    ORDERS,
    ApproxDP,
    BestOf,
    Budget,
    Concentrated,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    PrivacyProfile,
    RenyiCurve,
    Sampled,
    Sequential,
    caps,
    delta,
    epsilon,
    from_dict,
    group,
    price,
    renyi_epsilon,
    rho,
)
from sfumato.privacy.gaussian import delta_of

if TYPE_CHECKING:
    from pathlib import Path

STATED = (1.25, 2, 5, 16, 40)


@pytest.mark.parametrize("event", [Gaussian(3), Laplace(2), Sampled(Gaussian(1), 0.01)])
def test_a_curve_read_at_a_few_orders_is_never_below_the_truth(event: Event) -> None:
    claim = RenyiCurve([(order, event.renyi(order) * (1 + 1e-12)) for order in STATED])
    for order in np.linspace(1.01, 40, 97).tolist():
        assert event.renyi(order) <= claim.renyi(order) * (1 + 1e-12)
    for order in STATED:
        assert claim.renyi(order) == pytest.approx(event.renyi(order), rel=1e-11)
    assert claim.renyi(40.001) == math.inf
    assert renyi_epsilon(event, 1e-6) <= epsilon(claim, 1e-6) < 3


def test_convexity_also_lowers_what_was_stated_carelessly() -> None:
    claim = RenyiCurve([(2, 1), (3, 9), (4, 1), (4, 2)])
    assert claim.renyi(3) == pytest.approx(1.0)
    assert claim.renyi(1.0001) <= 1


def test_nothing_is_known_beyond_the_largest_order() -> None:
    claim = RenyiCurve([(8, 0.1)])
    cost = price(Sequential([claim, claim, Gaussian(100)]))
    for order, charged in zip(ORDERS, cost.renyi, strict=True):
        assert (charged > 2**101 * 10**12) == (order > 8)
    # Even the largest budget there can be does not admit it by an order above 8 alone.
    largest = caps(Budget(2**100, Fraction(1, 2)))
    alone = type(cost)(None, (2**200,) * 6 + cost.renyi[6:], 0)
    assert largest.holds(cost)
    assert not largest.holds(alone)
    assert not largest.holds(price(BestOf(RenyiCurve([(1.25, 0.1)]), 0.5)))
    assert epsilon(RenyiCurve([(1.01, 0.1)]), 1e-6) > 0
    for event in (Sampled.fixed(claim, 1, 10), BestOf(claim, 0.5)):
        assert event.renyi(4.0) < 10
        assert event.renyi(400.0) == math.inf


def test_one_stated_pair_is_approximate_dp() -> None:
    claim, known = PrivacyProfile([(1, 1e-6)]), ApproxDP(1, 1e-6)
    assert (claim.pure(), claim.side_delta()) == (known.pure(), known.side_delta())
    assert price(claim) == price(known)
    assert epsilon([claim] * 5, 1e-5) == pytest.approx(epsilon([known] * 5, 1e-5), abs=1e-4)


@pytest.mark.parametrize("many", [2, 12])
def test_more_points_cost_less_and_never_less_than_the_mechanism(many: int) -> None:
    """Points of a Gaussian's profile: the claim lies between the Gaussian and its last point alone."""
    mu = 0.4
    stated = [(e, delta_of(mu, e) * (1 + 1e-9)) for e in np.linspace(0, 2, many).tolist()]
    claim, last = PrivacyProfile(stated), ApproxDP(*stated[-1])
    assert claim.side_delta() == last.side_delta()
    for order in (1.5, 2.0, 8.0):
        # Gaussian noise cut off at the last point: its divergence falls by a hair at most.
        assert Gaussian(1 / mu).renyi(order) * (0.4 if many == 2 else 0.9) < claim.renyi(order)
        assert claim.renyi(order) < last.renyi(order)
    runs: list[list[Event]] = [[Gaussian(1 / mu)] * 6, [claim] * 6, [last] * 6]
    truth, found, worst = (epsilon(run, 1e-4) for run in runs)
    assert truth < epsilon([claim] * 6, 1e-4, lower=True) <= found < worst
    for at in (0.0, 0.3, 1.1, 1.9):
        assert delta_of(mu, at) <= delta(claim, at) + 1e-12


@pytest.mark.parametrize(("sigma", "l1"), [(0.4, 1), (1, 1), (1, 3), (2.5, 2), (30, 4), (1e-3, 1)])
def test_the_discrete_gaussian_against_sums(sigma: float, l1: int) -> None:
    event = DiscreteGaussian(sigma, l1)
    for order in (1.3, 1.5, 2.0, 2.75, 16.0):
        truth = summed_divergence(sigma, l1, order)
        assert abs(event.renyi(order) - truth) <= 1e-11 * (1 + truth)
        assert event.renyi(order) <= float(rho(event)) * order * (1 + 1e-12)


def summed_divergence(sigma: float, l1: int, order: float) -> mp.mpf:
    with mp.workdps(40):
        s, a = mp.mpf(sigma), mp.mpf(order)
        far = int(14 * sigma * math.sqrt(order) + order * l1) + 4

        def weight(x: int) -> mp.mpf:
            return mp.e ** (-(mp.mpf(x) ** 2) / (2 * s * s))

        total = mp.fsum(weight(x) for x in range(-far, far + 1))
        moment = mp.fsum(weight(x - l1) ** a * weight(x) ** (1 - a) for x in range(-far, far + 1))
        return mp.log(moment / total) / (a - 1)


@pytest.mark.parametrize(("sigma", "l1", "times"), [(1, 1, 1), (3, 2, 8), (0.7, 1, 4), (40, 1, 100)])
def test_the_discrete_gaussian_against_another_library(sigma: float, l1: int, times: int) -> None:
    event = DiscreteGaussian(sigma, l1)
    other = library.from_discrete_gaussian_mechanism(sigma, sensitivity=l1).self_compose(times)
    lower, upper = epsilon([event] * times, 1e-5, lower=True), epsilon([event] * times, 1e-5)
    assert lower <= upper <= lower * (1 + 1e-2) + 1e-3
    assert lower <= other.get_epsilon_for_delta(1e-5) <= upper + 1e-4 * times + 1e-3


def test_wide_noise_is_priced_by_its_curve() -> None:
    for sigma in (0.01, 1e6):
        event = DiscreteGaussian(sigma)
        assert 0 <= epsilon(event, 1e-6) == renyi_epsilon(event, 1e-6)
        with pytest.raises(UsageError, match="SF-N309"):
            epsilon(event, 1e-6, lower=True)
    assert group(DiscreteGaussian(3, 2), 4) == DiscreteGaussian(3, 8)


CLAIMS: list[Event] = [
    RenyiCurve([(2, 0.1), (8, Fraction(1, 3))]),
    PrivacyProfile([(0.5, 1e-4), (1, 1e-6)]),
    DiscreteGaussian(Fraction(5, 2), 2),
    Concentrated(0.1),
    ApproxDP(1, 1e-7),
]


@pytest.mark.parametrize("event", CLAIMS, ids=lambda event: event.tag)
def test_claims_are_written_and_read_back(event: Event) -> None:
    assert from_dict(event.to_dict()) == event


@pytest.mark.parametrize(
    "make",
    [
        lambda: RenyiCurve([]),
        lambda: RenyiCurve(5),  # type: ignore[arg-type]
        lambda: RenyiCurve([(2, 1, 3)]),  # type: ignore[list-item]
        lambda: PrivacyProfile([(1, 1e-6)] * 0),
        lambda: RenyiCurve([(2 + n, 1) for n in range(300)]),
    ],
)
def test_a_claim_without_points_is_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="SF-N308"):
        make()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: RenyiCurve([(1, 0.1)]), "SF-N101"),
        (lambda: RenyiCurve([(2, -0.1)]), "SF-N101"),
        (lambda: RenyiCurve([(2, math.inf)]), "SF-N105"),
        (lambda: PrivacyProfile([(1, 1)]), "SF-N101"),
        (lambda: PrivacyProfile([(201, 0)]), "SF-N312"),
        (lambda: from_dict({"event": "renyi-curve", "points": [["2", "x"]]}), "SF-N308"),
        (lambda: from_dict({"event": "renyi-curve", "points": [[2, 0.5]]}), "SF-N308"),
        (lambda: group(RenyiCurve([(2, 0.1)]), 2), "SF-N309"),
        (lambda: price(NonPrivate()), "SF-N309"),
    ],
)
def test_numbers_that_claim_nothing_are_refused(make: Any, code: str) -> None:
    with pytest.raises(UsageError, match=code):
        make()


def test_a_ledger_is_charged_for_claims_and_fails_closed(tmp_path: Path) -> None:
    """Once an order is used up, budgets are admitted by the others alone, until none is left."""
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    rows = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
    lab.register("visits", rows, unit=sf.Unit("who", 1), columns=columns, budget=sf.Budget(4, 1e-5))
    said: dict[str, Any] = {"population": "who", "about": "a survey of another tool"}
    for event in (DiscreteGaussian(9), Concentrated(0.01), RenyiCurve([(40, 0.1)])):
        lab.charge(event, **said)
    spent = lab.ledger.read_spent("population:who")
    assert [total > 2**101 for total in spent.renyi] == [order > 40 for order in ORDERS]
    assert lab.budget.accounts[0].left_share > 0
    with pytest.raises(BudgetError):
        lab.charge(RenyiCurve([(1.25, 0.001)]), **said)
    assert lab.ledger.read_spent("population:who") == spent
    assert lab.charges()[-1].event == RenyiCurve([(40, 0.1)])
    assert sf.open(tmp_path / "lab").verify()
