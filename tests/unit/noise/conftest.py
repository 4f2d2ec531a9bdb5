"""Bits that a test decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Script:
    """Gives out the words it was told, in order, and fails when more are drawn."""

    queue: list[int] = field(default_factory=list)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.queue), "more bits were drawn than the number needs"
        given, self.queue = self.queue[:count], self.queue[count:]
        return np.array(given, dtype=np.uint64)

    @classmethod
    def of(cls, number: int, bits: int) -> Script:
        """The words by which one draw from a table reads the bits (64, 128, …) of this number."""
        lead = number >> (bits - 64)
        rest = [(number >> shift) % 2**64 for shift in range(bits - 128, -1, -64)]
        return cls([lead >> 48, (lead % 2**48) << 16, *rest])


@pytest.fixture
def script() -> type[Script]:
    return Script
