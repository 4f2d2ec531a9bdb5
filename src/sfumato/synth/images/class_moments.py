"""The mechanism behind `Moments`: counts, sums and products of coefficients by class, for one price.

It measures in steps: class counts, from which the number of coefficients follows; their sums and lengths;
then products of what is left of a row after the released mean of its class was taken off, clipped at the
released length. What is left is shorter than the row, so the products need less noise. All steps together
are one Gaussian mechanism by their shares.

Because : docs/proofs/synth-images.md#moments
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import GaussianSpend
from sfumato.oracle.arrays.integer_rows import ONE, clip_integer_rows
from sfumato.oracle.blocks import COUNT, SumBlock, calibrate_noise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Gaussian
from sfumato.synth.images.public_basis import REACH, PublicBasis
from sfumato.synth.quote import describe_noise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_COUNTS, _SUMS, _LENGTHS = Fraction(1, 100), Fraction(14, 100), Fraction(1, 100)
_PRODUCTS, _SPREADS = Fraction(82, 100), Fraction(2, 100)
"""Shares of the price. Privacy needs them to add up to at most 1. Products have by far the most noise."""
SHORT = 2**12
"""The largest norm of what is left of a row after its class's mean, in steps of its own grid."""
SQUARE, MIXED = 5, 7
"""Integer weights near 1 : √2 of squares and mixed products (docs/proofs/statistics.md#products)."""


