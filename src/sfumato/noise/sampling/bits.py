"""Random bits and uniform integers from the operating system.

No state is kept in this process, so forks and threads can never share or repeat bits.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
