"""Numbers of an answer as people read them: years without commas, intervals in the format of their number."""

from __future__ import annotations

import math
from typing import Any

from sfumato.privacy.exact import format_number

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


def show_error(half: float) -> str:
    """Return half the width of an interval as text: three digits, or all that are before the point."""
    return f"{half:,.0f}" if 100 <= half < 1e15 else format_number(half, 3)


def show_number(value: Any, places: int) -> str:
    """Return a number of an answer as text, with so many digits after the point unless it is whole."""
    if value is None or isinstance(value, int) or not math.isfinite(value):
        return show_cell(value)
    return _show(value, places)


def useful_places(value: Any, low: float, high: float) -> int:
    """Return how many digits after the point the width of an interval leaves worth reading."""
    if isinstance(value, int) or math.isnan(low) or not math.isfinite(high - low):
        return 0
    known = abs(low) + abs(high) if value is None else value
    width = high - low
    useful = 1 - math.floor(math.log10(width)) if width > 0 else _DIGITS
    return max(0, min(_decimals(known), useful))


def show_range(low: float, high: float, places: int) -> str:
    """Return an interval with so many digits after the point."""
    return "not known" if math.isnan(low) else f"{_show(low, places)} – {_show(high, places)}"


def _decimals(value: float) -> int:
    """Return how many digits after the point make six digits in all; very small numbers have more."""
    return 0 if value == 0 else max(0, min(15, _DIGITS - 1 - math.floor(math.log10(abs(value)))))


def _show(value: float, places: int) -> str:
    # Beyond 10^15 a double has no digits left that are worth reading.
    return f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.{_DIGITS}g}"


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
