"""Own frames: their columns by name, and their rows as cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.row_groups import RowGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.oracle.row_groups import GroupKernel
    from sfumato.synth.column_cells import ColumnCells


def list_own_columns(frame: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """Return the columns of a frame by name: of pandas, polars or Arrow, or a mapping of arrays."""
    names = list(frame.keys()) if isinstance(frame, Mapping) else _column_names(frame)
    wanted = list(names) if columns is None else list(columns)
    if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(names):
        raise UsageError(
            "SF-E110",
            "The columns to synthesise are not columns of the frame, each given once.",
            try_='fit(frame, columns=["age", "ward"])',
        )
    found = {name: _to_array(frame[name]) for name in wanted}
    shapes = {each.shape for each in found.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1:
        raise UsageError(
            "SF-E110",
            "The columns of the frame are not equally long lists of single values.",
            try_="a frame of pandas, polars or Arrow, or a dictionary of arrays of one length",
        )
    return found


def _column_names(frame: Any) -> list[str]:
    names = getattr(frame, "column_names", None)
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None:
        raise UsageError(
            "SF-E110",
            "A frame with named columns is needed.",
            got=type(frame).__name__,
            try_="a frame of pandas, polars or Arrow, or a dictionary of arrays",
        )
    return [str(name) for name in names]


def _to_array(column: Any) -> Any:
    """Return a column as NumPy has it; Arrow's own missing values become None or NaN."""
    if hasattr(column, "to_numpy"):
        try:
            return column.to_numpy(zero_copy_only=False)
        except TypeError:
            return column.to_numpy()
    return np.asarray(column)


def release_own(columns: Sequence[ColumnCells], kernel: GroupKernel, given: Mapping[str, Any]) -> Any:
    """Return what a kernel that was paid for releases about own rows."""
    cells = tuple(column.encode(given[column.name]) for column in columns)
    return kernel.release(RowGroups(cells, np.ones(len(cells[0]), dtype=np.int64)))
