"""The closed forms against sums written out in high precision."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    ORDERS,
    ApproxDP,
    BestOf,
    Concentrated,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    KNorm,
    Laplace,
    Neighbours,
    NonPrivate,
    Parallel,
    Pure,
    RandomizedAnswer,
    Repeated,
    Sampled,
    Sequential,
    ThresholdedKeys,
    from_dict,
    group,
)
from sfumato.privacy.account import NAT, price
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.events import KeyRelease

RATES = [Fraction(1), Fraction(1, 10), Fraction(1, 1000), Fraction(7, 3), Fraction(50), Fraction(1, 100_000)]


def _summed_divergence(rate: Fraction, steps: int, order: float) -> mp.mpf:
    """Σ p(x)^α p(x − k)^(1 − α) with the two geometric tails in closed form and the middle term by term."""
    with mp.workdps(60):
        r, alpha = mp.e ** (-mp.mpf(rate.numerator) / rate.denominator), mp.mpf(order)
        middle = mp.fsum(r ** (alpha * x + (1 - alpha) * (steps - x)) for x in range(1, steps))
        tails = (r ** ((1 - alpha) * steps) + r ** (alpha * steps)) / (1 - r)
        return mp.log((1 - r) / (1 + r) * (middle + tails)) / (alpha - 1)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("steps", [1, 2, 20, 300])
def test_discrete_laplace_curve_is_exact(rate: Fraction, steps: int) -> None:
    event = DiscreteLaplace(1 / rate, steps)
    for order in ORDERS:
        truth = _summed_divergence(rate, steps, order)
        assert abs(event.renyi(order) - truth) <= 1e-12 * truth + 1e-18


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("steps", [1, 20])
def test_price_is_never_below_the_truth_and_hardly_above(rate: Fraction, steps: int) -> None:
    cost = price(DiscreteLaplace(1 / rate, steps))
    assert cost.pure is not None
    assert 0 <= Fraction(cost.pure, NAT) - steps * rate < Fraction(1, NAT)
    for units, order in zip(cost.renyi, ORDERS, strict=True):
        truth = _summed_divergence(rate, steps, order)
        assert mp.mpf(units) / NAT >= truth
        assert mp.mpf(units) / NAT <= truth * (1 + 1e-11) + mp.mpf(3) / NAT


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(8)])
def test_pure_has_the_curve_of_randomized_response(epsilon: Fraction) -> None:
    for order in ORDERS:
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        truth = mp.log((mp.e ** (order * e) + mp.e ** ((1 - order) * e)) / (1 + mp.e**e)) / (order - 1)
        assert Pure(epsilon).renyi(order) == pytest.approx(float(truth), rel=1e-12)


def test_a_spread_shift_never_costs_more_than_one_coordinate() -> None:
    for order in ORDERS:
        whole = DiscreteLaplace(Fraction(7), 12).renyi(order)
        spread = sum(DiscreteLaplace(Fraction(7), part).renyi(order) for part in (5, 4, 2, 1))
        assert spread <= whole * (1 + 1e-12)


def test_discrete_laplace_never_costs_more_than_pure() -> None:
    for order in ORDERS:
        assert DiscreteLaplace(Fraction(100), 20).renyi(order) <= Pure(Fraction(1, 5)).renyi(order) * (
            1 + 1e-12
        )


def test_k_norm_noise_costs_what_its_pure_epsilon_does() -> None:
    event = KNorm(Fraction(100), 20)
    assert event.pure() == Fraction(1, 5)
    assert [event.renyi(order) for order in ORDERS] == [Pure(Fraction(1, 5)).renyi(order) for order in ORDERS]


def test_sequential_adds() -> None:
    parts = (Pure(Fraction(1, 3)), DiscreteLaplace(Fraction(6), 1))
    both = Sequential(parts)
    assert both.pure() == Fraction(1, 2)
    assert both.renyi(2.0) == pytest.approx(sum(part.renyi(2.0) for part in parts))
    assert both.side_delta() == 0


def _integral(density_p: object, density_q: object, order: float, points: list[object]) -> mp.mpf:
    with mp.workdps(30):
        moment = mp.quad(lambda x: density_p(x) ** order * density_q(x) ** (1 - order), points)  # type: ignore[operator]
        return mp.log(moment) / (order - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(20)])
def test_laplace_curve_is_the_integral(scale: Fraction) -> None:
    s = mp.mpf(scale.numerator) / scale.denominator
    for order in (1.5, 2.0, 6.0):
        law = lambda at: lambda x: mp.e ** (-abs(x - at) / s) / (2 * s)  # noqa: E731
        truth = _integral(law(0), law(1), order, [-mp.inf, 0, 1, mp.inf])
        assert Laplace(scale).renyi(order) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(7)])
def test_gaussian_curve_is_the_integral(sigma: Fraction) -> None:
    for order in (1.5, 3.0):
        law = lambda at: lambda x: mp.npdf(x, at, mp.mpf(sigma.numerator) / sigma.denominator)  # noqa: E731
        truth = _integral(law(0), law(1), order, [-mp.inf, -3, 0, 1, 3, mp.inf])
        assert Gaussian(sigma).renyi(order) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 0.5, 2, 30])
def test_bounded_range_curve_is_the_worst_two_points(epsilon: float) -> None:
    """sup over t of the pair with log ratios t and t − ε, by a search in high precision."""
    with mp.workdps(60):
        e = mp.mpf(Fraction(repr(epsilon)).numerator) / Fraction(repr(epsilon)).denominator
        for order in ORDERS:
            a = mp.mpf(order)

            def divergence(t: mp.mpf, a: mp.mpf = a) -> mp.mpf:
                weight = (1 - mp.e ** (t - e)) / (mp.e**t - mp.e ** (t - e))
                return mp.log(weight * mp.e ** (a * t) + (1 - weight) * mp.e ** (a * (t - e))) / (a - 1)

            best = max(divergence(e * k / 400) for k in range(401))
            price = Exponential(epsilon).renyi(order)
            assert price * (1 + 2**-40) + 1e-12 >= best
            assert price <= best * (1 + 1e-2) + 1e-11
            assert price <= order * epsilon**2 / 8 * (1 + 1e-12)


@pytest.mark.parametrize("values", [2, 3, 50])
@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 3, 40])
def test_randomized_response_curve_is_its_sum(values: int, epsilon: float) -> None:
    with mp.workdps(50):
        e = mp.mpf(repr(epsilon))
        q = 1 / (mp.e**e + values - 1)
        for order in ORDERS:
            a = mp.mpf(order)
            moment = q * (mp.e ** (a * e) + mp.e ** ((1 - a) * e) + values - 2)
            truth = mp.log(moment) / (a - 1)
            assert abs(RandomizedAnswer(epsilon, values).renyi(order) - truth) <= 1e-12 * truth + 1e-14


def test_the_fair_coin_is_ln_3() -> None:
    coin = RandomizedAnswer.truthful(Fraction(3, 4))
    with mp.workdps(40):
        above = mp.mpf(coin.epsilon.numerator) / coin.epsilon.denominator - mp.log(3)
    assert 0 <= above < 1e-11
    assert coin.pure() == coin.epsilon
    assert coin.neighbours is Neighbours.REPLACE_ONE


KINDS: list[tuple[Event, float, float]] = [
    (Gaussian(2), 1 / 8, math.inf),
    (Laplace(2), 0.5 + math.exp(-0.5) - 1, 0.5),
    (RandomizedAnswer(1), math.tanh(0.5), 1),
    (Pure(1), math.tanh(0.5), 1),
]


@pytest.mark.parametrize(("event", "kl", "largest"), KINDS)
def test_the_limits_of_the_orders(event: Event, kl: float, largest: float) -> None:
    """Towards order 1 the Kullback–Leibler divergence, towards infinity the largest loss."""
    assert event.renyi(1 + 1e-7) == pytest.approx(kl, rel=1e-4)
    far = event.renyi(1e7)
    assert far > 1e6 if largest == math.inf else far == pytest.approx(largest, rel=1e-5)


@pytest.mark.parametrize("order", [1, 0.5, math.inf, math.nan])
def test_orders_are_above_one(order: float) -> None:
    with pytest.raises(UsageError):
        Pure(1).renyi(order)


ALL: list[Event] = [
    Pure(Fraction(1, 3)),
    Laplace(2),
    DiscreteLaplace(7, 3),
    KNorm(7, 3),
    Gaussian(1.5),
    Exponential(0.1),
    RandomizedAnswer(1, 4),
    ApproxDP(1, 1e-6),
    ThresholdedKeys(0, 1e-9),
    NonPrivate(),
    Sequential([Pure(1), Gaussian(1)]),
    Parallel([Pure(1), Laplace(3)]),
    Repeated(Gaussian(2), 10),
    Grouped(Sequential([Laplace(2), ApproxDP(1, 1e-9)]), 3),
    Sampled(Gaussian(1), 0.01),
    Sampled.fixed(RandomizedAnswer(1), 3, 100),
    BestOf(Gaussian(5), 0.1, 1),
    Concentrated(0.25),
]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.tag)
def test_the_canonical_form_is_read_back(event: Event) -> None:
    assert from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert hash(event) == hash(from_dict(event.to_dict()))
    assert canonical_json(event)


@pytest.mark.parametrize(
    "around",
    [
        lambda event: Sequential([Pure(1), event]),
        lambda event: Repeated(event, 2),
        lambda event: Grouped(event, 2),
        lambda event: BestOf(event, 0.5),
        lambda event: KeyRelease(1, 1e-9, event),
    ],
)
def test_what_is_made_of_an_event_holds_for_its_neighbours(around: Callable[[Event], Event]) -> None:
    """Or an account would take it for a price of any kind of neighbours."""
    assert around(RandomizedAnswer(1)).neighbours is Neighbours.REPLACE_ONE
    assert around(Parallel([Pure(1)])).neighbours is Neighbours.ADD_REMOVE
    assert around(Pure(1)).neighbours is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"event": "os.system"}, "SF-N308"),
        ({"event": ["pure"]}, "SF-N308"),
        ({}, "SF-N308"),
        ("pure", "SF-N308"),
        ({"event": "pure"}, "SF-N308"),
        ({"event": "pure", "epsilon": "1", "more": 1}, "SF-N308"),
        ({"event": "pure", "epsilon": "1e999999999"}, "SF-N308"),
        ({"event": "pure", "epsilon": "-1"}, "SF-N308"),
        ({"event": "pure", "epsilon": True}, "SF-N308"),
        ({"event": "approx", "epsilon": "1", "delta": "2"}, "SF-N308"),
        ({"event": "repeated", "of": {}, "times": 1}, "SF-N308"),
        ({"event": "sequential", "events": 3}, "SF-N308"),
    ],
)
def test_other_forms_are_refused(fields: object, code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        from_dict(fields)
    assert refusal.value.code == code


def test_deep_nesting_is_refused() -> None:
    fields: dict[str, object] = {"event": "pure", "epsilon": "1"}
    for _ in range(500):
        fields = {"event": "repeated", "of": fields, "times": 1}
    with pytest.raises(UsageError):
        from_dict(fields)


def test_parallel_takes_the_dearest_part() -> None:
    both = Parallel([Pure(1), ApproxDP(Fraction(1, 2), 1e-6)])
    assert both.pure() == 1
    assert both.side_delta() == Fraction(1, 10**6)
    assert price(both).renyi == price(Pure(1)).renyi
    assert both.neighbours is Neighbours.ADD_REMOVE


def test_repeated_costs_are_multiplied_after_rounding() -> None:
    once, many = price(Gaussian(1000)), price(Repeated(Gaussian(1000), 10**6))
    assert many == once * 10**6
    assert price(Sequential([Gaussian(1000)] * 5)) == once * 5


def test_prices_for_different_neighbours_do_not_mix() -> None:
    with pytest.raises(UsageError) as refusal:
        Sequential([RandomizedAnswer(1), Sampled(Gaussian(1), 0.5)])
    assert refusal.value.code == "SF-N303"
    with pytest.raises(UsageError):
        Parallel([RandomizedAnswer(1)])


def test_nothing_pays_for_no_privacy() -> None:
    with pytest.raises(UsageError) as refusal:
        price(Sequential([Pure(1), NonPrivate()]))
    assert refusal.value.code == "SF-N309"


@pytest.mark.parametrize(
    ("event", "reduced"),
    [
        (Pure(1), Pure(4)),
        (Laplace(2), Laplace(Fraction(1, 2))),
        (DiscreteLaplace(8, 3), DiscreteLaplace(8, 12)),
        (KNorm(8, 3), KNorm(8, 12)),
        (Gaussian(2), Gaussian(Fraction(1, 2))),
        (Exponential(1), Exponential(4)),
        (RandomizedAnswer(1), Repeated(RandomizedAnswer(1), 4)),
        (Sequential([Pure(1), Gaussian(4)]), Sequential([Pure(4), Gaussian(1)])),
        (Grouped(Pure(1), 2), Pure(8)),
        (Sampled(Pure(1), 1), Pure(4)),
        (ApproxDP(0, Fraction(1, 10)), ApproxDP(0, Fraction(4, 10))),
        (ApproxDP(1, Fraction(1, 10)), NonPrivate()),
    ],
)
def test_groups_of_four(event: Event, reduced: Event) -> None:
    assert group(event, 4) == reduced
    assert group(event, 1) == event


def test_the_delta_of_a_group_is_a_geometric_sum() -> None:
    three = group(ApproxDP(0.5, 1e-9), 3)
    assert float(three.side_delta()) == pytest.approx(1e-9 * (1 + math.exp(0.5) + math.exp(1)))
    with pytest.raises(UsageError):
        group(Sampled(Gaussian(1), 0.5), 2)
