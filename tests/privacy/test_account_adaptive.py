"""Analysts who adapt everything, against the account.

Two kinds. The first plays perfectly: among all strategies that choose each next question, and when to stop,
by the answers so far, dynamic programming finds the one that tells two neighbours apart best. Nothing is
random there. The second are simulated, with continuous noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sfumato.oracle.one_run import state_one_run
from sfumato.privacy import (
    NOTHING,
    Budget,
    Caps,
    Concentrated,
    Cost,
    Event,
    Gaussian,
    Laplace,
    PrivacyProfile,
    Pure,
    Repeated,
    Sampled,
    caps,
    price,
)

# ---- the perfect analyst -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Game:
    """Randomized responses of the sizes `steps`·`unit`, under these caps, for breaking ε."""

    unit: float
    steps: tuple[int, ...]
    limits: Caps
    epsilon: float
    charge: Callable[[Fraction], Cost] = lambda size: price(Pure(size))
    """What a response of this ε is charged."""
    spent: Cost = NOTHING
    begins: float = 0.0
    """What was spent before the first question, and the loss that this had."""

    def best(self) -> float:
        """The largest E[(1 − e^(ε − loss))₊] that any strategy reaches: its δ at ε."""
        costs = [self.charge(Fraction(step) * Fraction(str(self.unit))) for step in self.steps]

        @cache
        def value(asked: tuple[int, ...], loss: int) -> float:
            best = max(0.0, -math.expm1(min(0.0, self.epsilon - self.begins - loss * self.unit)))
            spent = sum((cost * times for cost, times in zip(costs, asked, strict=True)), self.spent)
            for index, (step, cost) in enumerate(zip(self.steps, costs, strict=True)):
                if self.limits.admits(spent, cost):
                    after = (*asked[:index], asked[index] + 1, *asked[index + 1 :])
                    chance = 1 / (1 + math.exp(-step * self.unit))
                    go_on = chance * value(after, loss + step) + (1 - chance) * value(after, loss - step)
                    best = max(best, go_on)
            return best

        return value((0,) * len(self.steps), 0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "unit", "steps"),
    [
        (1.0, 1e-3, 0.1, (1, 3)),
        (1.0, 0.1, 0.125, (1, 4)),
        (2.0, 1e-6, 0.25, (1, 3)),
        (0.5, 0.01, 0.0625, (1, 5)),
        (1.0, 0.0, 0.1, (1, 3)),
        (0.5, 0.3, 0.1, (1, 2, 5)),
    ],
)
def test_no_strategy_beats_the_account(
    epsilon: float, delta: float, unit: float, steps: tuple[int, ...]
) -> None:
    game = Game(unit, steps, caps(Budget(epsilon, delta)), epsilon)
    assert game.best() <= delta + 1e-12


def test_the_perfect_analyst_beats_an_account_that_is_too_generous() -> None:
    """The same game, on a budget that is twice as large as promised."""
    game = Game(0.1, (1, 3), caps(Budget(2, 1e-3)), 1.0)
    assert game.best() > 1e-3


def _gaussian_alone(budget: Budget) -> Caps:
    """The filter of Gaussian DP of a budget, without the others."""
    return replace(caps(budget), pure=-1, renyi=(-1,) * 12)


GAUSSIAN_GAMES = [
    (1.0, 0.04, 0.08, (1, 4)),
    (0.5, 0.004, 0.03, (1, 5)),
    (2.0, 1e-3, 0.1, (1, 5)),
    (0.2, 0.04, 0.02, (1, 3)),
]
"""ε, δ of the budget, of which a quarter is the filter's, and coins around the root of the reserve."""


@pytest.mark.parametrize(("epsilon", "delta", "unit", "steps"), GAUSSIAN_GAMES)
def test_no_strategy_beats_gaussian_dp(
    epsilon: float, delta: float, unit: float, steps: tuple[int, ...]
) -> None:
    best = Game(unit, steps, _gaussian_alone(Budget(epsilon, delta)), epsilon).best()
    assert best <= delta / 4 + 1e-12
    assert best > delta / 20


