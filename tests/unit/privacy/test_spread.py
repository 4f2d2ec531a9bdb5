"""A unit in several cells: exact laws of every way that it can be in them, and sums in high precision."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

import mpmath as mp
import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    NOTHING,
    ORDERS,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KeyRelease,
    Pure,
    Sequential,
    SpreadExponential,
    SpreadLaplace,
    ThresholdedKeys,
    delta,
    epsilon,
    from_dict,
    gaussian_sigma,
    group,
    rho,
)
from sfumato.privacy.account import NAT, price
from sfumato.privacy.events import list_moves, pack_moves

R = [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]
"""Ratios of the noise. All that is claimed holds for every r below 1, so rational ones give exact tests."""


def _law(move: int, r: Fraction) -> dict[int, Fraction]:
    """The law, without the unit, of log(P/Q) in units of log(1/r), for one cell."""
    half = 1 / (1 + r)
    found = {2 * at - move: (1 - r) * half * r**at for at in range(1, move)}
    return {-move: half, **found, move: half * r**move} if move else {0: Fraction(1)}


def _joint(moves: tuple[int, ...], r: Fraction) -> dict[int, Fraction]:
    law = {0: Fraction(1)}
    for move in moves:
        cell = _law(move, r)
        both: dict[int, Fraction] = {}
        for (a, p), (b, q) in product(law.items(), cell.items()):
            both[a + b] = both.get(a + b, Fraction(0)) + p * q
        law = both
    return law


def _profile(law: dict[int, Fraction], r: Fraction, at: Fraction) -> Fraction:
    """The mean of (P/Q − at)₊ without the unit, which is δ(ε) at ε = log(at)."""
    ratios = ((Fraction(1) / r) ** loss for loss in law)
    return sum((p * max(ratio - at, 0) for ratio, p in zip(ratios, law.values(), strict=True)), Fraction(0))


def _splits(most: int, each: int) -> Iterator[tuple[int, ...]]:
    """All moves of cells by at most `each`, and by at most `most` together, in descending order."""
    yield ()
    for first in range(1, min(most, each) + 1):
        yield from ((first, *rest) for rest in _splits(most - first, first))


def _cells(moves: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple(distance for distance, cells in moves for _ in range(cells))


@pytest.mark.parametrize("r", R)
@pytest.mark.parametrize(("most", "each"), [(6, 1), (6, 2), (7, 3), (6, 6)])
def test_no_split_tells_more_than_the_largest_moves(r: Fraction, most: int, each: int) -> None:
    """δ(ε) at every loss and between them, in exact numbers: the claim for curves and loss distributions."""
    worst = _joint(_cells(pack_moves(most, each)), r)
    ratios = [(Fraction(1) / r) ** loss for loss in range(-most, most + 1)]
    levels = [*ratios, *((a + b) / 2 for a, b in pairwise(ratios))]
    least = [_profile(worst, r, at) for at in levels]
    for split in _splits(most, each):
        law = _joint(split, r)
        assert all(_profile(law, r, at) <= most_of for at, most_of in zip(levels, least, strict=True))


@pytest.mark.parametrize(("sizes", "most"), [((5, 3, 1, 1), 9), ((4, 4, 2), 7), ((3, 1, 1, 1), None)])
def test_listed_moves_majorise_all_that_is_within(sizes: tuple[int, ...], most: int | None) -> None:
    largest = _cells(list_moves(sizes, most))
    for split in product(*(range(size + 1) for size in sizes)):
        if sum(split) <= (most or math.inf):
            ordered = sorted(split, reverse=True)
            assert all(sum(ordered[:j]) <= sum(largest[:j]) for j in range(len(sizes) + 1))


@pytest.mark.parametrize("most", [None, 500_000])
def test_many_different_moves_become_few(most: int | None) -> None:
    """A matrix of products has hundreds of bounds; its price must stay quick, and no lower than it was."""
    sizes = [(10**4 + 37 * i) * (1 + j) // 50 for i in range(20) for j in range(20)]
    moves = list_moves(sizes, most)
    assert len(moves) <= 17
    assert sum(distance * cells for distance, cells in moves) == (most or sum(sizes))
    ordered, largest = sorted(sizes, reverse=True), _cells(moves)
    assert all(min(sum(ordered[:j]), most or math.inf) <= sum(largest[:j]) for j in range(len(sizes)))
    exact = SpreadLaplace(10**5, tuple((size, 1) for size in sizes))
    if most is None:
        for one, other in zip(price(exact).renyi, price(SpreadLaplace(10**5, moves)).renyi, strict=True):
            assert one <= other <= 1.3 * one


def _divergence(scale: Fraction, move: int, order: float) -> mp.mpf:
    """Written out: the tails in closed form and the middle term by term."""
    r, alpha = mp.e ** (-mp.mpf(scale.denominator) / scale.numerator), mp.mpf(order)
    middle = mp.fsum(r ** (alpha * x + (1 - alpha) * (move - x)) for x in range(1, move))
    tails = (r ** ((1 - alpha) * move) + r ** (alpha * move)) / (1 - r)
    return mp.log((1 - r) / (1 + r) * (middle + tails)) / (alpha - 1)


@pytest.mark.parametrize(
    ("scale", "moves"),
    [
        (Fraction(200), ((1, 20),)),
        (Fraction(1000), ((1, 100),)),
        (Fraction(5), ((3, 4), (1, 1))),
        (Fraction(1, 3), ((2, 3),)),
        (Fraction(90), ((7, 1), (1, 6))),
        (Fraction(10**7), ((1, 10**6),)),
        (Fraction(3, 2), ((1, 10**5),)),
    ],
)
def test_the_price_is_that_of_the_cells(scale: Fraction, moves: tuple[tuple[int, int], ...]) -> None:
    event = SpreadLaplace(scale, moves)
    cost = price(event)
    assert cost.pure == math.ceil(sum(distance * cells for distance, cells in moves) / scale * NAT)
    with mp.workdps(60):
        for order, paid in zip(ORDERS, cost.renyi, strict=True):
            truth = mp.fsum(cells * _divergence(scale, distance, order) for distance, cells in moves)
            assert truth * NAT <= paid <= truth * NAT * (1 + mp.mpf(10) ** -9) + 2.0**-44 * cost.pure + 2


@pytest.mark.parametrize("scale", [Fraction(10) ** power for power in (-2, 0, 3, 8, 12)])
@pytest.mark.parametrize("moves", [((1, 2),), ((5, 3), (2, 1)), ((1, 10**6),), ((10**9, 7),)])
def test_no_part_costs_more_than_one_cell(scale: Fraction, moves: tuple[tuple[int, int], ...]) -> None:
    spread, most = SpreadLaplace(scale, moves), sum(distance * cells for distance, cells in moves)
    choices = SpreadExponential(1 / scale, moves)
    for cost, alone in (
        (price(spread), price(DiscreteLaplace(scale, most))),
        (price(choices), price(Exponential(most / scale))),
    ):
        assert cost.pure == alone.pure
        assert all(one <= other for one, other in zip(cost.renyi, alone.renyi, strict=True))
        assert min(cost.renyi) >= 1


def test_a_known_norm_lowers_the_price() -> None:
    """Thirty numbers that move by at most 3 each and by 4 in l2 norm: against all sorted moves there are."""
    event = SpreadLaplace(9, pack_moves(12, 3), 16)
    assert event.l2_squared == 16
    assert group(event, 2) == SpreadLaplace(9, pack_moves(24, 6), 64)
    assert rho(event) == Fraction(16, 162)
    assert from_dict(event.to_dict()) == event
    splits = [split for split in _splits(12, 3) if sum(move * move for move in split) <= 16]
    before = price(SpreadLaplace(9, pack_moves(12, 3))).renyi
    with mp.workdps(40):
        for order, paid, more in zip(ORDERS, price(event).renyi, before, strict=True):
            once = {move: _divergence(Fraction(9), move, order) for move in (1, 2, 3)}
            truth = max(mp.fsum(once[move] for move in split) for split in splits)
            assert truth * NAT <= paid <= more
            assert paid <= 1.3 * truth * NAT or paid == more


def _range_divergence(width: Fraction, order: float) -> mp.mpf:
    """The worst pair with two ratios that are e^width apart, by a search over their weights."""
    w, alpha = mp.mpf(width.numerator) / width.denominator, mp.mpf(order)

    def moment(odds: mp.mpf) -> mp.mpf:
        p = 1 / (1 + mp.e**odds)
        return mp.log(p + (1 - p) * mp.e ** (-alpha * w)) - alpha * mp.log(p + (1 - p) * mp.e**-w)

    low, high = mp.mpf(0), alpha * w + 1
    for _ in range(80):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if moment(a) < moment(b) else (low, b)
    return moment(low) / (alpha - 1)


@pytest.mark.parametrize(("rate", "moves"), [(Fraction(1, 5), ((1, 10),)), (Fraction(1), ((3, 2), (1, 1)))])
def test_the_price_of_choices_is_that_of_the_cells(
    rate: Fraction, moves: tuple[tuple[int, int], ...]
) -> None:
    cost = price(SpreadExponential(rate, moves))
    with mp.workdps(40):
        for order, paid in zip(ORDERS, cost.renyi, strict=True):
            truth = mp.fsum(cells * _range_divergence(rate * rows, order) for rows, cells in moves)
            assert truth * NAT * (1 - mp.mpf(10) ** -12) <= paid <= 1.01 * truth * NAT


def test_the_divergence_of_choices_is_convex_in_the_rows() -> None:
    """So that no other split of a unit's rows costs more than the largest moves."""
    with mp.workdps(30):
        for order in (1.5, 4.0, 64.0):
            found = [_range_divergence(Fraction(rows, 4), order) for rows in range(1, 9)]
            steps = [b - a for a, b in pairwise([mp.mpf(0), *found])]
            assert steps == sorted(steps)


