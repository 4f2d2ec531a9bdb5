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
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.additive import LARGEST, SMALLEST
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.gaussian_wide import PLACE_BITS
from sfumato.noise.sampling.integers import add_noise, parse_integers
from sfumato.noise.sampling.normal import CELLS
from sfumato.noise.sampling.normal_draws import FIRST_BITS, LIMB_BITS, LIMBS, draw_normals
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import KNorm
from sfumato.privacy.exact import format_short, parse_confidence, parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.noise.sampling.normal_draws import NormalDraws
    from sfumato.privacy.exact import Number

MOST_ENTRIES = 2000
"""Most entries of a vector. An entry of the matrix adds up twice as many products of limbs, and two more, and
up to 2^13 are exact in doubles."""
_BLOCK = 2**15
"""About how many normal numbers are drawn at a time, which bounds memory."""
_NORMAL = 25
"""Shape from which on the law of an entry is nearly normal. It is only used to say how large the noise is."""


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
        # Prices are for whole traces. A row reaches its own exactly, but for the rounding of doubles.
        return Fraction(math.ceil(found * (1 - 2.0**-40)))

    @property
    def deviation(self) -> float:
        """The standard deviation of an entry off the diagonal; on it, it is √2 times that."""
        return math.sqrt(2 * (self.size + 1)) * float(self.scale) / 2

    def expected_error(self, place: int) -> float:
        """Return the mean of |noise| of the entry at a place of the upper triangle, before it is rounded."""
        shape, unit = self._law(place)
        mean = (2 - 2 * shape) * math.log(2) + math.lgamma(2 * shape) - 2 * math.lgamma(shape)
        return unit * math.exp(mean)

    def half_width(self, place: int, confidence: Number) -> int:
        """Return about the smallest t with P(|noise| ≤ t) ≥ confidence for the entry at a place."""
        shape, unit = self._law(place)
        # Rounded noise is at most t where it was below t + 1/2 before.
        return max(0, math.ceil(unit * _gamma_half_width(shape, float(parse_confidence(confidence))) - 0.5))

    def _law(self, place: int) -> tuple[float, float]:
        """Return a shape and a unit: an entry is the unit times a difference of two gamma numbers."""
        # Two products of normal numbers add up to a difference of two exponential ones, and off the diagonal
        # there are size + 1 such pairs; half of size + 1 squares is a gamma number of half that shape.
        row, column = (int(each[place]) for each in np.triu_indices(self.size))
        scale = float(self.scale)
        return ((self.size + 1) / 2, scale) if row == column else (self.size + 1.0, scale / 2)

    def _noisy(self, values: IntArray, source: BitSource) -> IntArray:
        cells = values.size // self.sums
        block = max(1, _BLOCK // (self.size * (self.size + 1)))
        starts = range(0, cells, block)
        drawn = [self._draw(min(block, cells - start), source) for start in starts]
        return add_noise(values, np.concatenate(drawn).T.reshape(values.shape))

    def _draw(self, cells: int, source: BitSource) -> NDArray[np.object_]:
        """Return independent draws, one row each."""
        draws = draw_normals(cells * 2 * self.size * (self.size + 1), source)
        found, clear = self._round_all(draws, cells)
        for at in np.flatnonzero(~clear).tolist():
            found[at] = self._settle(draws, at)
        return found

    def _round_all(self, draws: NormalDraws, cells: int) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        """Return every entry rounded by the leading bits, and in which draws these decide all of them."""
        # Entries of the difference of two matrices, as digits of LIMB_BITS: the lowest three are left out.
        levels = self._multiply(draws, cells)
        digits, carry = [], np.zeros_like(levels[0])
        for level in levels:
            digits.append((level + carry) & 2**LIMB_BITS - 1)
            carry = level + carry >> LIMB_BITS
        top, rest = carry << LIMB_BITS | digits[6], digits[5] << 40 | digits[4] << 20 | digits[3]
        known = (top.astype(object) << 60) + rest.astype(object)
        low, high = self._ends(known, self._slack(draws, cells), 2 * FIRST_BITS - 60)
        return low, np.asarray((low == high).all(axis=1), dtype=np.bool_)

    def _multiply(self, draws: NormalDraws, cells: int) -> list[NDArray[np.int64]]:
        """Return the upper triangles of the products, one array for each sum of two places of limbs."""
        # Numbers of the second matrix count negatively. Sums of products of limbs are exact in doubles.
        shape = (cells, 2, self.size, self.size + 1)
        limbs = [np.moveaxis(each.reshape(shape), 1, 2) for each in draws.limbs()]
        signs = np.array([1.0, -1.0])[:, None]
        plain, signed = (
            [each.reshape(cells, self.size, -1) for each in some]
            for some in (limbs, [x * signs for x in limbs])
        )
        rows, columns = np.triu_indices(self.size)
        levels = [np.zeros((cells, self.sums), dtype=np.int64) for _ in range(2 * LIMBS - 1)]
        for i in range(LIMBS):
            for j in range(i, LIMBS):
                product = np.matmul(plain[i], signed[j].swapaxes(1, 2)).astype(np.int64)
                levels[i + j] += product[:, rows, columns]
                if i < j:
                    levels[i + j] += product[:, columns, rows]
        return levels

    def _slack(self, draws: NormalDraws, cells: int) -> Any:
        """Return how far each entry of `_round_all` may be off, rounded up."""
        # A number is less than a step beyond what is known: a product, less than both of them and one.
        heads = (draws.heads.astype(np.float64) + 1).reshape(cells, 2, self.size, self.size + 1)
        reach = heads.sum(axis=(1, 3)) * (1 + 2.0**-30) * 2.0 ** (FIRST_BITS - PLACE_BITS - 60)
        rows, columns = np.triu_indices(self.size)
        # One for what was left out, and one for the steps themselves.
        return (np.ceil(reach[:, rows] + reach[:, columns]) + 2).astype(np.int64).astype(object)

    def _settle(self, draws: NormalDraws, at: int) -> Any:
        """Return the entries of one draw, from as many bits as it takes."""
        count, bits = 2 * self.size * (self.size + 1), FIRST_BITS
        while True:
            bits += 64
            numbers = [draws.floor_magnitude(at * count + k, bits) for k in range(count)]
            one, other = np.array(numbers, dtype=object).reshape(2, self.size, self.size + 1)
            reach = abs(one).sum(axis=1) + abs(other).sum(axis=1) + self.size + 1
            entries = np.triu_indices(self.size)
            slack = (reach[:, None] + reach[None, :])[entries]
            low, high = self._ends((one @ one.T - other @ other.T)[entries], slack, 2 * bits)
            if bool((low == high).all()):
                return low

    def _ends(self, known: Any, slack: Any, bits: int) -> tuple[Any, Any]:
        """Return the ends of scale/2 · (known ± slack) / (CELLS² · 2^bits), rounded to whole numbers."""
        over = 2 * self.scale.denominator * CELLS**2 << bits
        times = 2 * self.scale.numerator
        low, high = ((times * (known + off) + over) // (2 * over) for off in (-slack, slack))
        return low, high


@lru_cache(maxsize=256)
def _gamma_half_width(shape: float, confidence: float) -> float:
    """Return the h with P(|X| ≤ h) = confidence for the difference X of two gamma numbers of this shape."""
    from scipy.integrate import quad
    from scipy.optimize import brentq
    from scipy.special import kve, ndtri

    normal = float(ndtri((1 + confidence) / 2))
    near = (normal + (normal**3 - 3 * normal) / (8 * shape)) * math.sqrt(2 * shape)
    if shape > _NORMAL:
        return near  # the excess of the fourth moment is 3 / shape (Cornish, Fisher)
    log_unit = math.lgamma(shape) + math.log(math.pi) / 2

    def density(x: float) -> float:
        return math.exp((shape - 0.5) * math.log(x / 2) - x - log_unit) * float(kve(shape - 0.5, x))

    def missing(h: float) -> float:
        return 2 * float(quad(density, 1e-12, h, limit=200)[0]) - confidence

    return float(brentq(missing, 1e-6, 20 * near + 20, xtol=1e-6))
