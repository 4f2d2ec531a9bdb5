"""Mechanisms that add exact noise to integers or choose among candidates; the samplers are in noise/sampling.

This is the only room that draws privacy randomness. A mechanism is a frozen value that states its price
(`event`) and draws its answer (`release`); it knows no table and charges nothing. Each has a proof note.
"""

from sfumato.noise.bodies.matrix import MatrixNoise
from sfumato.noise.bodies.simplices import SimplicesNoise
from sfumato.noise.continual.running_sums import RunningSums
from sfumato.noise.correlated import CorrelatedGaussian
from sfumato.noise.exponential import ExponentialMechanism, ModeMechanism
from sfumato.noise.functions import (
    exponential,
    gaussian,
    keys,
    laplace,
    noisy_max,
    permute_and_flip,
    propose_test_release,
    sparse_vector,
    top_k,
)
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.histograms import Histograms
from sfumato.noise.keys import ThresholdedNoise, TruncatedGeometric
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.noisy_max import NoisyMax
from sfumato.noise.ordered.quantiles import ExtremeMechanism, QuantileMechanism, QuantilesMechanism
from sfumato.noise.ordered.ranges import Ranges, RangeSums
from sfumato.noise.ordered.surroundings import Surroundings
from sfumato.noise.permute_and_flip import PermuteAndFlip
from sfumato.noise.propose_test_release import ProposeTestRelease
from sfumato.noise.sparse_vector import SparseVector
from sfumato.noise.subsample import BlockMean, BlockMedian, UnitBlocks
from sfumato.noise.top_k import TopK

__all__ = [
    "BlockMean",
    "BlockMedian",
    "CorrelatedGaussian",
    "ExponentialMechanism",
    "ExtremeMechanism",
    "GaussianNoise",
    "Histograms",
    "LaplaceNoise",
    "MatrixNoise",
    "ModeMechanism",
    "NoisyMax",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "QuantileMechanism",
    "QuantilesMechanism",
    "RangeSums",
    "Ranges",
    "RunningSums",
    "SimplicesNoise",
    "SparseVector",
    "Surroundings",
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
