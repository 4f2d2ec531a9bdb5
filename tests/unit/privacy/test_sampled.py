"""Sampling: the curves against sums and integrals in high precision, and what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.privacy import (
    ORDERS,
    ApproxDP,
    BestOf,
    DiscreteLaplace,
    Event,
    Gaussian,
    Grouped,
    Laplace,
    Neighbours,
    Pure,
    RandomizedAnswer,
    Repeated,
    Sampled,
    Sequential,
)
from sfumato.privacy.account import NAT, price
from sfumato.privacy.events import list_moves, price_laplace


def _mixture_divergence(q: float, sigma: float, order: float, swapped: bool) -> float:
    """D_α between (1 − q)·N(0, σ²) + q·N(1, σ²) and N(0, σ²), in either direction."""
    with mp.workdps(18):
        s, rate = mp.mpf(sigma), mp.mpf(repr(q))

        def moment(x: mp.mpf) -> mp.mpf:
            plain = mp.npdf(x, 0, s)
            mixed = (1 - rate) * plain + rate * mp.npdf(x, 1, s)
            p, r = (plain, mixed) if swapped else (mixed, plain)
            return p**order * r ** (1 - order)

        reach = 9 * sigma + order
        whole = mp.quad(moment, mp.linspace(-reach, reach, 20))
        return float(mp.log(whole) / (order - 1))


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.3, 2.0), (0.9, 0.7)])
@pytest.mark.parametrize("order", [1.5, 2.0, 4.0, 4.5, 8.0])
def test_the_sampled_gaussian_is_never_below_its_integral(q: float, sigma: float, order: float) -> None:
    charged = Sampled(Gaussian(sigma), q).renyi(order)
    truth = _mixture_divergence(q, sigma, order, swapped=False)
    assert charged >= truth * (1 - 1e-12)
    assert _mixture_divergence(q, sigma, order, swapped=True) <= truth * (1 + 1e-9)
    if order.is_integer():
        assert charged == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.1, 2.0), (0.001, 4.0)])
def test_another_library_agrees(q: float, sigma: float) -> None:
    """On Poisson samples it computes the same sum; on samples of fixed size a somewhat tighter theorem."""
    from dp_accounting.rdp import rdp_privacy_accountant as other

    for order in (2, 3, 8, 64):
        poisson = other._compute_rdp_poisson_subsampled_gaussian(q, sigma, [order])[0]
        assert Sampled(Gaussian(sigma), q).renyi(float(order)) == pytest.approx(poisson, rel=1e-9)
        fixed = other._compute_rdp_sample_wor_gaussian(q, sigma, [order])[0]
        ours = Sampled(Gaussian(sigma), q, Neighbours.REPLACE_ONE).renyi(float(order))
        assert fixed * (1 - 1e-9) <= ours <= 1.4 * fixed


def test_tiny_rates_lose_no_digits() -> None:
    q, sigma = 1e-7, 1.0
    for order in (2.0, 8.0):
        with mp.workdps(60):
            moment = mp.fsum(
                mp.binomial(int(order), k)
                * (1 - mp.mpf(repr(q))) ** (int(order) - k)
                * mp.mpf(repr(q)) ** k
                * mp.e ** (mp.mpf(k * k - k) / 2)
                for k in range(int(order) + 1)
            )
            truth = mp.log(moment) / (order - 1)
        assert Sampled(Gaussian(sigma), q).renyi(order) == pytest.approx(float(truth), rel=1e-9)


def test_all_orders_are_finite_and_grow() -> None:
    curve = [Sampled(Gaussian(0.5), 0.001).renyi(order) for order in ORDERS]
    assert all(math.isfinite(one) for one in curve)
    assert curve == sorted(curve)


@pytest.mark.parametrize("epsilon", [0.01, 1, 5, 100, 690])
@pytest.mark.parametrize("rate", [1e-20, 0.001, 0.5, 0.99])
def test_pure_events_are_amplified(epsilon: float, rate: float) -> None:
    with mp.workdps(40):
        truth = mp.log(1 + mp.mpf(repr(rate)) * (mp.e ** mp.mpf(repr(epsilon)) - 1))
        for event in (Sampled(Pure(epsilon), rate), Sampled(Pure(epsilon), rate, Neighbours.REPLACE_ONE)):
            pure = event.pure()
            assert pure is not None
            assert 0 <= mp.mpf(pure.numerator) / pure.denominator - truth <= truth * 1e-11


def test_the_amplified_curve_bounds_sampled_laplace_noise_in_both_directions() -> None:
    q, scale = 0.2, 1.0
    event = Sampled(Laplace(scale), q)
    for order in (1.5, 2.0, 6.0):
        for swapped in (False, True):

            def moment(x: mp.mpf, order: float = order, swapped: bool = swapped) -> mp.mpf:
                plain = mp.e ** -abs(x) / 2
                mixed = (1 - q) * plain + q * mp.e ** -abs(x - 1) / 2
                p, r = (plain, mixed) if swapped else (mixed, plain)
                return p**order * r ** (1 - order)

            truth = mp.log(mp.quad(moment, [-mp.inf, 0, 1, mp.inf])) / (order - 1)
            assert event.renyi(order) >= truth
            assert event.renyi(order) <= Pure(event.pure() or 0).renyi(order) * (1 + 1e-9)


def test_rates_very_near_one() -> None:
    nearly = 1 - Fraction(1, 10**30)
    for order in ORDERS:
        assert Sampled(Gaussian(2), nearly).renyi(order) == pytest.approx(Gaussian(2).renyi(order), rel=1e-9)
        assert Sampled(Pure(50), nearly).renyi(order) == pytest.approx(Pure(50).renyi(order), rel=1e-9)
    assert Sampled(Pure(800), Fraction(1, 2)).pure() == 800


@pytest.mark.parametrize(
    "event", [Gaussian(0.3), Pure(3), Laplace(0.2), ApproxDP(2, 1e-9)], ids=lambda e: e.tag
)
def test_sampling_never_costs_more(event: Event) -> None:
    for relation in Neighbours:
        for order in ORDERS:
            assert Sampled(event, 0.7, relation).renyi(order) <= event.renyi(order)


def test_fixed_size_bounds_a_worst_case_replacement() -> None:
    """One of n bits is replaced, m of them are summed with Gaussian noise: (1 − q)·N(0) + q·N(±½) as laws."""
    q, sigma = 0.1, 1.0
    event = Sampled.fixed(Gaussian(sigma), 10, 100)
    for order in (2.0, 4.0, 6.0):
        with mp.workdps(18):

            def moment(x: mp.mpf, order: float = order) -> mp.mpf:
                p = (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, 0.5, sigma)
                r = (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, -0.5, sigma)
                return p**order * r ** (1 - order)

            truth = mp.log(mp.quad(moment, mp.linspace(-15, 15, 20))) / (order - 1)
        assert event.renyi(order) >= truth
    assert event.neighbours is Neighbours.REPLACE_ONE


def test_sampling_everyone_changes_nothing() -> None:
    for order in ORDERS:
        assert Sampled(Gaussian(2), 1).renyi(order) == Gaussian(2).renyi(order)


def test_side_delta_is_sampled_too() -> None:
    event = Sampled(ApproxDP(1, 1e-6), Fraction(1, 10))
    assert event.side_delta() == Fraction(1, 10**7)
    assert event.renyi(2.0) < Pure(1).renyi(2.0)


@pytest.mark.parametrize(
    "event",
    [
        Sequential([Gaussian(1), Gaussian(2)]),
        Sequential([Pure(1), ApproxDP(1, 1e-9)]),
        Sampled(Gaussian(1), 0.5),
    ],
)
def test_what_is_not_proven_is_refused(event: Event) -> None:
    with pytest.raises(UsageError) as refusal:
        Sampled(event, 0.1)
    assert refusal.value.code == "SF-N309"


def test_schemes_and_neighbours_must_fit() -> None:
    with pytest.raises(UsageError) as refusal:
        Sampled(RandomizedAnswer(1), 0.1)
    assert refusal.value.code == "SF-N303"
    for rate in (0, 1.1, -1):
        with pytest.raises(UsageError):
            Sampled(Gaussian(1), rate)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_a_sequence_on_one_sample_is_priced_as_a_whole(rate: float) -> None:
    """Exact laws of two answers from one sample, with the unit, without it, and with another in its place."""
    first, second = 0.7, 1.5
    without, with_it, another = (
        np.outer(answer(first, truth), answer(second, truth)).ravel() for truth in range(3)
    )
    added = Sampled(Sequential([Pure(first), Pure(second)]), rate)
    mixed, changed = (1 - rate) * without + rate * with_it, (1 - rate) * without + rate * another
    replaced = Sampled(Sequential([Pure(first), Pure(second)]), rate, Neighbours.REPLACE_ONE)
    for event, one, other in ((added, mixed, without), (replaced, mixed, changed)):
        assert np.abs(np.log(one / other)).max() <= event.pure()
        for order in ORDERS[:8]:
            for p, q in ((one, other), (other, one)):
                truth = math.log(np.sum(p**order * q ** (1 - order))) / (order - 1)
                assert truth <= event.renyi(order) * (1 + 1e-9)
    # Priced one by one, as if each answer had a sample of its own, it would cost too little.
    apart = Sampled(Pure(first), rate).pure() + Sampled(Pure(second), rate).pure()
    assert np.log(mixed / without).max() > apart


def answer(epsilon: float, truth: int) -> NDArray[np.float64]:
    """Return the law of randomized response among three values."""
    weights = np.exp(epsilon * (np.arange(3) == truth))
    return weights / weights.sum()


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(
    "inside", [lambda e: e, lambda e: Sequential([e, Pure(1)]), lambda e: BestOf(e, 0.5)]
)
def test_a_group_on_a_sample_is_refused(relation: Neighbours, inside: Callable[[Event], Event]) -> None:
    """The units of a group come into a sample one by one: two of them more often than one."""
    for event in (Pure(0.5), Gaussian(2)):
        with pytest.raises(UsageError) as refusal:
            Sampled(inside(Grouped(event, 2)), 0.1, relation)
        assert refusal.value.code == "SF-N309"
    assert Grouped(Sampled(Pure(0.5), 0.1, relation), 2).pure() == 2 * Sampled(Pure(0.5), 0.1).pure()


@pytest.mark.parametrize("event", [Sampled(Gaussian(1), 0.01), Sampled.fixed(Gaussian(1), 1, 100)])
def test_searches_over_samples_end(event: Event) -> None:
    """A search reads its inner curve at very high orders, at which sampling is not credited."""
    assert event.renyi(1e6) == Gaussian(1).renyi(1e6)
    for search in (BestOf(Repeated(event, 100), 0.1), BestOf(BestOf(event, 0.1), 0.5)):
        assert 0 < search.renyi(4.0) < BestOf(Gaussian(1), 0.1).renyi(4.0) * 100


# ---- integer Laplace noise ---------------------------------------------------------------------------------


def _ratios(scale: Fraction, moves: tuple[int, ...]) -> dict[int, mp.mpf]:
    """The law, without the unit, of the ratio's logarithm in units of 1/scale, for cells that move so far."""
    r, law = mp.e ** (-mp.mpf(scale.denominator) / scale.numerator), {0: mp.mpf(1)}
    for move in moves:
        inner = {2 * at - move: (1 - r) / (1 + r) * r**at for at in range(1, move)}
        cell = {-move: 1 / (1 + r), **inner, move: r**move / (1 + r)}
        both: dict[int, mp.mpf] = {}
        for (a, p), (b, q) in product(law.items(), cell.items()):
            both[a + b] = both.get(a + b, mp.mpf(0)) + p * q
        law = both
    return law


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 10), Fraction(9, 10)])
@pytest.mark.parametrize(
    ("scale", "moves"),
    [
        (Fraction(2), (1,)),
        (Fraction(20), (1,)),
        (Fraction(25, 2), (25,)),
        (Fraction(1, 2), (4,)),
        (Fraction(10), (1,) * 12),
        (Fraction(6), (5, 5, 2)),
    ],
)
def test_sampled_laplace_noise_costs_what_it_tells(
    rate: Fraction, scale: Fraction, moves: tuple[int, ...]
) -> None:
    """Both directions in 60 digits; the one with the unit on the left is the larger, and is charged."""
    cost = price(Sampled(price_laplace(scale, list_moves(moves)), rate))
    with mp.workdps(60):
        q, unit = mp.mpf(rate.numerator) / rate.denominator, mp.mpf(scale.denominator) / scale.numerator
        law = [(mp.log(1 - q + q * mp.e ** (loss * unit)), p) for loss, p in _ratios(scale, moves).items()]
        for order, paid in zip(ORDERS, cost.renyi, strict=True):
            there, back = (
                mp.log(mp.fsum(p * mp.e ** (power * log) for log, p in law)) / (order - 1)
                for power in (mp.mpf(order), 1 - mp.mpf(order))
            )
            assert back <= there
            assert there * NAT <= paid <= 1.3 * there * NAT + 3


