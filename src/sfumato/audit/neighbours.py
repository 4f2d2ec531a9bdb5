"""Neighbouring tables for programs that take a list of numbers: small ones first, since they hide least."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pair = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def number_tables(low: float = 0.0, high: float = 1.0, *, hostile: bool = True) -> list[Pair]:
    """Return pairs of arrays, the second with one row more: tables of 0, 1, 2 and more rows within bounds.

    With `hostile`, the row that is added may also lie far outside, or be NaN: a private program bounds what
    it is given.
    """
    middle = (low + high) / 2
    begun: list[list[float]] = [
        [],
        [low],
        [high],
        [low, high],
        [middle, middle],
        [low] * 9,
        [high] * 9,
        np.linspace(low, high, 20).tolist(),
    ]
    added = [low, high]
    if hostile:
        span = max(high - low, 1.0)
        added += [high + 1000 * span, low - 1000 * span, np.nan]
    return [(np.array(rows, dtype=float), np.array([*rows, row])) for rows in begun for row in added]


def describe_pair(one: object, other: object) -> str:
    """Return a short text for a pair of tables."""
    return f"{_describe(one)} and {_describe(other)}"


def _describe(table: object) -> str:
    shape = _find_shape(table)
    text = repr(table.tolist() if isinstance(table, np.ndarray) else table)
    if len(text) <= 60:
        return text
    return f"a table of {shape[0]:,} rows" if shape else f"{text[:57]}…"


def _find_shape(table: object) -> tuple[int, ...] | None:
    """Return the shape of an array or a list, and None for anything else, such as rows with their labels."""
    if not isinstance(table, np.ndarray | list | tuple):
        return None
    try:
        return np.shape(table)
    except ValueError:
        return None