@tagged("ClassMoments", "basis", "bounds", "classes", "multiplier", "replaced", "size")
@dataclass(frozen=True, slots=True)
class MomentsKernel:
    """Releases counts, sums, lengths and products of coefficients by class.

    Privacy
    -------
    Protects : one unit with one row, added or removed, or replaced where `replaced` says so.
    Costs    : Gaussian(multiplier).
    Because  : docs/proofs/synth-images.md#moments
    Assumes  : the basis and the classes are public; a row is in one class at most.
    """

    basis: PublicBasis
    bounds: tuple[int, ...]
    """The largest integer of each number of a row."""
    classes: int
    multiplier: Fraction
    replaced: bool = False
    size: int = 0
    """Coefficients whose products are measured; 0 if the noise decides."""

    @property
    def passes(self) -> int:
        """About how often rows are gone over."""
        return 4 + self.basis.size // 8

    def event(self) -> Gaussian:
        """Return the price of all that is released."""
        return Gaussian(self.multiplier)

    def release(self, exact: Ints) -> dict[str, Any]:
        """Release moments of rows given as columns, the class last; −1 is no class."""
        return self.measure(self.project(exact), exact[-1])

    def project(self, exact: Ints) -> Floats:
        """Return coefficients of rows given as columns, the class last."""
        scale = ONE / np.array(self.bounds, dtype=np.float64)

        def read(at: slice) -> Floats:
            return np.clip(np.rint(exact[:-1, at].T * scale), -ONE, ONE)

        return self.basis.project(exact.shape[1], read)

    def measure(self, coefficients: Floats, labels: Ints) -> dict[str, Any]:
        """Release moments of coefficients that lie within REACH, as the ledger keeps them."""
        members = [coefficients[labels == at] for at in range(self.classes)]
        counts = self._release(1, _COUNTS, [len(rows) for rows in members])
        size = self.size or choose_size(counts, self.products_deviation, self.basis.size)
        members = [rows[:, :size] for rows in members]
        first = self._measure_first(members, counts)
        shortened = [
            _shorten(rows, centre, length)
            for rows, centre, length in zip(members, first.centres, first.residual_lengths, strict=True)
        ]
        products = np.array([_upper_triangle(rows) for rows, _ in shortened])
        spreads = self._release(2 * SHORT**2, _SPREADS, [_sum_exactly(squares) for _, squares in shortened])
        return {
            **first.to_plain(),
            "products": self._products_noise(size).release(products).tolist(),
            "spreads": spreads.tolist(),
        }

    def _measure_first(self, members: list[Floats], counts: Ints) -> FirstMoments:
        noise = self._noise(REACH, _SUMS, members[0].shape[1])
        sums = noise.release(np.array([rows.sum(axis=0) for rows in members]).astype(np.int64))
        # Half the largest square is taken off every row, which halves what a row adds.
        half = REACH**2 // 2
        energies = [_sum_exactly(np.einsum("ij,ij->i", rows, rows)) - half * len(rows) for rows in members]
        return FirstMoments(
            counts, np.asarray(sums, dtype=np.int64), self._release(half, _LENGTHS, energies), noise.deviation
        )

    def require_drawable(self) -> None:
        """Refuse a price whose noise is too wide to be drawn: before anything is charged."""
        for norm, share in (
            (1, _COUNTS),
            (REACH, _SUMS),
            (REACH**2 // 2, _LENGTHS),
            (2 * SHORT**2, _SPREADS),
        ):
            self._noise(norm, share)
        self._products_noise(1)

    def list_parts(self) -> list[tuple[str, Fraction, str]]:
        """Return what the budget is spent on: a name, its share, and what that buys."""
        counts = describe_noise(self._noise(1, _COUNTS).deviation)
        sums = describe_noise(self.sums_deviation * self.basis.step)
        return [
            ("class counts", _COUNTS, f"{self.classes} counts, {counts} rows"),
            ("sums of coefficients", _SUMS, f"{sums} each, in halves of the bounds"),
            ("lengths of rows", _LENGTHS + _SPREADS, "how far rows of a class lie from its mean"),
            (
                "products",
                _PRODUCTS,
                f"{describe_noise(self.products_deviation)} of a row's squared length each",
            ),
        ]

    def _release(self, norm: int, share: Fraction, exact: list[Any]) -> Ints:
        """Return one number for each class with noise; a row moves one of them, by at most `norm`."""
        return np.asarray(self._noise(norm, share).release(np.array(exact, dtype=np.int64)), dtype=np.int64)

    # ---- noise: how far a row moves what is released, in the l2 norm ----

    def _noise(self, norm: int, share: Fraction, terms: int = 1) -> NoisyBlock:
        """Return the noise of numbers by class that a row moves by at most this norm."""
        l1 = norm if terms == 1 else norm * (math.isqrt(terms) + 1)
        return self._calibrate(terms, l1, norm**2, share)

    def _products_noise(self, size: int) -> NoisyBlock:
        """Return the noise of products: with ‖v‖ ≤ N a row moves them by at most 5N² in the l2 norm."""
        l1 = SQUARE * SHORT**2 + MIXED * (size - 1) * SHORT**2 // 2 + 1
        terms = size * (size + 1) // 2
        return self._calibrate(terms, l1, (SQUARE * SHORT**2) ** 2, _PRODUCTS)

    def _calibrate(self, terms: int, l1: int, l2_squared: int, share: Fraction) -> NoisyBlock:
        block = SumBlock((COUNT,) * terms, l1, l2_squared, share)
        return calibrate_noise(block, GaussianSpend(self.multiplier, ""), 1, self.replaced)

    @property
    def sums_deviation(self) -> float:
        """The standard deviation of noise in a sum of coefficients, in steps."""
        return self._noise(REACH, _SUMS).deviation

    @property
    def products_deviation(self) -> float:
        """The standard deviation of noise in a sum of mixed products, of rows whose length is 1."""
        return self._products_noise(1).deviation / MIXED / SHORT**2


@dataclass(frozen=True, slots=True)
class FirstMoments:
    """What the first step released, and what follows from it alone."""

    counts: Ints
    sums: Ints
    energies: Ints
    sums_deviation: float

    @classmethod
    def from_plain(cls, written: Mapping[str, Any], kernel: MomentsKernel) -> FirstMoments:
        """Read back what `to_plain` wrote."""
        counts, sums, energies = (
            np.array(written[name], dtype=np.int64) for name in ("counts", "sums", "energies")
        )
        return cls(counts, sums, energies, kernel.sums_deviation)

    def to_plain(self) -> dict[str, Any]:
        """Return what was released as plain lists."""
        return {
            "counts": self.counts.tolist(),
            "sums": self.sums.tolist(),
            "energies": self.energies.tolist(),
        }

    @property
    def rows(self) -> Ints:
        """The number of rows of each class, at least one."""
        return np.maximum(self.counts, 1)

    @property
    def means(self) -> Floats:
        """The mean of each class, drawn to that of all classes as far as noise reaches."""
        rows = self.rows[:, None].astype(np.float64)
        means, noise = self.sums / rows, (self.sums_deviation / rows) ** 2
        pooled = self.sums.sum(axis=0) / rows.sum()
        # A coefficient whose classes differ by no more than noise does has one mean. Means of small classes
        # are mostly noise, so classes count by how sure they are.
        weights = 1 / noise / (1 / noise).sum()
        between = np.maximum((weights * ((means - pooled) ** 2 - noise)).sum(axis=0), 0.0)
        own = between / (between + noise)
        found: Floats = np.clip(own * means + (1 - own) * pooled, -REACH, REACH)
        return found

    @property
    def centres(self) -> Floats:
        """The means on the grid of the rows."""
        return np.rint(self.means)

    @property
    def residual_lengths(self) -> Floats:
        """About the root mean square length of rows around the mean of their class, in whole steps."""
        energies = self.energies / self.rows + REACH**2 / 2
        left = energies - (self.means**2).sum(axis=1)
        shared = (left * self.rows).sum() / self.rows.sum()
        # Noise may leave less than nothing: a class is no less spread than a tenth of all together.
        least = max(0.01 * shared, (REACH / 1000) ** 2)
        found: Floats = np.ceil(np.sqrt(np.clip(left, least, REACH**2)))
        return found


def choose_size(counts: Ints, deviation: float, most: int) -> int:
    """Return for how many coefficients products are worth measuring, from the noise in them.

    A class's matrix of m coefficients has eigenvalues of 1/m on average, and noise alone has eigenvalues up
    to 2τ√m, where τ is its deviation by row. Both are alike at m = (1/2τ)^(2/3).
    """
    middle = max(float(np.median(counts)), 1.0)
    return int(min(max(round((middle / (2 * deviation)) ** (2 / 3)), 2), most))


def _shorten(rows: Floats, centre: Floats, length: float) -> tuple[Floats, Floats]:
    """Return rows around a centre on a grid where `length` is SHORT, no longer than that.

    Also return how long they were, as squares less 2·SHORT², which lie within ±2·SHORT².
    """
    # Numbers far outside are cut first, so that squares stay exact in doubles whatever the row.
    found = np.clip(np.rint((rows - centre) * (SHORT / length)), -4 * SHORT, 4 * SHORT)
    squares = np.minimum(np.einsum("ij,ij->i", found, found), 4 * SHORT**2) - 2 * SHORT**2
    clip_integer_rows(found, SHORT, whole=True)
    return found, squares


def _sum_exactly(squares: Floats) -> int:
    """Return the sum of whole numbers, also where there are so many that doubles would round it."""
    return int(squares.astype(np.int64).sum())


def _upper_triangle(rows: Floats) -> Ints:
    """Return weighted sums of squares and mixed products, exact: they stay below 2⁵³."""
    found = rows.T @ rows
    at = np.triu_indices(rows.shape[1])
    weights = np.where(at[0] == at[1], SQUARE, MIXED)
    return found[at].astype(np.int64) * weights
