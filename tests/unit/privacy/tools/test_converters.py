"""Events of dp-accounting and OpenDP: the same prices on both sides, and refusals where words differ."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import opendp.prelude as dp
import pytest
from dp_accounting import dp_event as theirs
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from sfumato.errors import UsageError
from sfumato.privacy import (
    ApproxDP,
    BestOf,
    Concentrated,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    NonPrivate,
    Pure,
    RandomizedAnswer,
    RenyiCurve,
    Repeated,
    Sampled,
    Sequential,
    epsilon,
    from_dp_event,
    from_opendp,
    renyi_epsilon,
    to_dp_event,
    to_opendp,
)
from sfumato.privacy.tools.converters import read_distance

dp.enable_features("contrib", "honest-but-curious")

BOTH: list[tuple[Event, Any]] = [
    (Gaussian(3), theirs.GaussianDpEvent(3.0)),
    (Laplace(Fraction(5, 2)), theirs.LaplaceDpEvent(2.5)),
    (DiscreteLaplace(4, 3), theirs.DiscreteLaplaceDpEvent(0.25, 3)),
    (Concentrated(0.25), theirs.ZCDpEvent(0.25)),
    (NonPrivate(), theirs.NonPrivateDpEvent()),
    (Repeated(Gaussian(3), 4), theirs.SelfComposedDpEvent(theirs.GaussianDpEvent(3.0), 4)),
    (Sampled(Gaussian(1), Fraction(1, 4)), theirs.PoissonSampledDpEvent(0.25, theirs.GaussianDpEvent(1.0))),
    (
        Sequential([Laplace(2), Gaussian(8)]),
        theirs.ComposedDpEvent([theirs.LaplaceDpEvent(2.0), theirs.GaussianDpEvent(8.0)]),
    ),
]


@pytest.mark.parametrize(("ours", "other"), BOTH, ids=lambda each: type(each).__name__)
def test_events_of_both_sides(ours: Event, other: Any) -> None:
    assert to_dp_event(ours) == other
    assert from_dp_event(other) == ours


def test_prices_of_both_sides() -> None:
    run = Sequential([Repeated(Sampled(Gaussian(1.5), 0.02), 50), Laplace(4), Gaussian(6)])
    other = PLDAccountant().compose(to_dp_event(run)).get_epsilon(1e-6)
    assert epsilon(run, 1e-6, lower=True) - 1e-4 <= other <= epsilon(run, 1e-6) + 1e-3
    for mine in (Concentrated(0.1), Sampled(Gaussian(2), 0.05)):
        found = RdpAccountant().compose(to_dp_event(mine)).get_epsilon(1e-6)
        assert found == pytest.approx(renyi_epsilon(mine, 1e-6), rel=0.05)


def test_words_that_mean_something_else_there() -> None:
    coin = from_dp_event(theirs.RandomizedResponseDpEvent(0.5, 2))  # the truth with 3/4
    assert isinstance(coin, RandomizedAnswer)
    assert float(coin.epsilon) == pytest.approx(math.log(3), rel=1e-11)
    assert to_dp_event(coin).noise_parameter == pytest.approx(0.5)
    assert from_dp_event(theirs.NoOpDpEvent()) == Pure(0)
    for silent in (theirs.GaussianDpEvent(0.0), theirs.RandomizedResponseDpEvent(0.0, 2)):
        assert from_dp_event(silent) == NonPrivate()
    # There the noise is over the norm of one row, and a replacement moves the sum by two of them.
    fixed = from_dp_event(theirs.SampledWithoutReplacementDpEvent(100, 5, theirs.GaussianDpEvent(4.0)))
    assert fixed == Sampled.fixed(Gaussian(2), 5, 100)
    best = from_dp_event(theirs.RepeatAndSelectDpEvent(theirs.GaussianDpEvent(4.0), 10, 1))
    assert best == BestOf(Gaussian(4), Fraction(1, 10), 1)
    line = from_dp_event(theirs.ZCDpEvent(0.1, 0.05))
    assert isinstance(line, RenyiCurve)
    assert line.renyi(8) == pytest.approx(0.85)
    assert line.renyi(600) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_dp_event(theirs.SampledWithReplacementDpEvent(10, 2, theirs.GaussianDpEvent(1.0))),
        lambda: from_dp_event(theirs.RepeatAndSelectDpEvent(theirs.GaussianDpEvent(1.0), 3, 0.5)),
        lambda: from_dp_event("gaussian"),
        lambda: to_dp_event(Exponential(1)),
        lambda: to_dp_event(Sampled.fixed(Gaussian(2), 5, 100)),
        lambda: from_opendp(5, 1),
        lambda: read_distance("UserDivergence", 1),
    ],
)
def test_what_has_no_counterpart_is_refused(make: Any) -> None:
    with pytest.raises(UsageError, match="SF-N309"):
        make()


SPACE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def test_measurements_of_opendp() -> None:
    laplace, normal = dp.m.make_laplace(*SPACE, scale=2.0), dp.m.make_gaussian(*SPACE, scale=2.0)
    assert from_opendp(laplace, 1) == Pure(0.5)
    assert from_opendp(normal, 1) == Concentrated(0.125)
    profile = dp.c.make_zCDP_to_approxDP(normal)
    assert from_opendp(dp.c.make_fix_delta(profile, 1e-6), 1) == ApproxDP(*profile_point(profile, 1e-6))
    whole = from_opendp(profile, 1)
    assert (
        epsilon(Concentrated(0.125), 1e-6) * 0.99
        < epsilon(whole, 1e-6)
        < 1.5 * profile_point(profile, 1e-6)[0]
    )
    rough = from_opendp(dp.c.make_approximate(normal), 1)
    assert rough == Sequential([Concentrated(0.125), ApproxDP(0, 0)])
    assert read_distance("RenyiDivergence", lambda order: 0.1 * order).renyi(16) == pytest.approx(1.6)


def profile_point(measurement: Any, delta: float) -> tuple[float, float]:
    return measurement.map(1).epsilon(delta), delta


@pytest.mark.parametrize(
    ("event", "measure", "distance"),
    [
        (Laplace(4), dp.max_divergence(), 0.25),
        (Gaussian(2), dp.zero_concentrated_divergence(), 0.125),
        (ApproxDP(0.5, Fraction(1, 1024)), dp.approximate(dp.max_divergence()), (0.5, 1 / 1024)),
        (
            Sequential([Gaussian(2), ApproxDP(0, Fraction(1, 1024))]),
            dp.approximate(dp.zero_concentrated_divergence()),
            (0.125, 1 / 1024),
        ),
    ],
)
def test_measures_of_opendp(event: Event, measure: Any, distance: Any) -> None:
    found, size = to_opendp(event)
    assert found == measure
    assert size == distance
    # Distances are rounded up, and read back they cost at least as much.
    back = read_distance(str(found), size)
    assert back.renyi(8) >= event.renyi(8) * (1 - 1e-12)