# ---- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "share"), [(0.2, 1e-8), (1.0, 1e-6), (3.0, 0.1)])
def test_gaussian_noise_without_its_large_losses(eps: float, share: float) -> None:
    """The parts of both laws that are ε-pure, against an integral."""
    sigma = gaussian_sigma(eps, share / 2)
    curve = KeyRelease(eps, share, Gaussian(sigma)).curve()
    with mp.workdps(20):
        s, e = mp.mpf(sigma), mp.mpf(eps)
        # Under Q the ratio at x is e^((2x − 1)/2s²); it is clipped at the ends, and both parts weigh less.
        ends = [(1 - 2 * e * s * s) / 2, (1 + 2 * e * s * s) / 2]
        left_out = mp.ncdf((1 - ends[1]) / s) - mp.e**e * mp.ncdf(-ends[1] / s)
        for order in (1.5, 8.0):
            inner = mp.quad(
                lambda x, order=order: mp.npdf(x, 0, s) * mp.e ** (order * (2 * x - 1) / (2 * s * s)),
                mp.linspace(*ends, 7),
            )
            above = mp.ncdf(-ends[1] / s) * mp.e ** (order * e)
            below = mp.ncdf((ends[0] - 1) / s) * mp.e ** ((1 - order) * e)
            truth = mp.log((inner + above + below) / (1 - left_out)) / (order - 1)
            assert truth <= curve(order) * (1 + 1e-12)
            assert curve(order) <= 1.3 * max(truth, order / (2 * s * s))


