"""The mechanisms that choose, as plain functions, private for adding or removing one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.noise.exponential import ExponentialMechanism
from sfumato.noise.keys import TruncatedGeometric
from sfumato.noise.noisy_max import NoisyMax
from sfumato.noise.permute_and_flip import PermuteAndFlip
from sfumato.noise.propose_test_release import ProposeTestRelease
from sfumato.noise.sparse_vector import NoisyThreshold, SparseVector
from sfumato.noise.tails import risk
from sfumato.noise.top_k import TopK
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.exact import Number

Value = TypeVar("Value")


def exponential(utilities: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """The place of a candidate, chosen with chance in proportion to exp(ε·u / (2·sensitivity)).

    `sensitivity` is the most that one unit can change any utility by; the choice is then ε-private.
    `monotone` promises that one unit changes all of them in the same direction, and spares the 2.
    """
    mechanism = ExponentialMechanism(
        positive(epsilon, "epsilon"), whole(sensitivity, "sensitivity"), monotone
    )
    return mechanism.release(utilities)


def permute_and_flip(utilities: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """As `exponential`, and never worse on average at the same pure ε. Its curve is dearer: it is charged as
    any ε-private mechanism."""
    mechanism = PermuteAndFlip(positive(epsilon, "epsilon"), whole(sensitivity, "sensitivity"), monotone)
    return mechanism.release(utilities)


def noisy_max(scores: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """The place of the highest score after integer Laplace noise on each; the noisy scores are not told."""
    mechanism = NoisyMax(positive(epsilon, "epsilon"), whole(sensitivity, "sensitivity"), monotone)
    return mechanism.release(scores)


def top_k(
    utilities: Any, k: int, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False
) -> list[int]:
    """The places of k different candidates with high utilities, the first choice first, for ε in all."""
    mechanism = TopK(positive(epsilon, "epsilon"), whole(k, "k"), whole(sensitivity, "sensitivity"), monotone)
    return mechanism.release(utilities)


def sparse_vector(
    sensitivity: int = 1, *, epsilon: Number, positives: int = 1, monotone: bool = False
) -> NoisyThreshold:
    """A noisy threshold to hold answers against, one `reaches(answer, threshold)` after the other.

    It costs ε in all and stops after `positives` yeses; noes are free.
    """
    limits = whole(sensitivity, "sensitivity"), whole(positives, "positives")
    return SparseVector(positive(epsilon, "epsilon"), *limits, monotone).begin()


def keys(counts: Mapping[Any, int], *, epsilon: Number, delta: Number, per_unit: int = 1) -> list[Any]:
    """Those keys that enough units have, in their own order.

    `counts` says how many different units have each key, and no unit has more than `per_unit` of them.
    """
    mechanism = TruncatedGeometric(positive(epsilon, "epsilon"), risk(delta), whole(per_unit, "per_unit"))
    return mechanism.release(counts)


def propose_test_release(value: Value, distance: int, *, epsilon: Number, delta: Number) -> Value | None:
    """The value as it is, if it is surely stable, and otherwise none.

    `distance` moves by at most 1 with one unit, and is 0 or less whenever a neighbouring table has another
    value.
    """
    return ProposeTestRelease(positive(epsilon, "epsilon"), risk(delta)).release(value, distance)
