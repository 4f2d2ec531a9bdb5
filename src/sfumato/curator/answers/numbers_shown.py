"""Numbers of an answer as people read them: years without commas, intervals in the format of their number."""

from __future__ import annotations

import math
from typing import Any

_DIGITS = 6
"""Digits of a number that is not whole."""


def show_label(value: Any) -> str:
    """Return a key as text: a name and not a quantity, so that a year has no comma."""
    return "null" if value is None else f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def show_cell(value: Any) -> str:
    """Return a number of an answer as text, with commas and without powers of ten."""
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or not math.isfinite(value):
        return f"{value:,}"
    return _strip_zeros(_show(value, _decimals(value)))


def show_range(value: Any, low: float, high: float) -> str:
    """Return an interval in the format of its number, with no more digits than its width has to tell."""
    if math.isnan(low):
        return "not known"
    if isinstance(value, int):
        return f"{low:,.0f} to {high:,.0f}"
    known = abs(low) + abs(high) if value is None else value
    width = high - low
    useful = 2 - math.floor(math.log10(width)) if width > 0 else _DIGITS
    places = max(0, min(_decimals(known), useful))
    return f"{_show(low, places)} to {_show(high, places)}"


def _decimals(value: float) -> int:
    """Return how many digits after the point make six digits in all; very small numbers have more."""
    return 0 if value == 0 else max(0, min(15, _DIGITS - 1 - math.floor(math.log10(abs(value)))))


def _show(value: float, places: int) -> str:
    # Beyond 10^15 a double has no digits left that are worth reading.
    return f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.{_DIGITS}g}"


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
