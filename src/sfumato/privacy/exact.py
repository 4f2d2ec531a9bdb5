"""Numbers as people type them, kept exact: 0.1 is one tenth, not the nearest double."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

from sfumato.errors import UsageError

Number = int | float | Fraction | Decimal

LARGEST = Fraction(2) ** 100  # beyond any sensible bound, scale or ε

FINEST = 2**4000  # a fraction with a larger denominator could not be written down and read back

_RAISE = 1 + Fraction(1, 2**40)  # far above the rounding of the double arithmetic it covers


def exact(value: Any, name: str) -> Fraction:
    """The rational number that `value` reads as; a double is read by its shortest decimal form."""
    fraction = _fraction(value, name)
    if abs(fraction) > LARGEST:
        raise UsageError("SF-N101", f"{name} is too large.", got=_shown(value), try_="a number below 2^100")
    if fraction.denominator > FINEST:
        raise UsageError("SF-N101", f"{name} has too many digits.", try_="a number that a double can hold")
    return fraction


def positive(value: Any, name: str) -> Fraction:
    """`exact`, and greater than zero."""
    fraction = exact(value, name)
    if fraction <= 0:
        raise UsageError("SF-N102", f"{name} must be greater than 0.", got=_shown(value))
    return fraction


def nonnegative(value: Any, name: str) -> Fraction:
    """`exact`, and not below zero."""
    fraction = exact(value, name)
    if fraction < 0:
        raise UsageError("SF-N111", f"{name} must not be below 0.", got=_shown(value))
    return fraction


def noise_scale(value: Any, name: str) -> Fraction:
    """`positive`, and no smaller than 2^−100, so that its inverse is a number that can be used."""
    fraction = positive(value, name)
    if fraction * LARGEST < 1:
        raise UsageError("SF-N301", f"{name} is too small.", got=_shown(value), try_="a number above 2^-100")
    return fraction


def probability(value: Any, name: str) -> Fraction:
    """`exact`, at least 0 and below 1."""
    fraction = exact(value, name)
    if not 0 <= fraction < 1:
        raise UsageError("SF-N106", f"{name} must be at least 0 and below 1.", got=_shown(value))
    return fraction


def raised(value: float) -> Fraction:
    """A rational above the real number that this double was computed for, to within 2^−40 of it."""
    return Fraction(value) * _RAISE


def whole(value: Any, name: str) -> int:
    """`positive`, and a whole number."""
    fraction = positive(value, name)
    if fraction.denominator != 1:
        raise UsageError("SF-N103", f"{name} must be a whole number.", got=_shown(value))
    return fraction.numerator


def shown(value: Fraction, digits: int = 4) -> str:
    """A short decimal form for people."""
    return f"{float(value):.{digits}g}"


def _fraction(value: Any, name: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, numbers.Number | Decimal):
        raise UsageError("SF-N104", f"{name} must be a number.", got=type(value).__name__)
    if isinstance(value, Fraction | int):
        return Fraction(value)
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else _not_finite(value, name)
    if not isinstance(value, SupportsFloat):
        raise UsageError("SF-N104", f"{name} must be a real number.", got=type(value).__name__)
    as_float = float(value)
    return Fraction(repr(as_float)) if math.isfinite(as_float) else _not_finite(as_float, name)


def _not_finite(value: Any, name: str) -> Fraction:
    raise UsageError("SF-N105", f"{name} must be finite.", got=_shown(value))


def _shown(value: Any) -> str:
    return str(value)[:40]