@pytest.mark.parametrize(("scale", "steps"), [(Fraction(1, 2), 1), (Fraction(20), 10), (Fraction(3), 7)])
@pytest.mark.parametrize("size", [1, 30])
def test_fixed_samples_of_laplace_noise_bound_every_replacement(
    scale: Fraction, steps: int, size: int
) -> None:
    """One value is replaced by another that is `steps` away; what else is sampled lies at one or between."""
    cost, q = price(Sampled.fixed(DiscreteLaplace(scale, steps), size, 100)), size / 100
    reach, half = int(60 * scale) + steps, steps // 2
    at = {
        move: -np.abs(np.arange(-reach, reach + 1) - move) / float(scale) for move in range(-steps, steps + 1)
    }
    noise = {move: np.exp(log) / np.exp(at[0]).sum() for move, log in at.items()}
    for order, paid in zip(ORDERS[:8], cost.renyi[:8], strict=True):
        worst = 0.0
        for one, other in ((0, steps), (steps, 0), (-steps, 0), (steps - half, -half)):
            p, plain = ((1 - q) * noise[0] + q * noise[move] for move in (one, other))
            truth = math.log(float(p @ (p / plain) ** (order - 1))) / (order - 1)
            assert paid >= truth * NAT * (1 - 1e-9)
            worst = max(worst, truth)
        assert 1 < steps > scale / 2 or paid <= 1.3 * worst * NAT


@pytest.mark.parametrize("order", [1.5, 2.0, 32.0])
def test_many_losses_are_rounded_up(order: float) -> None:
    """As fine as one likes, the curve tends to that of continuous noise and stays above the exact sum."""
    fine = [Sampled.fixed(DiscreteLaplace(steps, steps), 1, 10).renyi(order) for steps in (512, 2**30)]
    assert fine[1] == pytest.approx(fine[0], rel=5e-3)
    assert Sampled(DiscreteLaplace(2**40, 2**40), 0.1).renyi(order) == pytest.approx(
        Sampled(Laplace(1), 0.1).renyi(order), rel=1e-6
    )
