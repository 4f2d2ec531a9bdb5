"""Our noise and opendp's, drawn side by side, have the same law.

opendp's integer Gaussian is the discrete one and ours the continuous one rounded; from σ = 100 on the two are
too close to be told apart by so few draws.
"""

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2_contingency

from sfumato.noise import GaussianNoise, LaplaceNoise

DRAWS, BINS = 200_000, 60
FALSE_ALARM = 1e-6  # of each test

dp.enable_features("contrib")
_VECTOR = dp.vector_domain(dp.atom_domain(T=int))


def _assert_same_law(ours: np.ndarray, theirs: np.ndarray) -> None:
    """A two-sample chi-square test over bins of about equal weight."""
    edges = np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, BINS)[1:-1]))
    counts = [
        np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1) for drawn in (ours, theirs)
    ]
    table = np.array(counts)
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 10, 1000])
def test_laplace(scale: int) -> None:
    theirs = dp.m.make_laplace(_VECTOR, dp.l1_distance(T=int), scale=float(scale))([0] * DRAWS)
    _assert_same_law(LaplaceNoise(scale).release(np.zeros(DRAWS, dtype=np.int64)), np.array(theirs))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [100, 5000])
def test_gaussian(sigma: int) -> None:
    theirs = dp.m.make_gaussian(_VECTOR, dp.l2_distance(T=float), scale=float(sigma))([0] * DRAWS)
    _assert_same_law(GaussianNoise(sigma).release(np.zeros(DRAWS, dtype=np.int64)), np.array(theirs))


@pytest.mark.slow
def test_a_wrong_scale_is_told_apart() -> None:
    theirs = dp.m.make_laplace(_VECTOR, dp.l1_distance(T=int), scale=10.0)([0] * DRAWS)
    with pytest.raises(AssertionError):
        _assert_same_law(LaplaceNoise(11).release(np.zeros(DRAWS, dtype=np.int64)), np.array(theirs))
