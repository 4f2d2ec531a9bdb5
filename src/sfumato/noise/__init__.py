"""Exact noise for whole numbers. The only room that draws privacy randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.noise.choosing import (
    exponential,
    keys,
    noisy_max,
    permute_and_flip,
    propose_test_release,
    sparse_vector,
    top_k,
)
from sfumato.noise.correlated import CorrelatedGaussian
from sfumato.noise.exponential import ExponentialMechanism
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.histograms import Histograms
from sfumato.noise.keys import ThresholdedNoise, TruncatedGeometric
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.noisy_max import NoisyMax
from sfumato.noise.permute_and_flip import PermuteAndFlip
from sfumato.noise.propose_test_release import ProposeTestRelease
from sfumato.noise.quantiles import ExtremeMechanism, QuantileMechanism, QuantilesMechanism
from sfumato.noise.ranges import Ranges, RangeSums
from sfumato.noise.sampling.integers import integers
from sfumato.noise.sparse_vector import SparseVector
from sfumato.noise.subsample import BlockMean, BlockMedian, UnitBlocks
from sfumato.noise.top_k import TopK
from sfumato.privacy.calibration import gaussian_sigma
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

__all__ = [
    "BlockMean",
    "BlockMedian",
    "CorrelatedGaussian",
    "ExponentialMechanism",
    "ExtremeMechanism",
    "GaussianNoise",
    "Histograms",
    "LaplaceNoise",
    "NoisyMax",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "QuantileMechanism",
    "QuantilesMechanism",
    "RangeSums",
    "Ranges",
    "SparseVector",
    "ThresholdedNoise",
    "TopK",
    "TruncatedGeometric",
    "UnitBlocks",
    "exponential",
    "gaussian",
    "keys",
    "laplace",
    "noisy_max",
    "permute_and_flip",
    "propose_test_release",
    "sparse_vector",
    "top_k",
]


def laplace(values: Any, sensitivity: int = 1, *, epsilon: Number) -> Any:
    """`values` plus integer Laplace noise of scale sensitivity / ε.

    Takes a whole number or an array of them in any shape, and gives back the same. `sensitivity` is the
    most that one unit can change the values by, summed over all of them; the answer is then ε-private.
    """
    l1 = whole(sensitivity, "sensitivity")
    mechanism = LaplaceNoise.calibrated(positive(epsilon, "epsilon"), l1)
    exact = integers(values)
    noisy = mechanism.release(exact, l1=l1)
    return noisy if exact.ndim else int(noisy[()])


def gaussian(values: Any, sensitivity: Number = 1, *, epsilon: Number, delta: Number) -> Any:
    """`values` plus the least Gaussian noise that is (ε, δ)-private, rounded to whole numbers.

    Takes a whole number or an array of them in any shape, and gives back the same. `sensitivity` is the
    most that one unit can change the values by, as a distance: the root of the sum of squares.
    """
    l2 = positive(sensitivity, "sensitivity")
    mechanism = GaussianNoise(positive(gaussian_sigma(epsilon, delta, l2), "sigma"))
    exact = integers(values)
    noisy = mechanism.release(exact, l2=l2)
    return noisy if exact.ndim else int(noisy[()])
