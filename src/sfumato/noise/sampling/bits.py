"""Random bits and uniform integers from the operating system.

No state is kept in this process, so forks and threads can never share or repeat bits.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.integers import IntArray


class BitSource(Protocol):
    """A source of independent, uniform 64-bit words. Tests script one; production uses `OS`."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words."""


class SystemSource:
    """The operating system's generator, called anew for every draw, without state or seed here."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


OS = SystemSource()

_HALF, _LOWER = np.uint64(2**32), np.uint64(2**32 - 1)


def draw_below(bound: int, source: BitSource) -> int:
    """Return a uniform integer from 0 to bound − 1, by rejection, for a bound of at most 2^64."""
    # Words beyond the last complete multiple of `bound` are drawn again: `word % bound` alone would favour
    # small numbers.
    complete = 2**64 - 2**64 % bound
    while True:
        word = int(source.words(1)[0])
        if word < complete:
            return word % bound


def draw_below_each(bounds: NDArray[np.uint64], source: BitSource) -> NDArray[np.uint64]:
    """Return a uniform integer below each bound, by rejection as in `draw_below`."""
    # In 64-bit arithmetic (0 − b) mod b is 2^64 mod b, and the complement of that is the last word to keep.
    last = ~((np.uint64(0) - bounds) % bounds)
    words = source.words(bounds.size).copy()
    refused = np.flatnonzero(words > last)
    while refused.size:
        words[refused] = source.words(refused.size)
        refused = refused[words[refused] > last[refused]]
    return np.asarray(words % bounds, dtype=np.uint64)


def draw_uniform(bound: int, count: int, source: BitSource) -> NDArray[np.int64]:
    """Return `count` independent uniform integers from 0 to bound − 1, for a bound of at most 2^63."""
    return draw_below_each(np.full(count, bound, dtype=np.uint64), source).astype(np.int64)


def draw_between_each(
    low: IntArray, high: IntArray, source: BitSource, rows: tuple[int, ...] = ()
) -> IntArray:
    """Return a uniform integer from each low to its high, both included; far ones as Python integers.

    With `rows`, so many of each along leading axes.
    """
    shape = (*rows, *low.shape)
    if low.dtype == object or high.dtype == object:
        lows, highs = (np.broadcast_to(each, shape).ravel().tolist() for each in (low, high))
        ends = zip(lows, highs, strict=True)
        found: Any = np.array([least + _draw_wide(most - least + 1, source) for least, most in ends], object)
        return np.asarray(found.reshape(shape), dtype=object)
    # A difference that wrapped around is right when read as unsigned.
    widths = np.subtract(high, low).view(np.uint64) + np.uint64(1)
    if widths.max(initial=np.uint64(1)) <= _HALF:
        drawn = _draw_half_words(widths, shape, source)
    else:
        drawn = draw_below_each(np.broadcast_to(widths, shape).ravel(), source).reshape(shape)
    return np.add(low, drawn.view(np.int64))


def _draw_half_words(
    bounds: NDArray[np.uint64], shape: tuple[int, ...], source: BitSource
) -> NDArray[np.uint64]:
    """Return a uniform integer below each bound of at most 2^32, by products and half the bits (Lemire)."""
    # Of all products word · bound whose upper half is one number, those with a lower half of at least
    # 2^32 mod bound are ⌊2^32 / bound⌋ for every number. The others are drawn again.
    count = math.prod(shape)
    words = source.words(-(-count // 2)).view(np.uint32)[:count].reshape(shape)
    products = words * bounds
    doubtful = np.flatnonzero((products & _LOWER) < bounds)
    few = np.broadcast_to(bounds, shape).flat[doubtful]
    refused = np.flatnonzero((products.flat[doubtful] & _LOWER) < _HALF % few)
    found: NDArray[np.uint64] = products >> np.uint64(32)
    if refused.size:
        found.flat[doubtful[refused]] = _draw_half_words(few[refused], refused.shape, source)
    return found


def _draw_wide(bound: int, source: BitSource) -> int:
    """Return a uniform integer from 0 to bound − 1, for any bound."""
    size = -(-bound.bit_length() // 64)
    complete = 2 ** (64 * size) // bound * bound
    while True:
        number = int.from_bytes(source.words(size).tobytes(), "little")
        if number < complete:
            return number % bound
