"""The distance between two inputs of a mechanism, in the norm that it is priced by, and their price."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import singledispatch
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sfumato.local.longitudinal import RepeatedSurvey
from sfumato.local.means import MeanResponse
from sfumato.local.response import RandomizedResponse
from sfumato.local.subset import SubsetResponse
from sfumato.noise.continual.running_sums import RunningSums
from sfumato.noise.correlated import CorrelatedGaussian
from sfumato.noise.exponential import ModeMechanism
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.keys import KeyDiscovery
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.ordered.quantiles import ExtremeMechanism, QuantilesMechanism
from sfumato.noise.propose_test_release import ProposeTestRelease
from sfumato.noise.selection import SelectionMechanism
from sfumato.noise.sparse_vector import SparseVector
from sfumato.noise.subsample import BlockMean, BlockMedian
from sfumato.noise.top_k import TopK
from sfumato.online.experts.method import ExpertMethod
from sfumato.privacy import events
from sfumato.privacy.events import Event, group, list_moves, price_laplace
from sfumato.privacy.sensitivity import root_up


@runtime_checkable
class ComparableInput(Protocol):
    """An input that can count the rows, or people, by which it differs from another."""

    def difference(self, other: Any) -> int:
        """Return the number of rows, or people, that are in one of the two only."""


@runtime_checkable
class MeasuredMechanism(Protocol):
    """A mechanism that measures the distance of its inputs itself."""

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return the distance of two inputs, in the norm that the price is for."""


@singledispatch
def input_distance(mechanism: Any, first: Any, second: Any) -> Fraction | int:
    """Return the distance of two inputs: the l1 norm, unless the mechanism is priced by another."""
    if isinstance(mechanism, MeasuredMechanism):
        return mechanism.input_distance(first, second)
    if isinstance(first, ComparableInput):
        return first.difference(second)
    return sum(abs(step) for step in _steps(first, second))


@input_distance.register
def _(mechanism: GaussianNoise, first: Any, second: Any) -> Fraction | int:
    # Rounded up as prices are, so that a distance that just reaches its price does not exceed it.
    return root_up(Fraction(sum(step * step for step in _steps(first, second))))


@input_distance.register
def _(mechanism: CorrelatedGaussian, first: Any, second: Any) -> Fraction | int:
    # The length of the difference in the norm of the inverse covariance.
    steps = _steps(first, second)
    return 1 / mechanism.event([steps]).sigma if any(steps) else 0


@input_distance.register
def _(mechanism: RunningSums, first: Any, second: Any) -> Fraction | int:
    # All ticks of a stream are one use. 1 is what is priced.
    return mechanism.distance(np.concatenate(first) - np.concatenate(second))


@input_distance.register
def _(mechanism: ExpertMethod, first: Any, second: Any) -> Fraction | int:
    # The number of steps whose loss vectors differ, over the whole game.
    return int((np.concatenate(first) != np.concatenate(second)).any(axis=1).sum())


@input_distance.register(MeanResponse)
@input_distance.register(RandomizedResponse)
@input_distance.register(SubsetResponse)
@input_distance.register(BlockMean)
@input_distance.register(BlockMedian)
def _(mechanism: Any, first: Any, second: Any) -> Fraction | int:
    # The number of people, or blocks, that differ.
    return sum(step != 0 for step in _steps(first, second))


@input_distance.register
def _(mechanism: RepeatedSurvey, first: Any, second: Any) -> Fraction | int:
    # The number of people, each a column, that differ in any round.
    return int((np.asarray(first) != np.asarray(second)).any(axis=0).sum())


@input_distance.register(SelectionMechanism)
@input_distance.register(TopK)
def _(mechanism: SelectionMechanism | TopK, first: Any, second: Any) -> Fraction | int:
    return _spread(mechanism.monotone, first, second)


