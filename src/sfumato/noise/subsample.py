"""Subsample-and-aggregate: statistics of disjoint blocks, combined privately (docs/proofs/subsample.md)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.histograms import Histograms
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.ordered.quantiles import QuantileMechanism
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import parse_integers
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy import events
    from sfumato.privacy.exact import Number

MOST_STEPS = 2**22
"""Most values that a median is chosen among."""

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class UnitBlocks:
    """An assignment of units to blocks by a keyed hash.

    A unit's block depends on the key and on the unit's name alone, never on other units or on any row. The
    key is secret and stays the same, so that no one can choose their block.
    """

    count: int
    key: bytes

    def __post_init__(self) -> None:
        if parse_whole(self.count, "count") < 2:
            raise UsageError("SF-N203", "There must be at least two blocks.", got=str(self.count))

    def block_of(self, unit: str | int) -> int:
        """Return the block that a unit is in."""
        name = _name(unit).encode()
        # The key is hashed first, since blake2b takes keys of at most 64 bytes.
        digest = hashlib.blake2b(name, key=hashlib.sha256(self.key).digest(), digest_size=16).digest()
        return int.from_bytes(digest, "big") % self.count

    def split(self, units: Iterable[str | int]) -> list[list[int]]:
        """Return, for each block, the indices of the rows whose unit is in it."""
        blocks: list[list[int]] = [[] for _ in range(self.count)]
        for place, unit in enumerate(units):
            blocks[self.block_of(unit)].append(place)
        return blocks

    def apply(
        self, kernel: Callable[[list[int]], Any], units: Sequence[str | int], low: int, high: int
    ) -> list[int]:
        """Return what the kernel gives for every block, as integers between two bounds.

        A kernel that fails, or gives no number, counts as the middle: a failure in one block must not show in
        the answer more than any other output.
        """
        return [_apply_bounded(kernel, places, low, high) for places in self.split(units)]


@tagged("BlockMean", "blocks", "low", "high", "noise")
@dataclass(frozen=True, slots=True)
class BlockMean:
    """Releases the mean of the blocks' outputs, with Laplace noise on their sum.

    Privacy
    -------
    Protects : one unit, add/remove, whose rows are all in one block.
    Costs    : DiscreteLaplace(scale, high − low).
    Because  : docs/proofs/subsample.md
    Assumes  : a block's output depends on the rows of that block alone.
    """

    blocks: int
    low: int
    high: int
    noise: LaplaceNoise

    def __post_init__(self) -> None:
        _require_bounds(self.blocks, self.low, self.high)

    @classmethod
    def calibrated(cls, blocks: int, low: int, high: int, epsilon: Number) -> BlockMean:
        """Return the ε-private mean."""
        _require_bounds(blocks, low, high)
        return cls(blocks, low, high, LaplaceNoise.calibrated(parse_positive(epsilon, "epsilon"), high - low))

    def event(self, changed: int = 1) -> events.DiscreteLaplace:
        """Return the price where one unit changes so many blocks."""
        return self.noise.event(changed * (self.high - self.low))

    def release(self, outputs: Any, *, source: BitSource = OS) -> Fraction:
        """Return the noisy mean, in steps."""
        kept = _clip_outputs(outputs, self.blocks, self.low, self.high)
        total = np.array([sum(kept.tolist())], dtype=object)
        noisy = observed(self, kept, 1, lambda: self.noise.release(total, source=source))
        return Fraction(int(noisy[0]), self.blocks)

    def expected_error(self) -> float:
        """Return E|noise| of the mean; how much blocks differ from the whole is not included."""
        return self.noise.expected_error() / self.blocks

    def half_width(self, confidence: Number) -> Fraction:
        """Return the half-width of the interval for the mean of the blocks' outputs."""
        return Fraction(self.noise.half_width(confidence), self.blocks)


@tagged("BlockMedian", "blocks", "low", "high", "epsilon")
@dataclass(frozen=True, slots=True)
class BlockMedian:
    """Releases a value with about half of the blocks' outputs on either side.

    Privacy
    -------
    Protects : one unit, add/remove, whose rows are all in one block.
    Costs    : Exponential(epsilon).
    Because  : docs/proofs/subsample.md
    Assumes  : a block's output depends on the rows of that block alone.
    """

    blocks: int
    low: int
    high: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        _require_bounds(self.blocks, self.low, self.high)
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        if self.high - self.low >= MOST_STEPS:
            raise UsageError(
                "SF-N203", "A median can be chosen among at most 2^22 steps.", try_="coarser steps"
            )
        self._choice()

    def event(self, changed: int = 1) -> events.Exponential:
        """Return the price where one unit changes so many blocks."""
        return self._choice().event(rows=2 * changed)

    def release(self, outputs: Any, *, source: BitSource = OS) -> int:
        """Return the chosen value, in steps."""
        kept = _clip_outputs(outputs, self.blocks, self.low, self.high)
        return observed(self, kept, 1, lambda: self._choose(kept, source))

    def expected_error(self) -> float:
        """Return a bound on how many blocks the answer is away from the median on average."""
        return self._choice().expected_error(self.high - self.low + 1)

    def rank_error(self, confidence: Number) -> Fraction:
        """Return a bound, at this confidence, on how many blocks the answer is away from the median."""
        return self._choice().rank_error(self.high - self.low + 1, confidence)

    def _choice(self) -> QuantileMechanism:
        # A block that changes removes one output and adds another: two rows, at half the price each.
        return QuantileMechanism(self.epsilon / 2, _HALF)

    def _choose(self, kept: IntArray, source: BitSource) -> int:
        steps, counts = np.unique((kept - self.low).astype(np.int64), return_counts=True)
        table = Histograms.from_sparse(steps, counts, cells=self.high - self.low + 1)
        return self.low + int(self._choice().choose(table, source)[0])


def _name(unit: Any) -> str:
    """Return a text that names the unit; a number and the text that looks the same are two units."""
    if isinstance(unit, str):
        return f"text {unit}"
    if isinstance(unit, int | np.integer) and not isinstance(unit, bool):
        return f"number {int(unit)}"
    raise UsageError("SF-N203", "A unit must be named by a text or a whole number.", got=type(unit).__name__)


def _apply_bounded(kernel: Callable[[list[int]], Any], places: list[int], low: int, high: int) -> int:
    # Any failure of the kernel must look like an ordinary output: an exception would reveal that a block
    # failed.
    try:
        value = float(kernel(places))
    except Exception:
        value = math.nan
    if math.isnan(value):
        return (low + high) // 2
    return math.floor(min(max(value, low), high) + 0.5)


def _clip_outputs(outputs: Any, blocks: int, low: int, high: int) -> IntArray:
    """Return one integer for each block, clipped to the bounds."""
    array = parse_integers(outputs)
    if array.shape != (blocks,):
        raise UsageError(
            "SF-N203",
            "There must be one output for each block.",
            got=f"shape {array.shape}",
            blocks=str(blocks),
        )
    kept: IntArray = np.minimum(np.maximum(array, low), high)
    return kept


def _require_bounds(blocks: int, low: int, high: int) -> None:
    whole_bounds = all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (low, high))
    if parse_whole(blocks, "blocks") < 2 or not whole_bounds or not low < high:
        raise UsageError(
            "SF-N203",
            "There must be at least two blocks, with outputs between two whole numbers.",
            got=f"{blocks} blocks, {str(low)[:20]} to {str(high)[:20]}",
        )
