"""Clopper and Pearson's confidence bounds on a probability, from hits among independent trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def lower_bound(hits: Any, trials: Any, alpha: float) -> Floats:
    """Return a number below the probability, except with probability alpha."""
    from scipy.special import betaincinv

    k, n = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 0.5), n - k + 1, alpha), 0.0)


def upper_bound(hits: Any, trials: Any, alpha: float) -> Floats:
    """Return a number above the probability, except with probability alpha."""
    n = np.asarray(trials, dtype=float)
    return np.asarray(1 - lower_bound(n - np.asarray(hits, dtype=float), n, alpha))
