"""Numbers as people read them: the one place where a number becomes text that is printed.

Thousands are separated, at most four digits matter unless more are known, and powers of ten are for numbers
below 0.001 and from 10^15 on. Nothing that is printed is read back.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import SupportsFloat

_SMALLEST, _LARGEST = 0.001, 1e15
"""Between these, a number is written without a power of ten."""
_DIGITS = 6
"""Digits of a number of an answer that is not whole."""


def format_number(value: SupportsFloat, digits: int = 4) -> str:
    """Return a number with so many significant digits, and all that are before the point."""
    number = float(value)
    if number.is_integer() and abs(number) < _LARGEST:
        return f"{int(number):,}"
    if not math.isfinite(number) or not _SMALLEST <= abs(number) < _LARGEST:
        return format_decimal(number, 0) if not math.isfinite(number) else f"{number:.{digits}g}"
    return _strip_zeros(format_decimal(number, max(0, digits - 1 - _find_power(number))))


def format_decimal(value: SupportsFloat, places: int) -> str:
    """Return a number with so many digits after the point."""
    number = float(value)
    if math.isnan(number):
        return "unknown"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    if abs(number) >= _LARGEST:
        return f"{number:.{_DIGITS}g}"
    text = f"{number:,.{places}f}"
    # What rounds to zero has no sign.
    return text.lstrip("-") if not text.strip("-0.,") else text


def format_typed(value: SupportsFloat, digits: int = 4) -> str:
    """Return a number as people type it into Python, SQL or a shell: without commas."""
    return format_number(value, digits).replace(",", "")


def format_share(share: SupportsFloat, places: int = 1) -> str:
    """Return a share of one in per cent, with so many digits after the point."""
    return f"{format_decimal(100 * float(share), places)} %"


def format_bound(value: SupportsFloat, digits: int = 4, *, up: bool) -> str:
    """Return a text that is no smaller than a number, as "at most" needs; or else no larger.

    What lies within the rounding of double arithmetic of a short decimal is taken for it.
    """
    return format_number(_round(value, digits, up=up), digits)


def format_remaining(value: SupportsFloat, places: int = 1) -> str:
    """Return an amount that remains, rounded down, with at least this many decimals below a thousand."""
    number = _round(value, 4, up=False)
    text = format_number(number)
    return text if abs(number) >= 1000 or "e" in text else pad_decimals(text, places)


def pad_decimals(text: str, places: int) -> str:
    """Return a decimal text with at least this many digits after the point."""
    if "e" in text:
        return text
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(places, '0')}"


def _round(value: SupportsFloat, digits: int, *, up: bool) -> float:
    number, nearest = Decimal(float(value)), float(f"{float(value):.{digits}g}")
    if abs(Decimal(f"{nearest:.{digits}g}") - number) <= abs(number) * Decimal(2) ** -40:
        return nearest
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return float(Context(prec=digits, rounding=rounding).create_decimal(number))


# ---- numbers of an answer, whose intervals say how many digits are worth reading ---------------------------


def format_label(value: Any) -> str:
    """Return a key as text: a name and not a quantity, so that a year has no comma."""
    return "null" if value is None else f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def format_cell(value: Any) -> str:
    """Return a value of an answer as text; of a number that is not whole, six digits."""
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else _strip_zeros(format_decimal(value, _decimals(value)))


def format_error(half: float) -> str:
    """Return half the width of an interval: three digits, or all that are before the point."""
    return format_decimal(half, 0) if 100 <= half < _LARGEST else format_number(half, 3)


def format_measured(value: Any, places: int) -> str:
    """Return a number of an answer with so many digits after the point, unless it is whole."""
    if value is None or isinstance(value, int):
        return format_cell(value)
    return format_decimal(value, places)


def format_range(low: float, high: float, places: int) -> str:
    """Return an interval with so many digits after the point."""
    return (
        "not known" if math.isnan(low) else f"{format_decimal(low, places)} – {format_decimal(high, places)}"
    )


def useful_places(value: Any, low: float, high: float) -> int:
    """Return how many digits after the point the width of an interval leaves worth reading."""
    if isinstance(value, int) or math.isnan(low) or not math.isfinite(high - low):
        return 0
    known = abs(low) + abs(high) if value is None else value
    width = high - low
    useful = 1 - math.floor(math.log10(width)) if width > 0 else _DIGITS
    return max(0, min(_decimals(known), useful))


def _decimals(value: float) -> int:
    """Return how many digits after the point make six digits in all; very small numbers have more."""
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, min(15, _DIGITS - 1 - _find_power(value)))


def _find_power(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
