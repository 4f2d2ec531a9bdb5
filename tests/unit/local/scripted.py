"""Words that a test chooses, in place of the operating system's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Words:
    """A source that gives these words in order, again and again."""

    def __init__(self, words: NDArray[np.uint64] | list[int]) -> None:
        self._words = np.asarray(words, dtype=np.uint64)
        self._given = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        places = (self._given + np.arange(count)) % self._words.size
        self._given += count
        return self._words[places]
