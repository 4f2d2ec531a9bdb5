"""Noise for sums that one row moves all at once, each within its own bound (docs/proofs/k-norm.md#boxes)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.additive import parse_scale
from sfumato.noise.bodies.radius import RadiusSampler
from sfumato.noise.bodies.shaped import ShapedNoise, require_few
from sfumato.noise.sampling.bits import draw_between_each
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

    Floats = NDArray[np.float64]

_SHAPE_SCALE = 64.0
"""Scale from which on the law has the same shape as that of any larger one, to within 1e-4. It is only used
to say how large the noise is."""
_FAR = 2**62


@tagged("Box", "half_widths", "scale")
@dataclass(frozen=True, slots=True)
class BoxNoise(ShapedNoise):
    """Adds noise with the shape of a box, whose half widths bound what one row does to each sum.

    N(z) is the least whole r with |z_i| ≤ r · half_widths[i] for all i, so a unit of r rows has a norm of r.

    Privacy
    -------
    Protects : one unit that moves the cells by a norm of at most `norm`, added up over cells.
    Costs    : KNorm(scale, norm), which is norm / scale in pure ε.
    Because  : docs/proofs/k-norm.md#boxes
    Assumes  : the input is an exact integer array; how long a draw takes is not observed.
    """

    half_widths: tuple[int, ...]
    scale: Fraction

    def __post_init__(self) -> None:
        require_few(len(self.half_widths))
        checked = tuple(parse_whole(each, "half width") for each in self.half_widths)
        object.__setattr__(self, "half_widths", checked)
        object.__setattr__(self, "scale", parse_scale(self.scale, "scale"))

    @classmethod
    def calibrated(cls, epsilon: Fraction, norm: int, half_widths: tuple[int, ...]) -> BoxNoise:
        """Return the noise that makes cells of this sensitivity ε-private."""
        return cls(half_widths, norm / epsilon)

    @property
    def sums(self) -> int:
        """The number of sums in a cell."""
        return len(self.half_widths)

    @property
    def covariance(self) -> Floats:
        """The covariance: sums are uncorrelated, though not independent."""
        radii, masses = _radius_law(self.half_widths, self.scale)
        bounds = np.array(self.half_widths, dtype=np.float64)[:, None] * radii
        return np.diag((bounds * (bounds + 1) / 3) @ masses)

    def norms(self, moves: IntArray) -> IntArray:
        """Return N of each column."""
        widths = np.array(self.half_widths, dtype=object)[:, None]
        return np.asarray((-(-abs(moves.astype(object)) // widths)).max(axis=0))

    def coverage(self, place: int, t: int) -> float:
        """Return P(|z| ≤ t) for the sum at one place."""
        radii, masses = _radius_law(self.half_widths, self.scale)
        bounds = self.half_widths[place] * radii
        return float(np.minimum(1.0, (2 * t + 1) / (2 * bounds + 1)) @ masses)

    def expected_error(self, place: int = 0) -> float:
        """Return the mean of |z| for the sum at one place."""
        radii, masses = _radius_law(self.half_widths, self.scale)
        bounds = self.half_widths[place] * radii
        return float((bounds * (bounds + 1) / (2 * bounds + 1)) @ masses)

    def _draw(self, count: int, source: BitSource) -> IntArray:
        # P(z) ∝ Σ e^(−r / scale) over all r ≥ N(z): a radius r in proportion to the number of points within
        # it, and one of those points, all equally likely.
        (radii,) = _sampler(self.half_widths, self.scale).draw(count, source)
        if radii.dtype == object or int(radii.max()) * max(self.half_widths) >= _FAR:
            radii = radii.astype(object)
        widths = np.array(self.half_widths, dtype=radii.dtype)
        reach: Any = np.multiply.outer(widths, radii)
        return draw_between_each(-reach, reach, source)


@lru_cache(maxsize=64)
def _sampler(half_widths: tuple[int, ...], scale: Fraction) -> RadiusSampler:
    """Return the sampler of radii: within r there are ∏ (2·r·width + 1) points."""
    values = [math.prod(2 * r * width + 1 for width in half_widths) for r in range(len(half_widths) + 1)]
    return RadiusSampler.build(scale, np.array(values, dtype=object))


@lru_cache(maxsize=64)
def _radius_law(half_widths: tuple[int, ...], scale: Fraction) -> tuple[Floats, Floats]:
    """Return radii and their probabilities, in doubles; a wide law is a narrower one, stretched."""
    narrow, size = min(float(scale), _SHAPE_SCALE), len(half_widths)
    stretch = float(scale) / narrow
    radii = np.arange(math.ceil(narrow * (size + 10 * math.sqrt(size + 1) + 40)) + 2, dtype=np.float64)
    logs = -radii / narrow
    for width in half_widths:
        logs += np.log1p(2 * width * stretch * radii)
    masses = np.exp(logs - logs.max())
    return radii * stretch, masses / masses.sum()
