"""Prices of many shapes against what their noise tells, in exact numbers or 60 digits: a long campaign."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.privacy.account import NAT, ORDERS, price
from sfumato.privacy.events import Moves, Sampled, list_moves, pack_moves, price_laplace

pytestmark = pytest.mark.slow

Law = dict[int, Fraction]


def _splits(most: int, each: int) -> Iterator[tuple[int, ...]]:
    yield ()
    for first in range(1, min(most, each) + 1):
        yield from ((first, *rest) for rest in _splits(most - first, first))


def _cells(moves: Moves) -> tuple[int, ...]:
    return tuple(distance for distance, cells in moves for _ in range(cells))


def _times(law: Law, move: int, r: Fraction) -> Law:
    """The law of the loss with one more cell, which moves so far, in units of log(1/r)."""
    half = 1 / (1 + r)
    cell = {-move: half, **{2 * at - move: (1 - r) * half * r**at for at in range(1, move)}}
    cell[move] = half * r**move
    both: Law = {}
    for a, p in law.items():
        for b, q in cell.items():
            both[a + b] = both.get(a + b, Fraction(0)) + p * q
    return both


def _profile(cells: tuple[int, ...], r: Fraction, most: int) -> list[Fraction]:
    """δ(ε) at every loss, where it bends: in between it is linear in e^ε."""
    law: Law = {0: Fraction(1)}
    for move in cells:
        law = _times(law, move, r)
    levels = [(1 / r) ** loss for loss in range(-most, most + 1)]
    ratios = [((1 / r) ** loss, p) for loss, p in law.items()]
    return [sum((p * (x - at) for x, p in ratios if x > at), Fraction(0)) for at in levels]


@pytest.mark.parametrize("r", [Fraction(1, 20), Fraction(2, 5), Fraction(4, 5), Fraction(99, 100)])
@pytest.mark.parametrize(("most", "each"), [(11, 1), (11, 2), (11, 4), (10, 6), (10, 10)])
def test_no_split_of_a_unit_tells_more(r: Fraction, most: int, each: int) -> None:
    worst = _profile(_cells(pack_moves(most, each)), r, most)
    for split in _splits(most, each):
        assert all(one <= other for one, other in zip(_profile(split, r, most), worst, strict=True))


def _divergence(scale: Fraction, move: int, order: float) -> mp.mpf:
    r, alpha = mp.e ** (-mp.mpf(scale.denominator) / scale.numerator), mp.mpf(order)
    middle = mp.fsum(r ** (alpha * x + (1 - alpha) * (move - x)) for x in range(1, move))
    tails = (r ** ((1 - alpha) * move) + r ** (alpha * move)) / (1 - r)
    return mp.log((1 - r) / (1 + r) * (middle + tails)) / (alpha - 1)


def test_prices_of_random_shapes() -> None:
    rng = random.Random(5)
    with mp.workdps(60):
        for _ in range(300):
            sizes = [rng.choice((1, 1, 2, 3, 7, 40)) for _ in range(rng.choice((1, 2, 5, 30, 200)))]
            total = sum(sizes)
            scale = Fraction(total * 1000, rng.choice((1, 20, 100, 500, 2000, 9000)))
            moves = list_moves(sizes)
            for order, paid in zip(ORDERS, price(price_laplace(scale, moves)).renyi, strict=True):
                truth = NAT * mp.fsum(cells * _divergence(scale, move, order) for move, cells in moves)
                assert truth <= paid <= 1.3 * truth + 3


def test_prices_of_random_samples() -> None:
    rng = random.Random(6)
    with mp.workdps(60):
        for _ in range(120):
            steps = rng.choice((1, 2, 5, 30, 150))
            scale = Fraction(steps * 100, rng.choice((1, 5, 20, 100, 300, 800)))
            rate = Fraction(1, rng.choice((1000, 100, 10, 2))) * Fraction(rng.randrange(1, 100), 100)
            cost = price(Sampled(price_laplace(scale, ((steps, 1),)), rate))
            for order, paid in zip(ORDERS, cost.renyi, strict=True):
                there, back = _sampled(scale, steps, rate, order)
                assert back <= there
                assert there * NAT <= paid <= 1.3 * there * NAT + 3


def _sampled(scale: Fraction, steps: int, rate: Fraction, order: float) -> tuple[mp.mpf, mp.mpf]:
    """Both directions of noise on a Poisson sample, written out."""
    unit, q = mp.mpf(scale.denominator) / scale.numerator, mp.mpf(rate.numerator) / rate.denominator
    r, alpha = mp.e**-unit, mp.mpf(order)
    law = [(-steps, 1 / (1 + r)), (steps, r**steps / (1 + r))]
    law += [(2 * at - steps, (1 - r) / (1 + r) * r**at) for at in range(1, steps)]
    mixed = [(1 - q + q * mp.e ** (loss * unit), p) for loss, p in law]
    moments = (mp.fsum(p * v**power for v, p in mixed) for power in (alpha, 1 - alpha))
    there, back = (mp.log(moment) / (alpha - 1) for moment in moments)
    return there, back
