"""Noise for sums of products: a matrix that is as likely to be added to one as to another near it in trace.

A row adds v·vᵀ to a symmetric matrix, which has no negative direction and whose trace is the square of its
length. The exponential law on such matrices is that of a sum of outer products of normal vectors, one more of
them than a vector has entries (Wishart 1928). The difference of two draws is to matrices what Laplace noise
is to numbers: the difference of two exponential ones (docs/proofs/k-norm.md#matrices).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.noise.additive import COMBINED, SMALLEST
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.noise.laplace import draw_rounded_laplace
from sfumato.noise.sampling.wishart import WishartSampler
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray

MOST_ENTRIES = 2000
"""Most entries of a vector. An entry of the matrix adds up twice as many products, and two more: what doubles
leave in doubt is proven for all of these (docs/proofs/k-norm.md#matrices)."""
_BLOCK = 2**20
"""About how many entries are drawn at a time, which bounds memory."""
_NORMAL = 25
"""Shape from which on the law of an entry is nearly normal. It is only used to say how large the noise is."""


@tagged("Matrix", "size", "scale")
@dataclass(frozen=True, slots=True)
class MatrixNoise(JointNoise):
    """Adds noise to the upper triangle of a sum of v·vᵀ, row by row; v has `size` whole entries.

    Privacy
    -------
    Protects : one unit whose rows add or take away matrices v·vᵀ with traces of at most `norm` in all.
    Costs    : KNorm(scale, norm), which is norm / scale in pure ε.
    Because  : docs/proofs/k-norm.md#matrices
    Assumes  : the input is an exact integer array; how long a draw takes is not observed.
    """

    size: int
    scale: Fraction
    told: ClassVar[float] = 1e-6  # its law is integrated, to about 1e-8

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", parse_whole(self.size, "size"))
        object.__setattr__(self, "scale", parse_positive(self.scale, "scale"))
        # Products have the square of a step for a step.
        if self.size > MOST_ENTRIES or not SMALLEST <= self.scale <= COMBINED**2:
            raise UsageError(
                "SF-N201",
                "Noise for this matrix cannot be drawn exactly.",
                got=f"{self.size} entries, scale {format_number(self.scale)}",
                allowed=f"up to {MOST_ENTRIES} entries, and a scale from 1/1000 to 2^80",
                try_="fewer features, or a larger epsilon",
            )

    @classmethod
    def calibrated(cls, epsilon: Fraction, trace: int, size: int) -> MatrixNoise:
        """Return the noise that makes matrices of this sensitivity ε-private."""
        return cls(size, max(SMALLEST, trace / epsilon))

    @property
    def sums(self) -> int:
        """The number of entries of the upper triangle."""
        return self.size * (self.size + 1) // 2

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return the traces that two inputs differ by: those of what is added and of what is taken away."""
        apart = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
        rows, columns = np.triu_indices(self.size)
        found = 0.0
        for cell in apart.reshape(self.sums, -1).T:
            matrix = np.zeros((self.size, self.size))
            matrix[rows, columns] = matrix[columns, rows] = cell
            found += float(np.abs(np.linalg.eigvalsh(matrix)).sum())
        # Prices are for whole traces. A row reaches its own exactly, but for the rounding of doubles.
        return Fraction(math.ceil(found * (1 - 2.0**-40)))

    @property
    def deviation(self) -> float:
        """The standard deviation of an entry off the diagonal; on it, it is √2 times that."""
        return math.sqrt(2 * (self.size + 1)) * float(self.scale) / 2

    def expected_error(self, place: int = 0) -> float:
        """Return the mean of |noise| of the entry at a place of the upper triangle, before it is rounded."""
        shape, unit = self._law(place)
        mean = (2 - 2 * shape) * math.log(2) + math.lgamma(2 * shape) - 2 * math.lgamma(shape)
        return unit * math.exp(mean)

    def coverage(self, place: int, t: int) -> float:
        """Return P(|noise| ≤ t) for the entry at a place of the upper triangle."""
        shape, unit = self._law(place)
        # Rounded noise is at most t where it was below t + 1/2 before.
        return _gamma_coverage(shape, (t + 0.5) / unit)

    def _law(self, place: int) -> tuple[float, float]:
        """Return a shape and a unit: an entry is the unit times a difference of two gamma numbers."""
        # Two products of normal numbers add up to a difference of two exponential ones, and off the diagonal
        # there are size + 1 such pairs; half of size + 1 squares is a gamma number of half that shape.
        row, column = (int(each[place]) for each in np.triu_indices(self.size))
        scale = float(self.scale)
        return ((self.size + 1) / 2, scale) if row == column else (self.size + 1.0, scale / 2)

    def _draw(self, count: int, source: BitSource) -> IntArray:
        if self.size == 1:
            return draw_rounded_laplace(self.scale, count, source).reshape(1, count)
        return WishartSampler(self.size, self.scale).draw(count, source)

    @property
    def _block(self) -> int:
        return max(1, _BLOCK // self.sums)


@lru_cache(maxsize=1024)
def _gamma_coverage(shape: float, h: float) -> float:
    """Return P(|X| ≤ h) for the difference X of two gamma numbers of this shape."""
    from scipy.integrate import quad
    from scipy.special import kve

    if shape > _NORMAL:
        return _normal_coverage(shape, h)
    log_unit = math.lgamma(shape) + math.log(math.pi) / 2

    def density(x: float) -> float:
        return math.exp((shape - 0.5) * math.log(x / 2) - x - log_unit) * float(kve(shape - 0.5, x))

    reach = 40 + 20 * math.sqrt(shape)
    return min(1.0, 2 * float(quad(density, 1e-12, min(h, reach), limit=200)[0]))


def _normal_coverage(shape: float, h: float) -> float:
    """Return it from the normal law and the excess of the fourth moment, which is 3 / shape (Edgeworth)."""
    x = h / math.sqrt(2 * shape)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return math.erf(x / math.sqrt(2)) - density * (x**3 - 3 * x) / (4 * shape)
