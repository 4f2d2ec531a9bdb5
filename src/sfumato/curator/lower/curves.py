"""SQRT, LN, EXP and powers, as doubles. What has no value, as the logarithm of zero, is missing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.arithmetic import divide_numbers, multiply_numbers
from sfumato.curator.lower.lowered_value import MISSING, LoweredValue, constant_number, literal_number
from sfumato.curator.lower.reals import (
    as_real,
    exponential_real,
    logarithm_real,
    power_real,
    root_real,
    settle_real,
)
from sfumato.engines.values import Choose, Constant, Missing
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_POWER = 8


def take_root(part: LoweredValue) -> LoweredValue:
    """Return SQRT of a number, missing below 0."""
    if part is MISSING:
        return MISSING
    found = as_real(part, "The argument of SQRT")
    return settle_real(root_real(found), part, total=found.low >= 0)


def make_logarithm(name: str) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function LN, LOG2 or LOG10, missing at 0 and below."""

    def take_logarithm(part: LoweredValue) -> LoweredValue:
        if part is MISSING:
            return MISSING
        argument = as_real(part, f"The argument of {name.upper()}")
        found = logarithm_real(argument, name)
        return MISSING if found is None else settle_real(found, part, total=argument.low > 0)

    return take_logarithm


def take_exponential(part: LoweredValue) -> LoweredValue:
    """Return EXP of a number."""
    if part is MISSING:
        return MISSING
    found = as_real(part, "The argument of EXP")
    return settle_real(exponential_real(found, present=part.present), part)


def take_power(part: LoweredValue, exponent: LoweredValue) -> LoweredValue:
    """Return a number to a constant power; missing where it has none.

    Small whole powers are products.
    """
    power = constant_number(exponent)
    if power is None or abs(power) > MOST_POWER:
        raise _unsupported_power()
    if part is MISSING:
        return MISSING
    if power == Fraction(1, 2):
        return take_root(part)
    if power == 0:
        return part.derive_value(Choose(Missing(part.value), Constant(None), Constant(1)), Numbers(1, 1))
    if power.denominator == 1:
        product = part
        for _ in range(int(abs(power)) - 1):
            product = multiply_numbers(product, part)
        return product if power > 0 else divide_numbers(literal_number(Fraction(1)), product)
    base = as_real(part, "The first argument of POWER")
    found = power_real(base, power)
    if found is None:
        return MISSING
    return settle_real(found, part, total=base.low > 0 or (power > 0 and base.low >= 0))


def _unsupported_power() -> PolicyError:
    return PolicyError(
        "SF-Q135",
        "The second argument of POWER must be a constant.",
        allowed=f"-{MOST_POWER} to {MOST_POWER}",
        try_="POWER(x, 2), or EXP(y * LN(x))",
    )
