"""Subsample and aggregate: statistics of blocks, put together privately (docs/proofs/subsample.md)."""

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
from sfumato.noise.quantiles import QuantileMechanism
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import integers
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy import events
    from sfumato.privacy.exact import Number

MOST_STEPS = 2**22

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class UnitBlocks:
    """A number of blocks, and a key that says which unit is in which.

    A unit's block depends on the key and on the unit's name alone, never on other units or on any row. The
    key is secret and stays the same, so that no one can choose their block.
    """

    count: int
    key: bytes

    def __post_init__(self) -> None:
        if whole(self.count, "count") < 2:
            raise UsageError("SF-N508", "There are at least two blocks.", got=str(self.count))

    def of(self, unit: str | int) -> int:
        """The block that a unit is in."""
        name = _name(unit).encode()
        digest = hashlib.blake2b(name, key=hashlib.sha256(self.key).digest(), digest_size=16).digest()
        return int.from_bytes(digest, "big") % self.count

    def split(self, units: Iterable[str | int]) -> list[list[int]]:
        """For each block, the places of the rows whose unit is in it."""
        blocks: list[list[int]] = [[] for _ in range(self.count)]
        for place, unit in enumerate(units):
            blocks[self.of(unit)].append(place)
        return blocks

    def outputs(
        self, kernel: Callable[[list[int]], Any], units: Sequence[str | int], low: int, high: int
    ) -> list[int]:
        """The kernel on the rows of every block, in whole steps between two bounds.

        A kernel that fails, or gives no number, counts as the middle: what goes wrong in one block must not
        be seen in the answer more than any other output.
        """
        return [_bounded(kernel, places, low, high) for places in self.split(units)]


@tagged("BlockMean", "blocks", "low", "high", "noise")
@dataclass(frozen=True, slots=True)
class BlockMean:
    """The mean of the blocks' outputs, with Laplace noise on their sum.

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
        """The ε-private mean."""
        _require_bounds(blocks, low, high)
        return cls(blocks, low, high, LaplaceNoise.calibrated(positive(epsilon, "epsilon"), high - low))

    def event(self, changed: int = 1) -> events.DiscreteLaplace:
        return self.noise.event(changed * (self.high - self.low))

    def release(self, outputs: Any, *, source: BitSource = OS) -> Fraction:
        """The noisy mean, in steps."""
        kept = _kept(outputs, self.blocks, self.low, self.high)
        total = np.array([sum(kept.tolist())], dtype=object)
        noisy = observed(self, kept, 1, lambda: self.noise.release(total, source=source))
        return Fraction(int(noisy[0]), self.blocks)

    def expected_error(self) -> float:
        """Of the noise alone; how much blocks differ from all units together is not in it."""
        return self.noise.expected_error() / self.blocks

    def half_width(self, confidence: Number) -> Fraction:
        """Where the mean of the blocks' outputs lies, on either side of the answer."""
        return Fraction(self.noise.half_width(confidence), self.blocks)


@tagged("BlockMedian", "blocks", "low", "high", "epsilon")
@dataclass(frozen=True, slots=True)
class BlockMedian:
    """A value with about half of the blocks' outputs on either side.

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
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if self.high - self.low >= MOST_STEPS:
            raise UsageError("SF-N508", "A median is chosen among at most 2^22 steps.", try_="coarser steps")
        self._choice()

    def event(self, changed: int = 1) -> events.Exponential:
        return self._choice().event(rows=2 * changed)

    def release(self, outputs: Any, *, source: BitSource = OS) -> int:
        """The chosen value, in steps."""
        kept = _kept(outputs, self.blocks, self.low, self.high)
        return observed(self, kept, 1, lambda: self._chosen(kept, source))

    def expected_error(self) -> float:
        """On average the answer is at most so many blocks away from the middle one."""
        return self._choice().expected_error(self.high - self.low + 1)

    def rank_error(self, confidence: Number) -> Fraction:
        """With this confidence the answer is at most so many blocks away from the middle one."""
        return self._choice().rank_error(self.high - self.low + 1, confidence)

    def _choice(self) -> QuantileMechanism:
        """One block that changes takes one output away and adds another: two rows at half the price each."""
        return QuantileMechanism(self.epsilon / 2, _HALF)

    def _chosen(self, kept: IntArray, source: BitSource) -> int:
        steps, counts = np.unique((kept - self.low).astype(np.int64), return_counts=True)
        table = Histograms.sparse(steps, counts, cells=self.high - self.low + 1)
        return self.low + int(self._choice().choose(table, source)[0])


def _name(unit: Any) -> str:
    """One text for each unit: a number and the text that reads the same are two."""
    if isinstance(unit, str):
        return f"text {unit}"
    if isinstance(unit, int | np.integer) and not isinstance(unit, bool):
        return f"number {int(unit)}"
    raise UsageError("SF-N510", "Units are named by texts or whole numbers.", got=type(unit).__name__)


def _bounded(kernel: Callable[[list[int]], Any], places: list[int], low: int, high: int) -> int:
    try:
        value = float(kernel(places))
    except Exception:
        value = math.nan
    if math.isnan(value):
        return (low + high) // 2
    return math.floor(min(max(value, low), high) + 0.5)


def _kept(outputs: Any, blocks: int, low: int, high: int) -> IntArray:
    """One whole number a block, within the bounds."""
    array = integers(outputs)
    if array.shape != (blocks,):
        raise UsageError(
            "SF-N509", "There is one output for each block.", got=f"shape {array.shape}", blocks=str(blocks)
        )
    kept: IntArray = np.minimum(np.maximum(array, low), high)
    return kept


def _require_bounds(blocks: int, low: int, high: int) -> None:
    whole_bounds = all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (low, high))
    if whole(blocks, "blocks") < 2 or not whole_bounds or not low < high:
        raise UsageError(
            "SF-N508",
            "Blocks are at least two, and their outputs lie between two whole numbers.",
            got=f"{blocks} blocks, {str(low)[:20]} to {str(high)[:20]}",
        )
