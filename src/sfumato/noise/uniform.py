"""Uniform whole numbers, exactly, by rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.bits import Source


def uniform(bound: int, count: int, source: Source) -> NDArray[np.int64]:
    """This many independent numbers from 0 to bound − 1, for a bound of at most 2^63.

    Words from the last, incomplete run of `bound` words are drawn again, so that every remainder is left
    equally many words.
    """
    words = source.words(count).copy()
    last = np.uint64(2**64 // bound * bound - 1)
    refused = np.flatnonzero(words > last)
    while refused.size:
        words[refused] = source.words(refused.size)
        refused = refused[words[refused] > last]
    return (words % np.uint64(bound)).astype(np.int64)
