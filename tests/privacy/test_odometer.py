"""The best of all analysts against what the odometer says, by dynamic programming; nothing is random."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import pytest

from sfumato.privacy import NOTHING, Budget, Cost, Pure, caps, price, read_odometer


def best_gain(budget: Budget, level: float, unit: float, steps: tuple[int, ...], shown: float = 1.0) -> float:
    """The largest δ at ε = `level` of outcomes at which `shown` times the odometer is at most the level."""
    limits = caps(budget)
    costs = [price(Pure(Fraction(step) * Fraction(str(unit)))) for step in steps]

    @cache
    def reads_at_most(asked: tuple[int, ...]) -> bool:
        return shown * read_odometer(budget, limits, total(asked)).epsilon <= level

    def total(asked: tuple[int, ...]) -> Cost:
        return sum((cost * times for cost, times in zip(costs, asked, strict=True)), NOTHING)

    @cache
    def value(asked: tuple[int, ...], loss: int) -> float:
        # The analyst goes on as long as the account admits it, also past the level, and stops when it pays.
        best = max(0.0, -math.expm1(min(0.0, level - loss * unit))) if reads_at_most(asked) else 0.0
        for index, (step, cost) in enumerate(zip(steps, costs, strict=True)):
            if limits.admits(total(asked), cost):
                after = (*asked[:index], asked[index] + 1, *asked[index + 1 :])
                chance = 1 / (1 + math.exp(-step * unit))
                go_on = chance * value(after, loss + step) + (1 - chance) * value(after, loss - step)
                best = max(best, go_on)
        return best

    return value((0,) * len(steps), 0)


GAMES = [
    (Budget(1, 1e-3), 0.6, 0.1, (1, 3)),
    (Budget(1, 0.1), 0.5, 0.125, (1, 4)),
    (Budget(2, 0.01), 1.2, 0.25, (1, 2)),
    (Budget(1), 0.5, 0.1, (1, 3)),
]


@pytest.mark.parametrize(("budget", "level", "unit", "steps"), GAMES)
def test_no_strategy_gains_more_than_delta_below_a_level(
    budget: Budget, level: float, unit: float, steps: tuple[int, ...]
) -> None:
    assert best_gain(budget, level, unit, steps) <= float(budget.delta) + 1e-12


def test_an_odometer_that_shows_too_little_is_caught() -> None:
    """Half of what it should show: the same game then gains more than δ."""
    budget, level, unit, steps = GAMES[0]
    assert best_gain(budget, level, unit, steps, shown=0.5) > float(budget.delta)
