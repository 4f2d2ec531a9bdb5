"""Mistakes in noise itself: too little of it, at the wrong scale, in floating point, or shared."""

from __future__ import annotations

from typing import Any

import numpy as np

from mistakes.mistake import EMPTY_AND_ONE, FEW, Mistake, clip_to_one, laplace


def half_scale(rows: Any) -> float:
    return float(clip_to_one(rows).sum() + laplace(0.5))


def epsilon_as_scale(rows: Any) -> float:
    return float(clip_to_one(rows).sum() + laplace(0.2))  # for ε = 0.2 the scale would be 5


def float_laplace(rows: Any) -> float:
    return float(len(rows) + laplace(1.0))


def float_sum(rows: Any) -> float:
    """Half precision, from left to right: a large first row changes how every later one is rounded."""
    total = np.cumsum(np.clip(rows, 0, 1), dtype=np.float16)
    return float((total[-1] if len(total) else 0.0) + laplace(1.0))


_SMALL = np.full(930, 1.1 * 2.0**-11)
ABSORBED = ((_SMALL, np.concatenate([[1.0], _SMALL])),)


def exact_divisor(rows: Any) -> float:
    """A noisy sum divided by the exact number of rows."""
    return float((clip_to_one(rows).sum() + laplace(1.0)) / max(len(rows), 1))


def noise_for_a_share(rows: Any) -> float:
    """A mean with noise for sensitivity 1/n, where n is that of the table."""
    return float(clip_to_one(rows).sum() / max(len(rows), 1) + laplace(1.0 / max(len(rows), 1)))


def counts_by_two_over_n(rows: Any) -> list[float]:
    """Shares of a histogram with noise 2/n for neighbours that replace a row; here one is added."""
    counts = np.array([np.sum(np.asarray(rows) <= 0.5), np.sum(np.asarray(rows) > 0.5)])
    size = max(len(rows), 1)
    return [float(each) for each in counts / size + laplace(2 / size, 2)]


def divisor_of_the_batch(rows: Any) -> float:
    """A noisy sum of clipped gradients, divided by an expected batch that is computed from n."""
    noisy = np.sum(np.clip(rows, -1, 1)) + np.round(laplace(1.0) * 8) / 8
    return float(noisy / max(0.5 * len(rows), 0.5))


def forked_generators(rows: Any) -> list[float]:
    """Two workers with copies of one generator: both have the same noise."""
    noise = laplace(2.0)
    return [float(len(rows) + noise), float(np.sum(clip_to_one(rows) > 2) + noise)]


def short_seed(rows: Any) -> float:
    generator = np.random.default_rng(int(np.random.default_rng().integers(2**31)))
    return float(len(rows) + generator.laplace(0, 1.0))


def only_where_counted(rows: Any) -> list[float]:
    """Noise only on cells that are not empty."""
    counts = np.bincount(np.asarray(rows, dtype=int), minlength=2)[:2]
    return [float(each + laplace(1.0)) if each else 0.0 for each in counts]


def one_price_for_two(rows: Any) -> list[float]:
    """The mean that a scaler takes is noisy too, and nobody pays for it."""
    return [float(clip_to_one(rows).sum() + laplace(1.0)), float(len(rows) + laplace(1.0))]


NOISE_MISTAKES = (
    Mistake("half scale", "Ding et al., 2018", "half of the noise", half_scale),
    Mistake("ε as scale", "Ding et al., 2018, histogram", "scale ε, not 1/ε", epsilon_as_scale, epsilon=0.2),
    Mistake(
        "float Laplace",
        "Mironov, 2012",
        "the last bits of doubles tell the exact value",
        float_laplace,
        EMPTY_AND_ONE,
        last_bits=True,
    ),
    Mistake(
        "float sum",
        "Casacuberta et al., 2022",
        "rounding moves a sum by more than one row's bound",
        float_sum,
        ABSORBED,
    ),
    Mistake(
        "exact divisor",
        "sums divided by len() in tutorials",
        "divided by the exact n",
        exact_divisor,
        samples=12_000,
    ),
    Mistake(
        "sensitivity 1/n",
        "noise for 1/len() in tutorials",
        "noise shrinks with the exact n",
        noise_for_a_share,
    ),
    Mistake("counts with 2/n noise", "DataSynthesizer#34", "n is taken for public", counts_by_two_over_n),
    Mistake("batch size from n", "opacus#819", "a divisor from the real n", divisor_of_the_batch),
    Mistake("forked generators", "NumPy generators after fork", "equal noise cancels", forked_generators),
    Mistake(
        "31-bit seed", "scikit-learn's random_state", "all seeds can be tried", short_seed, EMPTY_AND_ONE
    ),
    Mistake(
        "noise where counted",
        "sparse histograms without a threshold",
        "empty cells are exactly 0",
        only_where_counted,
        FEW[:2],
    ),
    Mistake(
        "ε of preprocessing", "preprocessing outside the account", "two answers, one price", one_price_for_two
    ),
)
