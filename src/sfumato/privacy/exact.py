"""Numbers as people type them, kept exact: 0.1 is one tenth, not the nearest double."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

from sfumato.errors import UsageError

Number = int | float | Fraction | Decimal

LARGEST = Fraction(2) ** 100
"""Largest number accepted, beyond any sensible bound, scale or ε."""

FINEST = 2**4000
"""Largest denominator accepted: a finer fraction could not be written to the ledger and read back."""

_MOST_DIGITS = 1300
"""Digits of a decimal on either side of the point that are read; what is accepted in the end has fewer."""

_RAISE = 1 + Fraction(1, 2**40)  # far above the rounding of the double arithmetic it covers


def parse_exact(value: Any, name: str) -> Fraction:
    """Return the rational number that `value` reads as; a double is read by its shortest decimal form."""
    fraction = _fraction(value, name)
    if abs(fraction) > LARGEST:
        raise UsageError("SF-N101", f"{name} is too large.", got=_shown(value), try_="a number below 2^100")
    if fraction.denominator > FINEST:
        raise UsageError("SF-N101", f"{name} has too many digits.", try_="a number that a double can hold")
    return fraction


def parse_positive(value: Any, name: str) -> Fraction:
    """Return the number that `value` reads as; it must be greater than 0."""
    fraction = parse_exact(value, name)
    if fraction <= 0:
        raise UsageError("SF-N101", f"{name} must be greater than 0.", got=_shown(value))
    return fraction


def parse_nonnegative(value: Any, name: str) -> Fraction:
    """Return the number that `value` reads as; it must not be below 0."""
    fraction = parse_exact(value, name)
    if fraction < 0:
        raise UsageError("SF-N101", f"{name} must not be below 0.", got=_shown(value))
    return fraction


def parse_noise_scale(value: Any, name: str) -> Fraction:
    """Return the number that `value` reads as; it must be at least 2^−100, so that 1/value is usable."""
    fraction = parse_positive(value, name)
    if fraction * LARGEST < 1:
        raise UsageError("SF-N101", f"{name} is too small.", got=_shown(value), try_="a number above 2^-100")
    return fraction


def parse_probability(value: Any, name: str) -> Fraction:
    """Return the number that `value` reads as; it must be at least 0 and below 1."""
    fraction = parse_exact(value, name)
    if not 0 <= fraction < 1:
        raise UsageError("SF-N101", f"{name} must be at least 0 and below 1.", got=_shown(value))
    return fraction


def round_up(value: float) -> Fraction:
    """Return a rational above the real number that this double approximates, by at most 2^−40 of it."""
    return Fraction(value) * _RAISE


def parse_whole(value: Any, name: str) -> int:
    """Return the integer that `value` reads as; it must be greater than 0."""
    fraction = parse_positive(value, name)
    if fraction.denominator != 1:
        raise UsageError("SF-N104", f"{name} must be a whole number.", got=_shown(value))
    return fraction.numerator


def parse_confidence(value: Any) -> Fraction:
    """Return a confidence level exactly; it must be at least 0 and below 1."""
    level = parse_exact(value, "confidence")
    if not 0 <= level < 1:
        raise UsageError("SF-N101", "confidence must be at least 0 and below 1.", got=_shown(value))
    return level


def parse_interval_level(value: Any) -> float:
    """Return the confidence level of an interval; it must lie strictly between 0 and 1."""
    level = parse_exact(value, "confidence")
    if not 0 < level < 1:
        raise UsageError("SF-N101", "A confidence must lie between 0 and 1.", got=_shown(value), try_="0.95")
    return float(level)


def parse_delta(value: Any) -> Fraction:
    """Return a δ that is to be spent, exactly; it must lie strictly between 0 and 1."""
    delta = parse_exact(value, "delta")
    if not 0 < delta < 1:
        raise UsageError(
            "SF-N101", "delta must lie above 0 and below 1.", got=_shown(value), try_="delta=1e-9"
        )
    return delta


def require_bool(value: Any, name: str) -> None:
    """Refuse anything but True and False: the text "no" would count as yes and buy less noise."""
    if not isinstance(value, bool):
        raise UsageError("SF-N104", f"{name} must be True or False.", got=type(value).__name__)


def _fraction(value: Any, name: str) -> Fraction:
    # True is an int in Python, but epsilon=True is a mistake and not 1.
    if isinstance(value, bool) or not isinstance(value, numbers.Number | Decimal):
        raise UsageError("SF-N104", f"{name} must be a number.", got=type(value).__name__)
    # A subclass may answer as it likes when it is asked for its parts; these are its own.
    if isinstance(value, int):
        return Fraction(int.__add__(value, 0))
    if isinstance(value, Fraction):
        return value if type(value) is Fraction else Fraction(Fraction.__str__(value))
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        return _read_decimal(value, name) if Decimal.is_finite(value) else _not_finite(value, name)
    if not isinstance(value, SupportsFloat):
        raise UsageError("SF-N104", f"{name} must be a real number.", got=type(value).__name__)
    # repr gives the shortest decimal that reads back as this double, which is what the person typed.
    as_float = float(value)
    return Fraction(repr(as_float)) if math.isfinite(as_float) else _not_finite(as_float, name)


def _read_decimal(value: Decimal, name: str) -> Fraction:
    """Return a decimal exactly; digits are counted first, as 1e99999999 would fill the memory."""
    if Decimal.is_zero(value):
        return Fraction(0)
    exponent = Decimal.as_tuple(value).exponent
    if Decimal.adjusted(value) > _MOST_DIGITS or int(exponent) < -_MOST_DIGITS:
        raise UsageError(
            "SF-N101", f"{name} is too large, or has too many digits.", try_="a number below 2^100"
        )
    return Fraction(Decimal.__str__(value))


def _not_finite(value: Any, name: str) -> Fraction:
    raise UsageError("SF-N105", f"{name} must be finite.", got=_shown(value))


def _shown(value: Any) -> str:
    return str(value)[:40]
