"""How much of what a run fixed in advance could ask the account admits, at the filter's own δ."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from sfumato.privacy import Budget, Event, Gaussian, Laplace, Repeated, caps, price
from sfumato.privacy import epsilon as run_epsilon
from sfumato.privacy.account import NAT, ORDERS
from sfumato.privacy.gaussian_costs import RESERVES, find_capacity

BUDGETS = [Budget(1, 1e-6), Budget(4, 1e-7), Budget(0.1, 1e-6)]


def count_admitted(budget: Budget, event: Event) -> int:
    """How often the filter of Gaussian DP admits an event."""
    limits, cost = caps(budget), price(event)
    assert limits.gaussian is not None
    assert cost.gaussian is not None
    return limits.gaussian.most // cost.gaussian[limits.gaussian.place]


def find_reserve(budget: Budget) -> float:
    gaussian = caps(budget).gaussian
    assert gaussian is not None
    return RESERVES[gaussian.place]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_gaussian_questions(budget: Budget) -> None:
    share = (budget.delta - budget.side_delta) / 2
    event = Gaussian(Fraction(20) / budget.epsilon)
    exact = math.floor(find_capacity(budget.epsilon, share) * float(event.sigma) ** 2)
    assert 0.93 * exact <= count_admitted(budget, event) <= exact
    assert find_reserve(budget) <= find_capacity(budget.epsilon, share) / 16


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_small_laplace_questions(budget: Budget) -> None:
    """Each ε is a fifth of the reserve's root. That no run has more follows from a lower bound on its ε."""
    share, root = (budget.delta - budget.side_delta) / 2, math.sqrt(find_reserve(budget))
    event = Laplace(Fraction(round(5 / root)))
    admitted = count_admitted(budget, event)
    step = float(1 / event.scale) / 40
    beyond = Repeated(event, math.ceil(admitted / 0.93))
    assert run_epsilon(beyond, share, lower=True, step=step) > budget.epsilon
    assert run_epsilon(Repeated(event, admitted), share, step=step) <= budget.epsilon


@pytest.mark.parametrize(
    ("budget", "gain"), [(BUDGETS[0], 1.17), (BUDGETS[1], 1.1), (BUDGETS[2], 1.33)], ids=str
)
def test_more_gaussian_questions_than_by_renyi_orders(budget: Budget, gain: float) -> None:
    """Beside an account whose conversion part belongs to the orders alone, as it was before."""
    limits = caps(budget)
    before = caps(Budget(budget.epsilon, 2 * budget.delta))  # where the orders have twice the share
    orders = max(cap / NAT / order * 2 for order, cap in zip(ORDERS, before.renyi, strict=True))
    assert limits.gaussian is not None
    assert limits.gaussian.most / NAT > gain * orders
