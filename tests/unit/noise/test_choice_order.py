"""The order in which quantiles are chosen: hardly any is better, and no share is worse than alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.noise import QuantilesMechanism
from sfumato.noise.ordered.choice_order import ChoiceOrder, list_noises, order_choices
from sfumato.privacy import events

SETS = st.lists(st.integers(1, 999), min_size=1, max_size=9, unique=True).map(
    lambda each: tuple(Fraction(one, 1000) for one in sorted(each))
)


def cuts(shares: tuple[Fraction, ...]) -> tuple[float, ...]:
    return (0.0, *map(float, shares), 1.0)


def list_orders(shares: int, levels: int) -> Iterator[ChoiceOrder | None]:
    """Every order of so many shares with at most so many levels."""
    if not shares:
        yield None
        return
    for size in range(1, min(shares, levels) + 1):
        for first in itertools.combinations(range(shares), size):
            ends = itertools.pairwise((-1, *first, shares))
            inner = [list(list_orders(high - low - 1, levels - size)) for low, high in ends]
            for parts in itertools.product(*inner):
                yield ChoiceOrder(first, parts)


def list_ratios(order: ChoiceOrder, shares: tuple[Fraction, ...]) -> np.ndarray:
    """Mean errors of Laplace noise as parts of those alone, by a characteristic function."""
    turns = (np.arange(40_000) + 0.5) * 0.01
    found = []
    for weights, share in zip(list_noises(order, cuts(shares)), shares, strict=True):
        sizes = order.levels * np.array(weights)[:, None]
        law = np.prod(1 / (1 + (sizes * turns) ** 2), axis=0)
        # The mean of |X| is 2/π times the integral of (1 − law) / turn²; beyond the last turn the law is 0.
        mean = 2 / math.pi * (((1 - law) / turns**2).sum() * 0.01 + 1 / (turns[-1] + 0.005))
        found.append(mean / (len(shares) * max(share, 1 - share)))
    return np.array(found, dtype=float)


@pytest.mark.parametrize(
    ("shares", "first", "levels"),
    [
        ((25, 50, 75), (1,), 2),
        ((49, 50, 51), (0, 1, 2), 3),
        ((45, 48, 52, 55), (0, 1, 2, 3), 4),
        ((90, 95, 99), (0,), 3),
        ((20, 40, 60, 80), (1, 2), 3),
        ((10, 50, 51, 52), (1, 3), 3),
    ],
)
def test_orders_follow_from_how_close_shares_lie(
    shares: tuple[int, ...], first: tuple[int, ...], levels: int
) -> None:
    order = order_choices(tuple(Fraction(each, 100) for each in shares))
    assert (order.first, order.levels) == (first, levels)


@given(SETS)
@settings(max_examples=40, deadline=None)
def test_no_share_is_worse_than_alone(shares: tuple[Fraction, ...]) -> None:
    order = order_choices(shares)
    assert list_ratios(order, shares).max() <= 1.03
    assert len(shares).bit_length() <= order.levels <= len(shares)
    assert 1 <= order.depth <= order.levels


@given(st.lists(st.integers(1, 99), min_size=4, max_size=4, unique=True))
@settings(max_examples=15, deadline=None)
def test_few_orders_of_all_are_better(asked: list[int]) -> None:
    """Of every order of four shares in which none is worse than alone, none is better by more than a bit."""
    shares = tuple(Fraction(each, 100) for each in sorted(asked))
    found = list_ratios(order_choices(shares), shares).mean()
    every = [list_ratios(each, shares) for each in list_orders(4, 4) if each]
    best = min(each.mean() for each in every if each.max() <= 1.01)
    assert found <= best + 0.06


@given(SETS, st.sampled_from([1.01, 2.0, 10.0, 500.0]))
@settings(max_examples=40, deadline=None)
def test_prices_are_no_higher_than_those_of_a_tree_of_halves(
    shares: tuple[Fraction, ...], order: float
) -> None:
    fewest = len(shares).bit_length()
    halves = events.Repeated(events.Exponential(Fraction(2, fewest)), fewest)
    event = QuantilesMechanism(Fraction(1), shares).event(2)
    assert event.pure() == halves.pure()
    assert event.curve()(order) <= halves.curve()(order) * (1 + 1e-12)


def test_many_shares_have_an_order() -> None:
    for number in (31, 99):
        order = order_choices(tuple(Fraction(each, number + 1) for each in range(1, number + 1)))
        assert order.levels == number.bit_length()
