"""Counts over the cells of a public grid, as mechanisms take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.noise.integers import integers

if TYPE_CHECKING:
    from sfumato.noise.integers import IntArray


_WIDE = 2**62


def histogram(counts: Any, cells: int | None = None) -> IntArray:
    """One row of counts, of the stated length; anything else is refused before a bit is drawn."""
    array = integers(counts)
    if array.ndim != 1 or int(array.min()) < 0 or cells not in (None, array.size):
        raise UsageError(
            "SF-N505",
            "A histogram is one row of counts, none of them negative.",
            got=f"shape {array.shape}",
            cells="any number" if cells is None else str(cells),
        )
    return array


def roomy(cells: IntArray, factor: int = 1) -> IntArray:
    """As Python integers where this multiple of the total may not fit 64 bits."""
    most = int(cells.max()) * cells.size * factor
    return cells if most < _WIDE else cells.astype(object)