def test_keys_never_cost_more_than_by_epsilon_and_delta_alone() -> None:
    for noise in (SpreadLaplace(20, ((1, 10),)), Gaussian(gaussian_sigma(0.5, 5e-9))):
        cost, before = price(KeyRelease(0.5, 1e-8, noise)), price(ThresholdedKeys(0.5, 1e-8))
        assert (cost.pure, cost.side) == (before.pure, before.side)
        assert all(one <= other for one, other in zip(cost.renyi, before.renyi, strict=True))
        assert cost.renyi[7] < before.renyi[7] / 2


# ---- the other views ---------------------------------------------------------------------------------------

SPREAD: list[Event] = [
    SpreadLaplace(200, ((1, 20), (3, 2))),
    SpreadExponential(Fraction(1, 20), ((2, 3),)),
    KeyRelease(0.5, 1e-8, SpreadLaplace(20, ((1, 10),))),
]


@pytest.mark.parametrize("event", SPREAD)
def test_the_canonical_form_is_read_back(event: Event) -> None:
    assert from_dict(event.to_dict()) == event


def test_moves_are_checked_and_put_in_order() -> None:
    assert SpreadLaplace(3, ((1, 2), (4, 1), (1, 3))).moves == ((4, 1), (1, 5))
    for moves in ((), 5, ((1,),), ((0, 2),), ((1, -1),), ((0.5, 2),)):
        with pytest.raises(UsageError):
            SpreadLaplace(3, moves)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="SF-N308"):
        from_dict({"event": "spread-laplace", "scale": "3", "moves": [["1/2", 2]]})


def test_composition_is_that_of_the_cells() -> None:
    event, cells = (
        SpreadLaplace(40, ((2, 3), (1, 1))),
        [DiscreteLaplace(40, 2)] * 3 + [DiscreteLaplace(40, 1)],
    )
    assert epsilon(event, 1e-6) <= epsilon(cells, 1e-6) * (1 + 1e-9)
    assert delta(event, 0.1) == pytest.approx(delta(cells, 0.1), rel=1e-6)
    assert epsilon(event, 1e-6, lower=True) <= epsilon(event, 1e-6) < float(event.pure())
    keys = KeyRelease(0.5, 1e-8, SpreadLaplace(20, ((1, 10),)))
    assert epsilon([keys] * 9, 1e-5) < 0.6 * epsilon([ThresholdedKeys(0.5, 1e-8)] * 9, 1e-5)


def test_groups_and_concentrated_privacy() -> None:
    assert group(SpreadLaplace(9, ((2, 3), (1, 1))), 4) == SpreadLaplace(9, ((8, 3), (4, 1)))
    assert group(SpreadExponential(1, ((2, 3),)), 2) == SpreadExponential(1, ((4, 3),))
    assert Grouped(SPREAD[2], 2).side_delta() == group(ThresholdedKeys(0.5, 1e-8), 2).side_delta()
    assert rho(SpreadLaplace(10, ((1, 20),))) == Fraction(20, 200)
    assert rho(SpreadExponential(Fraction(1, 10), ((1, 20),))) == Fraction(20, 800)
    assert price(Sequential([Pure(0)])) == NOTHING
