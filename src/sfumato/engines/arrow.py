"""Arrow arrays of plain values. Arrow's own way to make them imports pandas wherever that is installed."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

_NAMES = {"date32[day]": "M8[D]", "timestamp[s]": "M8[s]", "double": "f8"}
"""What NumPy calls a type where Arrow calls it otherwise."""


def build_array(cells: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return an Arrow array of this type, null where a cell is missing or not a number."""
    import pyarrow as pa

    there = _there(cells)
    content = _texts(cells) if pa.types.is_string(kind) else [_values(cells, there, kind)]
    # Arrow takes no bitmap as nothing missing.
    valid = None if there.all() else np.packbits(there, bitorder="little")
    buffers = [None if each is None else pa.py_buffer(each) for each in (valid, *content)]
    return pa.Array.from_buffers(kind, len(cells), buffers)


def _there(cells: Sequence[Any] | NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells hold something; only what is not a number differs from itself."""
    if isinstance(cells, np.ndarray):
        return np.asarray(cells == cells, dtype=np.bool_)
    return np.array([cell is not None and cell == cell for cell in cells], dtype=np.bool_)


def _values(cells: Any, there: NDArray[np.bool_], kind: pa.DataType) -> NDArray[Any]:
    """Return the buffer of values: Arrow keeps booleans as bits and dates as 32-bit numbers."""
    values = np.zeros(len(cells), dtype=_NAMES.get(str(kind), str(kind)))
    values[there] = np.array(cells, dtype=None if isinstance(cells, np.ndarray) else object)[there]
    if values.dtype == np.bool_:
        return np.packbits(values, bitorder="little")
    return values.astype(f"i{kind.bit_width // 8}") if values.dtype.kind == "M" else values


def _texts(cells: Sequence[str | None] | NDArray[Any]) -> list[Any]:
    """Return the buffers of a column of texts: where each begins, and all of them in a row."""
    encoded = [text.encode() if isinstance(text, str) else b"" for text in cells]
    return [np.fromiter(accumulate(map(len, encoded), initial=0), dtype=np.int32), b"".join(encoded)]
