"""Uniform whole numbers, exactly, by rejection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.bits import below_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource


def uniform(bound: int, count: int, source: BitSource) -> NDArray[np.int64]:
    """This many independent numbers from 0 to bound − 1, for a bound of at most 2^63."""
    return below_each(np.full(count, bound, dtype=np.uint64), source).astype(np.int64)
