"""The mechanisms as plain functions: integers in, a private answer out, for adding or removing one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from sfumato.noise.exponential import ExponentialMechanism
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.keys import TruncatedGeometric
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.noisy_max import NoisyMax
from sfumato.noise.permute_and_flip import PermuteAndFlip
from sfumato.noise.propose_test_release import ProposeTestRelease
from sfumato.noise.sampling.integers import parse_integers
from sfumato.noise.sparse_vector import NoisyThreshold, SparseVector
from sfumato.noise.top_k import TopK
from sfumato.privacy.calibration import gaussian_sigma
from sfumato.privacy.exact import parse_delta, parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

Value = TypeVar("Value")


@overload
def laplace(values: int, sensitivity: int = 1, *, epsilon: Number) -> int: ...
@overload
def laplace(values: ArrayLike, sensitivity: int = 1, *, epsilon: Number) -> IntArray: ...
def laplace(values: Any, sensitivity: int = 1, *, epsilon: Number) -> IntArray | int:
    """Return `values` plus integer Laplace noise of scale sensitivity / ε.

    `values` is an integer or an array of integers of any shape, and the answer has the same shape.
    `sensitivity` is the most that one unit can change the values by, summed over all of them (l1 norm); the
    answer is then ε-private.
    """
    l1 = parse_whole(sensitivity, "sensitivity")
    mechanism = LaplaceNoise.calibrated(parse_positive(epsilon, "epsilon"), l1)
    exact = parse_integers(values)
    noisy = mechanism.release(exact, l1=l1)
    return noisy if exact.ndim else int(noisy[()])


@overload
def gaussian(values: int, sensitivity: Number = 1, *, epsilon: Number, delta: Number) -> int: ...
@overload
def gaussian(values: ArrayLike, sensitivity: Number = 1, *, epsilon: Number, delta: Number) -> IntArray: ...
def gaussian(values: Any, sensitivity: Number = 1, *, epsilon: Number, delta: Number) -> IntArray | int:
    """Return `values` plus the least Gaussian noise that is (ε, δ)-private, rounded to integers.

    `values` is an integer or an array of integers of any shape, and the answer has the same shape.
    `sensitivity` is the most that one unit can change the values by, as a distance (l2 norm).
    """
    l2 = parse_positive(sensitivity, "sensitivity")
    mechanism = GaussianNoise(parse_positive(gaussian_sigma(epsilon, delta, l2), "sigma"))
    exact = parse_integers(values)
    noisy = mechanism.release(exact, l2=l2)
    return noisy if exact.ndim else int(noisy[()])


def exponential(utilities: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """Return the index of a candidate, chosen with probability in proportion to exp(ε·u / (2·sensitivity)).

    `sensitivity` is the most that one unit can change any utility by; the choice is then ε-private.
    `monotone` promises that one unit changes all of them in the same direction, which removes the 2.
    """
    mechanism = ExponentialMechanism(
        parse_positive(epsilon, "epsilon"), parse_whole(sensitivity, "sensitivity"), monotone
    )
    return mechanism.release(utilities)


def permute_and_flip(utilities: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """Return the index of a candidate, chosen as by `exponential` but never worse on average at the same ε.

    Its Rényi curve is higher: it is charged like any ε-private mechanism.
    """
    mechanism = PermuteAndFlip(
        parse_positive(epsilon, "epsilon"), parse_whole(sensitivity, "sensitivity"), monotone
    )
    return mechanism.release(utilities)


def noisy_max(scores: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """Return the index of the highest score after integer Laplace noise on each (report noisy max)."""
    mechanism = NoisyMax(
        parse_positive(epsilon, "epsilon"), parse_whole(sensitivity, "sensitivity"), monotone
    )
    return mechanism.release(scores)


def top_k(
    utilities: Any, k: int, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False
) -> list[int]:
    """Return the indices of k different candidates with high utilities, in the order chosen, for ε in all."""
    mechanism = TopK(
        parse_positive(epsilon, "epsilon"),
        parse_whole(k, "k"),
        parse_whole(sensitivity, "sensitivity"),
        monotone,
    )
    return mechanism.release(utilities)


def sparse_vector(
    sensitivity: int = 1, *, epsilon: Number, positives: int = 1, monotone: bool = False
) -> NoisyThreshold:
    """Return a noisy threshold to compare answers with, by one `reaches(answer, threshold)` after the other.

    It costs ε in all and stops after `positives` answers that reach their threshold; the others are free.
    """
    limits = parse_whole(sensitivity, "sensitivity"), parse_whole(positives, "positives")
    return SparseVector(parse_positive(epsilon, "epsilon"), *limits, monotone).begin()


def keys(counts: Mapping[Any, int], *, epsilon: Number, delta: Number, per_unit: int = 1) -> list[Any]:
    """Return the keys that enough units have, in their own order.

    `counts` holds how many different units have each key, and no unit has more than `per_unit` keys.
    """
    most = parse_whole(per_unit, "per_unit")
    return TruncatedGeometric(parse_positive(epsilon, "epsilon"), parse_delta(delta), most).release(counts)


def propose_test_release(value: Value, distance: int, *, epsilon: Number, delta: Number) -> Value | None:
    """Return the value itself if it is surely stable, and None otherwise.

    One unit changes `distance` by at most 1, and it is 0 or less whenever a neighbouring table has another
    value.
    """
    return ProposeTestRelease(parse_positive(epsilon, "epsilon"), parse_delta(delta)).release(value, distance)
