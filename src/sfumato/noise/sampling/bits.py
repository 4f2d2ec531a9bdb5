"""Random bits. The operating system gives them, nothing is kept, so forks and threads never share any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BitSource(Protocol):
    """Independent, uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """This many fresh words."""


class SystemSource:
    """The operating system's generator, asked anew each time. It has no state here and takes no seed."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


OS = SystemSource()


def below(bound: int, source: BitSource) -> int:
    """A uniform whole number from 0 to bound − 1, for a bound up to 2^64.

    Words in the last, incomplete stretch of length `bound` are drawn again, so every number is as likely.
    """
    complete = 2**64 - 2**64 % bound
    while True:
        word = int(source.words(1)[0])
        if word < complete:
            return word % bound


def below_each(bounds: NDArray[np.uint64], source: BitSource) -> NDArray[np.uint64]:
    """For each bound a uniform whole number below it, by the same rule.

    In 64 bits 2^64 mod b is (0 − b) mod b, and 2^64 − 1 minus that is its complement, the last word to keep.
    """
    last = ~((np.uint64(0) - bounds) % bounds)
    words = source.words(bounds.size).copy()
    refused = np.flatnonzero(words > last)
    while refused.size:
        words[refused] = source.words(refused.size)
        refused = refused[words[refused] > last[refused]]
    return np.asarray(words % bounds, dtype=np.uint64)
