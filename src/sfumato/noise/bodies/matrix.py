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
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.additive import LARGEST, SMALLEST
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import add_noise, parse_integers
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import FIRST_BITS, draw_normals
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import KNorm
from sfumato.privacy.exact import format_short, parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.normal_draws import NormalDraw

MOST_ENTRIES = 2000
"""Most entries of a vector. Products of limbs below are exact in doubles up to 8,000."""
_LIMB = 20
"""Bits of a limb: a sum of 2^13 products of two is exact in doubles."""


@tagged("Matrix", "size", "scale")
@dataclass(frozen=True, slots=True)
class MatrixNoise:
    """Adds noise to the upper triangle of a sum of v·vᵀ, row by row; v has `size` whole entries.

    Privacy
    -------
    Protects : one unit whose rows add or take away matrices v·vᵀ with traces of at most `trace` in all.
    Costs    : KNorm(scale, trace), which is trace / scale in pure ε.
    Because  : docs/proofs/k-norm.md#matrices
    Assumes  : the input is an exact integer array; how long a draw takes is not observed.
    """

    size: int
    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", parse_whole(self.size, "size"))
        object.__setattr__(self, "scale", parse_positive(self.scale, "scale"))
        # Products have the square of a step for a step.
        if self.size > MOST_ENTRIES or not SMALLEST <= self.scale <= LARGEST**2:
            raise UsageError(
                "SF-N631",
                "Noise for this matrix cannot be drawn exactly.",
                got=f"{self.size} entries, scale {format_short(self.scale)}",
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

    def event(self, trace: int) -> KNorm:
        """Return the price where one unit's rows have this trace in all."""
        return KNorm(self.scale, trace)

    def release(self, exact: Any, *, trace: int | None = None, source: BitSource = OS) -> IntArray:
        """Return the exact integers plus fresh noise. `trace`, as priced, is for auditors only."""
        values = parse_integers(exact)
        if not values.ndim or len(values) != self.sums:
            raise UsageError(
                "SF-N628",
                "The sums and the noise differ in number.",
                got=f"shape {values.shape}",
                expected=f"{self.sums} sums along the first axis",
            )
        return observed(self, values, trace, lambda: self._noisy(values, source))

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return the traces that two inputs differ by: those of what is added and of what is taken away."""
        apart = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
        rows, columns = np.triu_indices(self.size)
        found = 0.0
        for cell in apart.reshape(self.sums, -1).T:
            matrix = np.zeros((self.size, self.size))
            matrix[rows, columns] = matrix[columns, rows] = cell
            found += float(np.abs(np.linalg.eigvalsh(matrix)).sum())
        # A row reaches its price exactly, but for the rounding of doubles.
        return Fraction(found) * (1 - Fraction(1, 2**40))

    @property
    def deviation(self) -> float:
        """The standard deviation of an entry off the diagonal; on it, it is √2 times that."""
        return math.sqrt(2 * (self.size + 1)) * float(self.scale) / 2

    def _noisy(self, values: IntArray, source: BitSource) -> IntArray:
        cells = values.size // self.sums
        drawn = [self._draw(source) for _ in range(cells)]
        return add_noise(values, np.array(drawn, dtype=object).T.reshape(values.shape))

    def _draw(self, source: BitSource) -> IntArray:
        """Return one draw: more bits of the normal numbers are asked for until they decide every entry."""
        draws, bits = draw_normals(2 * self.size * (self.size + 1), source), FIRST_BITS
        while (found := self._round(draws, bits)) is None:
            bits += 64
        return found

    def _round(self, draws: Sequence[NormalDraw], bits: int) -> IntArray | None:
        """Return the entries rounded to whole numbers; None where the bits known do not decide all."""
        whole = np.array([each.floor_magnitude(bits) for each in draws], dtype=object)
        one, other = whole.reshape(2, self.size, self.size + 1)
        products = _square(one) - _square(other)
        # Each number is less than a step beyond what is known: a product, less than both of them and one.
        reach = abs(one).sum(axis=1) + abs(other).sum(axis=1) + self.size + 1
        slack = reach[:, None] + reach[None, :]
        entries = np.triu_indices(self.size)
        over = 2 * self.scale.denominator * CELLS**2 << 2 * bits
        low, high = (
            (2 * self.scale.numerator * (products + off)[entries] + over) // (2 * over)
            for off in (-slack, slack)
        )
        return low if bool((low == high).all()) else None


def _square(rows: Any) -> NDArray[np.object_]:
    """Return the matrix times its transpose, exactly, by products of limbs in doubles."""
    most = max(int(abs(rows).max()).bit_length(), 1)
    places = range(-(-most // _LIMB))
    limbs = [(rows >> _LIMB * at) & 2**_LIMB - 1 for at in places[:-1]] + [rows >> _LIMB * places[-1]]
    parts = [each.astype(np.float64) for each in limbs]
    found = np.zeros((len(rows), len(rows)), dtype=object)
    for i in places:
        for j in places:
            found += (parts[i] @ parts[j].T).astype(np.int64).astype(object) << _LIMB * (i + j)
    return found