@input_distance.register
def _(mechanism: SparseVector, first: Any, second: Any) -> Fraction | int:
    # All answers compared with one noisy threshold move as the scores of a selection do.
    return _spread(mechanism.monotone, first, second)


@input_distance.register
def _(mechanism: KeyDiscovery, first: Any, second: Any) -> Fraction | int:
    # The fewest units that can make the difference, if each unit has at most `per_unit` keys, each of them
    # once.
    steps = [abs(first.get(key, 0) - second.get(key, 0)) for key in first.keys() | second.keys()]
    units: int = max(max(steps, default=0), -(-sum(steps) // mechanism.per_unit))
    return units


@input_distance.register
def _(mechanism: ProposeTestRelease, first: Any, second: Any) -> Fraction | int:
    # The least number of units that the two tables are apart. A unit moves the distance to instability by at
    # most 1; values that differ are at least one unit apart, and a table at distance d is d units away from
    # any that has a neighbour with another value.
    apart: int = abs(first.distance - second.distance)
    return (
        apart
        if same_result(first.value, second.value)
        else max(apart, first.distance + 1, second.distance + 1, 1)
    )


@singledispatch
def price_move(mechanism: Any, moved: Fraction | int) -> Event:
    """Return the price of a mechanism when its input moves this far."""
    event: Event = mechanism.event(moved)
    return event


@price_move.register
def _(mechanism: CorrelatedGaussian, moved: Fraction | int) -> Event:
    return events.Gaussian(1 / Fraction(moved))


@price_move.register
def _(mechanism: RunningSums, moved: Fraction | int) -> Event:
    return events.Gaussian(mechanism.multiplier / Fraction(moved))


@price_move.register(SelectionMechanism)
@price_move.register(SparseVector)
@price_move.register(TopK)
def _(mechanism: Any, moved: Fraction | int) -> Event:
    return group(mechanism.event(), math.ceil(Fraction(moved) / mechanism.sensitivity))


@price_move.register(ExpertMethod)
@price_move.register(ProposeTestRelease)
@price_move.register(KeyDiscovery)
def _(mechanism: Any, moved: Fraction | int) -> Event:
    return group(mechanism.event(), int(moved))


@singledispatch
def price_inputs(mechanism: Any, first: Any, second: Any) -> Event:
    """Return the price of a mechanism whose input is one or the other."""
    return price_move(mechanism, input_distance(mechanism, first, second))


@price_inputs.register
def _(mechanism: LaplaceNoise, first: Any, second: Any) -> Event:
    # What single numbers moved by, which costs less than one number that moved as far as all of them.
    return price_laplace(mechanism.scale, list_moves(map(abs, _steps(first, second))))


@price_inputs.register(ExtremeMechanism)
@price_inputs.register(ModeMechanism)
@price_inputs.register(QuantilesMechanism)
def _(mechanism: Any, first: Any, second: Any) -> Event:
    event: Event = mechanism.event_by_cell(list_moves(first.differences(second)))
    return event


def _spread(monotone: bool, first: Any, second: Any) -> int:
    """Return the most that a score moved by; for monotone scores, also how far they moved apart."""
    steps = [0, *_steps(first, second)]
    return max(steps) - min(steps) if monotone else max(map(abs, steps))


def _steps(first: Any, second: Any) -> list[int]:
    """Return the difference of every coordinate, in Python integers, which do not wrap around."""
    apart = np.asarray(first, dtype=object) - np.asarray(second, dtype=object)
    return [int(step) for step in np.ravel(apart)]


def same_result(first: Any, second: Any) -> bool:
    """Return whether two results are equal in every part; NaN equals NaN."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        one, other = np.asarray(first), np.asarray(second)
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and same_result(one.tolist(), other.tolist())
        )
    if isinstance(first, dict) and isinstance(second, dict):
        return same_result(list(first.items()), list(second.items()))
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same_result, first, second))
    return bool(first == second) or bool(first != first and second != second)
