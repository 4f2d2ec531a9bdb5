"""Rows of own frames as features, by the coding of their columns. Nothing that a row holds is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.arrays.features import encode_labels, to_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.coded_columns import CodedColumn

    Floats = NDArray[np.float64]


class EncodedRows(np.ndarray):
    """Rows that were encoded before, so that a model takes them as they are."""


def list_columns(frame: Any) -> list[NDArray[Any]]:
    """Return the values of each column of a frame or an array, each with a type of its own."""
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, place].to_numpy() for place in range(frame.shape[1])]
    if hasattr(frame, "get_columns"):
        return [each.to_numpy() for each in frame.get_columns()]
    return list(np.asarray(frame).T)


def encode_columns(columns: Sequence[CodedColumn], values: Sequence[Any]) -> Floats:
    """Return rows of features from the values of each column. Nothing that a row holds is an error."""
    widths = [len(each.feature_names) for each in columns]
    ends = np.cumsum([0, *widths])
    found = np.zeros((len(values[0]) if len(values) else 0, int(ends[-1])))
    for column, given, at, end in zip(columns, values, ends, ends[1:], strict=False):
        _write_column(column, given, found[:, at:end])
    return found


def _write_column(column: CodedColumn, values: Any, out: Floats) -> None:
    if not column.categories:
        numbers = to_numbers(values)
        absent = np.isnan(numbers)
        out[:, 0] = np.where(absent, column.fill_number, numbers)
        if column.flagged:
            out[:, 1] = absent
        return
    given = np.asarray(values)
    places = np.where(find_missing(given), -1, encode_labels(given, column.categories))
    if column.flagged:
        places = np.where(places < 0, len(column.categories), places)
    elif column.fill is not None:
        places = np.where(places < 0, column.fill_place, places)
    inside = np.flatnonzero(places >= 0)
    out[inside, places[inside]] = 1.0


def find_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which values are missing: a missing number must not be taken for the text "nan"."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    # pandas has two markers of its own, which compare with nothing.
    marks = ("NAType", "NaTType")
    return np.array(
        [
            each is None
            or (isinstance(each, float | np.floating) and each != each)
            or type(each).__name__ in marks
            for each in values
        ],
        dtype=bool,
    )
