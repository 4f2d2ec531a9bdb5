"""The mechanism behind `MERF`: sums of random cosines and counts of categories by class, for one price.

Because : docs/proofs/synth-images.md#mean-embedding
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import GaussianSpend
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.oracle.blocks import COUNT, SumBlock, calibrate_noise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Gaussian
from sfumato.synth.quote import describe_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    ReadRows = Callable[[slice], Floats]

COUNTS, CENTRE, ENERGY = Fraction(2, 100), Fraction(3, 100), Fraction(1, 100)
"""Shares of the price: class counts, and what a length is bought with. The rest is for the embedding."""
_PHASES, HIGH = 2**12, 2**12
"""Phases of a turn that are told apart, and the integer that stands for 1. Privacy holds for any."""
_WAVES = np.rint(
    HIGH
    * np.array([[wave(2 * math.pi * at / _PHASES) for at in range(_PHASES)] for wave in (math.cos, math.sin)])
)
_LONGEST = int((_WAVES**2).sum(axis=0).max())
"""The largest squared norm of a cosine and its sine, in integers. Privacy depends on it."""
_FINE = 2**16
"""The integer that stands for the largest direction."""
MOST_NUMBERS = 2**16
"""The most numbers of a row, for which squares of some rows stay exact in doubles. Privacy depends on it."""
MOST_DIRECTIONS = 2**25
"""The most numbers of all directions together, so that memory is bounded."""
_ROWS, _CELLS = 2**12, 2**21
"""Rows that are read at a time, and waves of rows that are computed at a time. For speed and memory alone."""


@tagged(
    "MeanEmbedding", "bounds", "categories", "classes", "multiplier", "waves", "seed", "length", "replaced"
)
@dataclass(frozen=True, slots=True)
class EmbeddingKernel:
    """Releases class counts, sums of cosines and sines along random directions, and counts of categories.

    Privacy
    -------
    Protects : one unit with one row, added or removed, or replaced where `replaced` says so.
    Costs    : Gaussian(multiplier).
    Because  : docs/proofs/synth-images.md#mean-embedding
    Assumes  : the seed is public and was not chosen by the rows; a row is in one class at most.
    """

    bounds: tuple[int, ...]
    """The largest integer of each number of a row."""
    categories: tuple[int, ...]
    """The number of values of each column that is listed."""
    classes: int
    multiplier: Fraction
    waves: int
    seed: int
    length: Fraction | None
    """The length scale of the kernel, in halves of the bounds; None if it is bought."""
    replaced: bool = False

    @property
    def numbers(self) -> int:
        """The numbers of a row."""
        return len(self.bounds)

    @property
    def passes(self) -> int:
        """About how often rows are gone over."""
        return 2 + self.waves // 8

    @property
    def buys_length(self) -> bool:
        """Whether the length scale is paid for."""
        return self.length is None and self.numbers > 0

    def event(self) -> Gaussian:
        """Return the price of all that is released."""
        return Gaussian(self.multiplier)

    def require_drawable(self) -> None:
        """Refuse a price whose noise is too wide to be drawn: before anything is charged."""
        for noise in (self.counts_noise, self.wave_noise, self.category_noise):
            noise()
        if self.buys_length:
            self.centre_noise()
            self.energy_noise()

    def list_parts(self) -> list[tuple[str, Fraction, str]]:
        """Return what the budget is spent on: a name, its share, and what that buys."""
        counts, waves = self.counts_noise().deviation, self.wave_noise().deviation / HIGH
        parts = [("class counts", COUNTS, f"{self.classes} counts, {describe_noise(counts)} rows")]
        if self.buys_length:
            parts.append(("length scale", CENTRE + ENERGY, "the distance of rows from each other"))
        if self.numbers:
            buys = f"{self.waves} cosines and sines a class, {describe_noise(waves)} rows each"
            parts.append(("embedding of numbers", self._embedding_share, buys))
        if self.categories:
            around = describe_noise(self.category_noise().deviation)
            buys = f"{sum(self.categories)} counts a class, {around} rows each"
            parts.append(("listed columns", self._embedding_share, buys))
        return parts

    def release(self, exact: Ints) -> dict[str, Any]:
        """Release the embedding of rows given as columns: numbers, places of listed values, and the class.

        −1 is no class, and no listed value.
        """
        known = exact[:, exact[-1] >= 0]
        scale = ONE / np.array(self.bounds, dtype=np.float64)

        def read(at: slice) -> Floats:
            return np.clip(np.rint(known[: self.numbers, at].T * scale), -ONE, ONE)

        return self.measure(read, list(known[self.numbers : -1]), known[-1])

    def measure(self, read: ReadRows, places: Sequence[Ints], labels: Ints) -> dict[str, Any]:
        """Release the embedding of rows: `read` returns some of them as whole numbers within ±ONE."""
        counts = self.counts_noise().release(np.bincount(labels, minlength=self.classes))
        written: dict[str, Any] = {"counts": counts.tolist()}
        if self.buys_length:
            written |= self._measure_spread(read, len(labels))
        if self.numbers:
            exact = self._sum_waves(read, labels, self.directions / find_length(self, written))
            written["waves"] = self.wave_noise().release(exact).tolist()
        if self.categories:
            found = self._count_categories(places, labels)
            written["categories"] = self.category_noise().release(found).tolist()
        return written

    # ---- the parts ----

    @property
    def _embedding_share(self) -> Fraction:
        """The share of the cosines; categories have as much."""
        left = 1 - COUNTS - (CENTRE + ENERGY if self.buys_length else 0)
        return left / 2 if self.numbers and self.categories else left

    @property
    def directions(self) -> Floats:
        """Random directions for a length scale of 1: one row a number, one column a wave."""
        return np.random.default_rng(self.seed).standard_normal((self.numbers, self.waves))

    def _measure_spread(self, read: ReadRows, rows: int) -> dict[str, Any]:
        """Release the sum of rows and of their squared lengths, from which a length scale follows."""
        total, energy, half = np.zeros(self.numbers), 0, self.numbers * ONE**2 // 2
        for at in range(0, rows, _ROWS):
            block = read(slice(at, at + _ROWS))
            total += block.sum(axis=0)
            # One block is exact in doubles, all together are in Python's own integers.
            energy += int(np.einsum("ij,ij->", block, block)) - half * len(block)
        return {
            "centre": self.centre_noise().release(total.astype(np.int64)).tolist(),
            "energy": self.energy_noise().release(np.array([energy])).tolist(),
        }

    def _sum_waves(self, read: ReadRows, labels: Ints, directions: Floats) -> Ints:
        """Return sums of whole cosines and sines by class, exact in doubles."""
        largest = float(np.abs(directions).max())
        whole = np.rint(directions * (_FINE / largest))
        turn = largest / _FINE / ONE * _PHASES / (2 * math.pi)
        found = np.zeros((self.classes, 2 * self.waves))
        rows = max(1, min(_ROWS, _CELLS // self.waves))
        for at in range(0, len(labels), rows):
            some = slice(at, at + rows)
            phases = np.mod(np.rint((read(some) @ whole) * turn), _PHASES).astype(np.int16)
            which = (labels[some, None] == np.arange(self.classes)).astype(np.float64).T
            found[:, : self.waves] += which @ _WAVES[0][phases]
            found[:, self.waves :] += which @ _WAVES[1][phases]
        return found.astype(np.int64)

    def _count_categories(self, places: Sequence[Ints], labels: Ints) -> Ints:
        """Return how often each value of each listed column occurs in each class; −1 is none of them."""
        counted = [
            [
                np.bincount(place[(labels == at) & (place >= 0)], minlength=size)
                for place, size in zip(places, self.categories, strict=True)
            ]
            for at in range(self.classes)
        ]
        return np.array([np.concatenate(each) for each in counted])

    # ---- noise ----

    def counts_noise(self) -> NoisyBlock:
        """Return the noise of class counts."""
        return self._noise(1, 1, COUNTS)

    def wave_noise(self) -> NoisyBlock:
        """Return the noise of sums of cosines and sines, in integers."""
        return self._noise(self.waves * _LONGEST, 2 * self.waves, self._embedding_share)

    def category_noise(self) -> NoisyBlock:
        """Return the noise of counts of listed values."""
        return self._noise(max(1, len(self.categories)), max(1, sum(self.categories)), self._embedding_share)

    def centre_noise(self) -> NoisyBlock:
        """Return the noise of the sum of all rows."""
        return self._noise(self.numbers * ONE**2, self.numbers, CENTRE)

    def energy_noise(self) -> NoisyBlock:
        """Return the noise of the sum of squared lengths."""
        # What lies below half of the largest square is less than half away from it, rounded up.
        return self._noise((self.numbers * ONE**2 // 2 + 1) ** 2, 1, ENERGY)

    def _noise(self, l2_squared: int, terms: int, share: Fraction) -> NoisyBlock:
        l1 = math.isqrt(l2_squared * terms) + 1 if terms > 1 else math.isqrt(l2_squared)
        block = SumBlock((COUNT,) * terms, l1, l2_squared, share)
        return calibrate_noise(block, GaussianSpend(self.multiplier, ""), 1, self.replaced)


def find_length(kernel: EmbeddingKernel, written: Mapping[str, Any]) -> float:
    """Return the length scale, declared or from what was released for it, in halves of the bounds.

    It is √(2·variance), the root mean square distance of two rows. Where noise is wide, the variance is drawn
    to one eighth of the largest that the bounds allow, as far as noise reaches.
    """
    if kernel.length is not None:
        return float(kernel.length)
    rows = max(1.0, float(np.maximum(np.array(written["counts"], dtype=np.float64), 0).sum()))
    centre = np.array(written["centre"], dtype=np.float64) / rows / ONE
    (above,) = np.array(written["energy"], dtype=np.float64) / rows / ONE**2
    around = kernel.centre_noise().deviation / rows / ONE
    squares = float(centre @ centre)
    found = above + kernel.numbers / 2 - squares + kernel.numbers * around**2
    # Noise comes from the squared lengths, from the centre, and from the number of rows that both are over.
    fewer = kernel.counts_noise().deviation * math.sqrt(kernel.classes) / rows
    error = (kernel.energy_noise().deviation / rows / ONE**2) ** 2 + 4 * squares * around**2
    error += ((above - 2 * squares) * fewer) ** 2
    usual = kernel.numbers / 8
    found = (found * usual**2 + usual * error) / (usual**2 + error)
    # No less than if every number varied by a twentieth of its bounds, and no more than they allow.
    return math.sqrt(2 * min(max(found, kernel.numbers / 100), kernel.numbers))
