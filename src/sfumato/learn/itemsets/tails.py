"""How far a sum of independent noises strays. Because : docs/proofs/itemsets.md#intervals"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from sfumato.privacy.exact import parse_confidence


def half_width(deviation: float, step: float, confidence: Any) -> float:
    """Noise of this deviation stays below with this confidence.

    `step` is the deviation of the largest of the Laplace noises that it is the sum of, or 0 for Gaussian
    noise. One Laplace noise strays beyond t scales with chance e^(−t). Of several the moment generating
    function is at most that of variance / step² equal ones, and Chernoff's bound follows. Noise is drawn on a
    grid of whole numbers or finer, for which a twelfth and 1 are added.
    """
    rare = float(1 - parse_confidence(confidence))
    if not step:
        return deviation * NormalDist().inv_cdf(1 - rare / 2)
    parts, scale = (deviation / step) ** 2, math.sqrt(step**2 / 2 + 1 / 12)
    if parts < 1 + 1e-9:
        return scale * math.log(1 / rare) + 1
    return scale * _chernoff(parts, math.log(2 / rare))


def _chernoff(parts: float, rare: float) -> float:
    """The least of (rare − parts·log(1 − x²)) / x over x below 1: where its slope changes its sign."""
    low, high = 0.0, 1.0
    for _ in range(60):
        x = (low + high) / 2
        falls = 2 * parts * x * x / (1 - x * x) + parts * math.log1p(-x * x) < rare
        low, high = (x, high) if falls else (low, x)
    return (rare - parts * math.log1p(-low * low)) / low
