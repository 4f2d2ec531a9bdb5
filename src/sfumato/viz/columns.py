"""Lists, tuples and arrays into the rows of a Vega-Lite document."""

from __future__ import annotations

import math
import re
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    from numpy.typing import ArrayLike

Rows = list[dict[str, Any]]

WHOLE: Final = ",d"
FOUR_FIGURES: Final = ",.4~r"
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d+)?)?$", re.A)
"""A date as JSON has it."""


def to_rows(columns: Mapping[str, Sequence[Any]]) -> Rows:
    """Return one dictionary for each position; every column must be equally long."""
    require_same_length(columns)
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def require_same_length(columns: Mapping[str, Sized]) -> None:
    """Refuse columns of different lengths."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError(
            "SF-N203",
            "The lists given to a chart differ in length.",
            got=", ".join(f"{name} {length}" for name, length in lengths.items()),
        )


def to_numbers(values: ArrayLike) -> list[float | None]:
    """Return doubles, with None for what is not finite; nothing is drawn there."""
    cells: list[float] = np.asarray(values, dtype=float).ravel().tolist()
    return [cell if math.isfinite(cell) else None for cell in cells]


def label_text(label: Any) -> str:
    """Return a group key as a label; the parts of a compound key are separated by a dot."""
    if isinstance(label, tuple):
        return " · ".join(map(label_text, label))
    if isinstance(label, float):
        return format_number(label, 6)
    return "null" if label is None else str(label)


def find_scale(labels: Sequence[Any]) -> str:
    """Return the type of axis on which keys have an order of their own: "quantitative" or "temporal".

    Empty if they are names. A missing key is on no such axis and does not count.
    """
    known = [label for label in labels if label is not None]
    if not known:
        return ""
    kinds = (int, float, np.integer, np.floating)
    if all(isinstance(label, kinds) and not isinstance(label, bool) for label in known):
        return "quantitative"
    if all(isinstance(label, date) or _MOMENT.match(str(label)) for label in known):
        return "temporal"
    return ""


def number_format(values: Sequence[float | None]) -> str:
    """Return the number format: integers in full, others to four figures."""
    return WHOLE if all(value is None or value.is_integer() for value in values) else FOUR_FIGURES
