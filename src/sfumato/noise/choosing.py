"""The mechanisms that choose, as plain functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.noise.exponential import Exponential
from sfumato.noise.noisy_max import NoisyMax
from sfumato.noise.permute_and_flip import PermuteAndFlip
from sfumato.noise.top_k import TopK
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number


def exponential(utilities: Any, sensitivity: int = 1, *, epsilon: Number, monotone: bool = False) -> int:
    """The place of a candidate, chosen with chance in proportion to exp(ε·u / (2·sensitivity)).

    `sensitivity` is the most that one unit can change any utility by; the choice is then ε-private.
    `monotone` promises that one unit changes all of them in the same direction, and spares the 2.
    """
    mechanism = Exponential(positive(epsilon, "epsilon"), whole(sensitivity, "sensitivity"), monotone)
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
