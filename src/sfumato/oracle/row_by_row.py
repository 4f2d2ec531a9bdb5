"""Computing something of each row such that one row more changes nothing of the others.

How NumPy and its BLAS round what they compute of a row may depend on where in an array the row lies, and on
how many there are. So rows go in blocks of one size, each at a place that it draws for itself.

Because : docs/proofs/evaluation.md#one-by-one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.noise.sampling.bits import OS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_PLACES = 2**8
"""Rows in a block, never more and never fewer. Privacy holds for any fixed number."""


def compute_row_by_row(compute: Callable[[Any], Any], rows: Any) -> NDArray[Any]:
    """Return what a function says of each row of an array or a frame; it returns one number a row."""
    count: int = len(rows)
    if not count:
        return np.zeros(0)
    # 256 divides 2^64, so places are uniform.
    places = (OS.words(count) % np.uint64(_PLACES)).astype(np.int64)
    turns = _turns(places)
    # Empty places hold row 0, whose answers there are not used.
    blocks = np.zeros((int(turns.max()) + 1, _PLACES), dtype=np.int64)
    blocks[turns, places] = np.arange(count)
    found = np.stack([np.asarray(compute(_taken(rows, block))) for block in blocks])
    if found.shape != blocks.shape:
        raise AssertionError("one answer a row")
    return np.asarray(found[turns, places])


def _taken(rows: Any, places: Ints) -> Any:
    if hasattr(rows, "iloc"):
        return rows.iloc[places]
    return (rows if hasattr(rows, "shape") else np.asarray(rows))[places]


def _turns(places: Ints) -> Ints:
    """Return how many earlier rows drew the same place, which is the block that a row goes to."""
    order, sizes = np.argsort(places, kind="stable"), np.bincount(places, minlength=_PLACES)
    found = np.empty(len(places), dtype=np.int64)
    found[order] = np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found