@pytest.mark.parametrize(("epsilon", "delta", "unit", "steps"), GAUSSIAN_GAMES)
def test_the_perfect_analyst_beats_a_filter_that_is_too_generous(
    epsilon: float, delta: float, unit: float, steps: tuple[int, ...]
) -> None:
    """Room for half as many questions again."""
    limits = _gaussian_alone(Budget(epsilon, delta))
    assert limits.gaussian is not None
    more = replace(limits, gaussian=replace(limits.gaussian, most=limits.gaussian.most * 3 // 2))
    assert Game(unit, steps, more, epsilon).best() > delta / 4


def _claim(size: Fraction) -> Cost:
    """A coin of ε is ε²/2-zCDP: as that claim it has no pure ε."""
    return price(Concentrated(size * size / 2))


def _mix(size: Fraction) -> Cost:
    """Small coins are claims, and large ones are charged as coins."""
    return _claim(size) if size < Fraction(1, 16) else price(Pure(size))


@pytest.mark.parametrize("charge", [_claim, _mix])
@pytest.mark.parametrize(("epsilon", "delta", "unit", "steps"), GAUSSIAN_GAMES)
def test_no_strategy_of_concentrated_claims_beats_gaussian_dp(
    epsilon: float, delta: float, unit: float, steps: tuple[int, ...], charge: Callable[[Fraction], Cost]
) -> None:
    best = Game(unit, steps, _gaussian_alone(Budget(epsilon, delta)), epsilon, charge).best()
    assert best <= delta / 4 + 1e-12
    assert best > delta / 60
    everything = Game(unit, steps, caps(Budget(epsilon, delta)), epsilon, charge)
    assert everything.best() <= delta + 1e-12


def test_the_perfect_analyst_beats_claims_that_are_too_cheap() -> None:
    """Claims that cost ρ in place of 2ρ."""
    epsilon, delta, unit, steps = GAUSSIAN_GAMES[0]

    def half(size: Fraction) -> Cost:
        cost = _claim(size)
        assert cost.gaussian is not None
        return replace(cost, gaussian=tuple(one // 2 for one in cost.gaussian))

    assert Game(unit, steps, _gaussian_alone(Budget(epsilon, delta)), epsilon, half).best() > delta / 4


RUN = Repeated(Sampled(Gaussian(Fraction(5, 2)), Fraction(1, 5)), 6)
"""A run that is charged as one; (0.55, 10⁻³)-private."""


def _best_after_a_run(limits: Caps, claim: PrivacyProfile, cost: Cost) -> float:
    """The largest δ at ε = 1 of the run, as the worst pair of its claim, and of coins chosen after it."""
    worst, game = claim.worst(), Game(0.08, (1, 4), limits, 1.0, spent=cost)
    assert limits.holds(cost)
    after = (replace(game, begins=loss).best() for loss in worst.losses)
    masses = map(float, worst.masses)
    return float(worst.infinite) + math.fsum(mass * best for mass, best in zip(masses, after, strict=True))


def test_no_strategy_beats_the_account_after_a_run_that_was_charged_as_one() -> None:
    budget = Budget(1, 0.04)
    claim = state_one_run(RUN, Fraction(55, 100), Fraction(1, 1000))
    alone = _best_after_a_run(_gaussian_alone(budget), claim, price(claim))
    assert 0.001 < alone <= 0.01 + 0.001
    assert _best_after_a_run(caps(budget), claim, price(claim)) <= 0.04


def test_a_run_that_gaussian_dp_was_not_charged_for_is_caught() -> None:
    claim = state_one_run(RUN, Fraction(55, 100), Fraction(1, 1000))
    free = replace(price(claim), gaussian=NOTHING.gaussian)
    assert _best_after_a_run(_gaussian_alone(Budget(1, 0.04)), claim, free) > 0.01 + 0.001


# ---- simulated analysts --------------------------------------------------------------------------------

Choice = Callable[[float, float], Event]
"""From the loss so far, and a number that grows from 0 to 1, to the next question."""


def _stubborn(size: float) -> Choice:
    return lambda loss, progress: Gaussian(size)


def _gambler(loss: float, progress: float) -> Event:
    """Large questions while behind, small ones when ahead."""
    return Laplace(2) if loss < 0.3 else Laplace(20)


def _switcher(loss: float, progress: float) -> Event:
    """Kinds that different filters favour, according to luck."""
    return Gaussian(6) if loss > 0 else Laplace(4)


def _cautious(loss: float, progress: float) -> Event:
    return Gaussian(30 - 25 * progress) if loss < 0.5 else Laplace(10)


ANALYSTS: dict[str, Choice] = {
    "stubborn": _stubborn(8.0),
    "impatient": _stubborn(2.5),
    "gambler": _gambler,
    "switcher": _switcher,
    "cautious": _cautious,
}


def _loss(event: Event, rng: np.random.Generator) -> float:
    """The log-likelihood ratio of one answer, drawn under the first of two neighbours."""
    if isinstance(event, Gaussian):
        mu = 1 / float(event.sigma)
        return mu * mu / 2 + mu * rng.standard_normal()
    assert isinstance(event, Laplace)
    rate = float(1 / event.scale)
    x = rng.laplace() / rate
    return rate * (abs(x - 1) - abs(x))


@cache
def _price(event: Event) -> Cost:
    return price(event)


def _interaction(choose: Choice, limits: Caps, epsilon: float, rng: np.random.Generator) -> float:
    """The loss at which an analyst ends: refused three times, or content with what is known."""
    spent, loss, refusals, asked = NOTHING, 0.0, 0, 0
    while refusals < 3 and loss < epsilon + 1:
        event = choose(loss, min(1.0, round(asked / 20, 1)))
        cost = _price(event)
        asked += 1
        if limits.admits(spent, cost):
            spent, loss = spent + cost, loss + _loss(event, rng)
        else:
            refusals += 1
    return loss


def _judge(name: str, runs: int) -> None:
    """The mean of (1 − e^(ε − loss))₊ is at most δ. False alarms: one in a million, by Hoeffding's bound."""
    epsilon, delta = 0.5, 0.1
    rng = np.random.default_rng(2024)
    limits = caps(Budget(epsilon, delta))
    losses = np.array([_interaction(ANALYSTS[name], limits, epsilon, rng) for _ in range(runs)])
    mean = float(np.mean(np.maximum(0, -np.expm1(np.minimum(0, epsilon - losses)))))
    assert mean <= delta + math.sqrt(math.log(1e6) / (2 * runs))


@pytest.mark.parametrize("name", ANALYSTS)
def test_simulated_analysts(name: str) -> None:
    _judge(name, 500)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANALYSTS)
def test_many_simulated_analysts(name: str) -> None:
    _judge(name, 10_000)
