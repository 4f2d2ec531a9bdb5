"""Events of other libraries and ours: dp-accounting's events, OpenDP's measures and distances.

Both ways, as far as the other side has the word. What it cannot say, or says for other neighbours than it
can mean here, is refused. OpenDP is needed only where a value of its own is given or returned.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, singledispatch
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.privacy.account import ORDERS
from sfumato.privacy.conversion import rho
from sfumato.privacy.events import (
    ApproxDP,
    BestOf,
    Concentrated,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    PrivacyProfile,
    Pure,
    RandomizedAnswer,
    RenyiCurve,
    Repeated,
    Sampled,
    Sequential,
    group,
)
from sfumato.privacy.exact import parse_exact
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.privacy.exact import Number

DELTAS = tuple(Fraction(1, 10**power) for power in range(3, 13))
"""Values of δ at which a profile of OpenDP is read, unless others are given."""


# ---- dp-accounting -----------------------------------------------------------------------------------------


def from_dp_event(event: Any) -> Event:
    """Return an event of dp-accounting as ours, for adding or removing one unit.

    Samples of a fixed size become events for replacing one, whose noise counts for twice the sensitivity.
    """
    read = _list_readers().get(type(event))
    if read is None:
        raise _unknown(type(event).__name__, "dp-accounting's events of noise, samples and composition")
    return read(event)


@cache
def _list_readers() -> dict[type, Callable[[Any], Event]]:
    """Return for each event of dp-accounting how it is read."""
    theirs = _theirs()
    return {
        theirs.NoOpDpEvent: lambda event: Pure(0),
        theirs.NonPrivateDpEvent: lambda event: NonPrivate(),
        theirs.GaussianDpEvent: lambda event: _read_noise(Gaussian, event),
        theirs.LaplaceDpEvent: lambda event: _read_noise(Laplace, event),
        theirs.DiscreteLaplaceDpEvent: lambda event: DiscreteLaplace(
            1 / parse_exact(event.noise_parameter, "noise_parameter"), event.sensitivity
        ),
        theirs.RandomizedResponseDpEvent: lambda event: _read_response(
            parse_exact(event.noise_parameter, "noise_parameter"), event.num_buckets
        ),
        theirs.ZCDpEvent: lambda event: _read_concentrated(event.rho, event.xi),
        theirs.SelfComposedDpEvent: lambda event: Repeated(from_dp_event(event.event), event.count),
        theirs.ComposedDpEvent: lambda event: Sequential(map(from_dp_event, event.events)),
        theirs.PoissonSampledDpEvent: lambda event: Sampled(
            from_dp_event(event.event), event.sampling_probability
        ),
        theirs.SampledWithoutReplacementDpEvent: lambda event: Sampled.fixed(
            group(from_dp_event(event.event), 2), event.sample_size, event.source_dataset_size
        ),
        theirs.RepeatAndSelectDpEvent: _read_search,
    }


def _read_noise(kind: type[Gaussian] | type[Laplace], event: Any) -> Event:
    return kind(event.noise_multiplier) if event.noise_multiplier else NonPrivate()


def _read_search(event: Any) -> Event:
    if event.shape != 1:
        raise _unknown("RepeatAndSelectDpEvent", "a geometric number of runs, of shape 1")
    return BestOf(from_dp_event(event.event), 1 / parse_exact(event.mean, "mean"), 1)


def _read_response(chance: Fraction, values: int) -> Event:
    # With the chance p the answer is drawn from all values, the true one included.
    if not chance:
        return NonPrivate()
    return RandomizedAnswer.truthful(1 - chance + chance / values, values)


def _read_concentrated(rate: Number, extra: Number) -> Event:
    per_order, constant = parse_exact(rate, "rho"), parse_exact(extra, "xi")
    if not constant:
        return Concentrated(per_order)
    return RenyiCurve([(Fraction(order), constant + per_order * Fraction(order)) for order in ORDERS])


@singledispatch
def to_dp_event(event: Event) -> Any:
    """Return an event of ours as one of dp-accounting, where it has one."""
    raise _unknown(
        event.tag, "Gaussian, Laplace, ρ, randomized response, Poisson samples and their composition"
    )


@to_dp_event.register
def _(event: Gaussian) -> Any:
    return _theirs().GaussianDpEvent(_round_down(event.sigma))


@to_dp_event.register
def _(event: Laplace) -> Any:
    return _theirs().LaplaceDpEvent(_round_down(event.scale))


@to_dp_event.register
def _(event: DiscreteLaplace) -> Any:
    return _theirs().DiscreteLaplaceDpEvent(_round_float_up(1 / event.scale), event.l1)


@to_dp_event.register
def _(event: RandomizedAnswer) -> Any:
    ratio = math.exp(float(event.epsilon))
    return _theirs().RandomizedResponseDpEvent(event.values / (ratio + event.values - 1), event.values)


@to_dp_event.register
def _(event: Concentrated) -> Any:
    return _theirs().ZCDpEvent(_round_float_up(event.rho))


@to_dp_event.register
def _(event: NonPrivate) -> Any:
    return _theirs().NonPrivateDpEvent()


@to_dp_event.register
def _(event: Repeated) -> Any:
    return _theirs().SelfComposedDpEvent(to_dp_event(event.event), event.times)


@to_dp_event.register
def _(event: Sequential) -> Any:
    return _theirs().ComposedDpEvent([to_dp_event(part) for part in event.events])


@to_dp_event.register
def _(event: Sampled) -> Any:
    if event.relation is not Neighbours.ADD_REMOVE:
        raise _unknown(
            event.tag, "Poisson samples; those of a fixed size are stated for other sensitivities there"
        )
    return _theirs().PoissonSampledDpEvent(_round_float_up(event.rate), to_dp_event(event.event))


def _theirs() -> Any:
    from dp_accounting import dp_event

    return dp_event


# ---- OpenDP ------------------------------------------------------------------------------------------------


def from_opendp(measurement: Any, d_in: Any, *, deltas: Iterable[Number] = DELTAS) -> Event:
    """Return what a measurement of OpenDP costs for inputs at this distance, as its own map says.

    A profile is read at `deltas`, and a Rényi curve at the orders of the account.
    """
    try:
        measure, distance = str(measurement.output_measure), measurement.map(d_in)
    except AttributeError:
        raise _unknown(
            type(measurement).__name__, "a measurement of OpenDP and a distance between its inputs"
        ) from None
    return read_distance(measure, distance, deltas=deltas)


def read_distance(measure: str, distance: Any, *, deltas: Iterable[Number] = DELTAS) -> Event:
    """Return a distance under one of OpenDP's measures, by the measure's name, as an event."""
    match measure:
        case "MaxDivergence":
            return Pure(distance)
        case "ZeroConcentratedDivergence":
            return Concentrated(distance)
        case "Approximate(MaxDivergence)" | "FixedSmoothedMaxDivergence":
            return ApproxDP(*distance)
        case "Approximate(ZeroConcentratedDivergence)":
            return Sequential([Concentrated(distance[0]), ApproxDP(0, distance[1])])
        case "SmoothedMaxDivergence":
            stated = ((distance.epsilon(float(delta)), delta) for delta in deltas)
            return PrivacyProfile([(epsilon, delta) for epsilon, delta in stated if math.isfinite(epsilon)])
        case "RenyiDivergence":
            return RenyiCurve([(order, distance(order)) for order in ORDERS])
    raise _unknown(measure[:80], "pure and approximate DP, ρ, profiles and Rényi curves")


def to_opendp(event: Event) -> tuple[Any, Any]:
    """Return a measure of OpenDP and the distance under it that an event stays within, rounded up.

    Pure ε where there is one, else ρ; with a side δ the approximate measure.
    """
    import opendp.prelude as dp

    pure, side = event.pure(), event.side_delta()
    measure = dp.zero_concentrated_divergence() if pure is None else dp.max_divergence()
    distance = _round_float_up(rho(event) if pure is None else pure)
    return (dp.approximate(measure), (distance, _round_float_up(side))) if side else (measure, distance)


def _round_float_up(value: Fraction) -> float:
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


def _round_down(value: Fraction) -> float:
    near = float(value)
    return near if near <= value else math.nextafter(near, 0.0)


def _unknown(got: str, known: str) -> UsageError:
    return UsageError("SF-N309", "There is no such event on the other side.", got=got, known=known)
