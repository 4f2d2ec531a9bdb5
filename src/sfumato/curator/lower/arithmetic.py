"""Interval arithmetic on lowered values: sums, products, quotients, rounding, minimum and maximum.

Every integer lies within its domain's bounds and within ±2^62: where a product or a quotient would not, it is
put on a coarser grid, rounded down. So nothing an analyst can write overflows, and every sum has a price.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from sfumato.curator.catalog.columns import STEPS, choose_exponent
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.lower.lowered_value import (
    LARGEST,
    MISSING,
    LoweredValue,
    add_integer,
    align_periods,
    align_steps,
    divide_by_integer,
    grid_too_fine,
    limit_magnitude,
    literal_number,
    multiply_by_integer,
    number_domain,
    require_number,
    require_periods,
    subtract_dates,
)
from sfumato.engines.values import (
    WIDEST,
    Add,
    AtMost,
    Choose,
    Constant,
    Divide,
    Greatest,
    Least,
    Multiply,
    Value,
)


def add_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left + right."""
    (one, other), step = align_steps([left, right], "One side of +")
    first, second = number_domain(one), number_domain(other)
    domain = Numbers(first.low + second.low, first.high + second.high, step)
    # A constant is folded into what stands on the left, so that x + 1 + 1 and x + 2 are one program.
    if isinstance(other.value, Constant) and other.value.value is not None:
        return limit_magnitude(one.derive_value(add_integer(one.value, other.value.value), domain, other))
    return limit_magnitude(one.derive_value(Add(one.value, other.value), domain, other))


def negate_number(part: LoweredValue) -> LoweredValue:
    """Return a number with its sign changed."""
    part, domain = require_number(part, "The operand of the minus sign")
    return part.derive_value(
        multiply_by_integer(part.value, -1), Numbers(-domain.high, -domain.low, domain.step)
    )


def subtract_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left − right; for two dates, the time between them."""
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        return subtract_dates(left, right)
    return add_numbers(left, negate_number(right))


def multiply_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left · right; a constant factor changes only the step, so that no integer grows."""
    one, first = require_number(left, "One side of *")
    other, second = require_number(right, "One side of *")
    for part, domain, factor in ((one, first, _constant_value(other)), (other, second, _constant_value(one))):
        if factor:  # zero would make the step zero; its product is computed like any other
            return scale_number(part, domain, factor)
    # A product over two intervals is largest and smallest at their corners.
    corners = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
    domain = Numbers(min(corners), max(corners), first.step * second.step)
    return limit_magnitude(one.derive_value(Multiply(one.value, other.value), domain, other))


def scale_number(part: LoweredValue, domain: Numbers, factor: Fraction) -> LoweredValue:
    """Return a number times a constant other than zero: unchanged integers on another step."""
    if factor < 0:
        return negate_number(scale_number(part, domain, -factor))
    return part.derive_value(part.value, replace(domain, step=domain.step * factor))


def _constant_value(part: LoweredValue) -> Fraction | None:
    """Return the number if it is a constant."""
    if isinstance(part.value, Constant) and part.value.value is not None:
        return part.value.value * number_domain(part).step
    return None


def divide_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left / right: exact if right is a constant, else rounded down on a grid chosen from the bounds.

    The quotient is missing where right is 0.
    """
    one, first = require_number(left, "One side of /")
    other, second = require_number(right, "One side of /")
    divisor = _constant_value(other)
    if divisor:
        return scale_number(one, first, 1 / divisor)
    # The divisor is missing at 0, so it is at least one step from it, or as far as its bounds say.
    nearest = max(1, second.low, -second.high)
    magnitude = max(Fraction(1, 2**STEPS), first.bound * first.step / (nearest * second.step))
    step = Fraction(2) ** choose_exponent(magnitude)
    ratio = first.step / (second.step * step)
    quotient = _quotient(one, first, other, second, ratio)
    end = math.ceil(magnitude / step)
    domain = Numbers(-end if first.low < 0 or second.low < 0 else 0, end, step)
    nonzero = second.low > 0 or second.high < 0
    return one.derive_value(quotient, domain, other, total=nonzero)


def average_numbers(
    total: LoweredValue, there: LoweredValue, low: LoweredValue, high: LoweredValue
) -> LoweredValue:
    """Return a sum divided by its number of summands, rounded down; all of them lie from low to high."""
    sums, counts = number_domain(total), number_domain(there)
    ends = [number_domain(end).low * number_domain(end).step for end in (low, high)]
    step = Fraction(2) ** choose_exponent(max(Fraction(1, 2**STEPS), *map(abs, ends)))
    quotient = _quotient(total, sums, there, counts, sums.step / step)
    domain = Numbers(math.floor(ends[0] / step), math.floor(ends[1] / step), step)
    return total.derive_value(quotient, domain, there, total=counts.low > 0)


def _quotient(
    one: LoweredValue, first: Numbers, other: LoweredValue, second: Numbers, ratio: Fraction
) -> Value:
    """Return ⌊one · ratio / other⌋.

    Engines round quotients towards zero, so numerator and divisor are made non-negative first.
    """
    above = multiply_by_integer(one.value, ratio.numerator)
    below = multiply_by_integer(other.value, ratio.denominator)
    low, high = first.low * ratio.numerator, first.high * ratio.numerator
    if max(abs(low), abs(high), second.bound * ratio.denominator) > LARGEST:
        raise grid_too_fine("A quotient")
    if second.low < 0:
        negative = AtMost(other.value, -1)
        above = Choose(negative, multiply_by_integer(above, -1), above)
        below = Choose(negative, multiply_by_integer(below, -1), below)
        low = min(low, -high)
    if low >= 0:
        return Divide(above, below)
    if isinstance(below, Constant) and below.value:
        return divide_by_integer(above, Numbers(low, max(high, 0)), below.value)
    # A multiple of the divisor that lifts the numerator above zero is added before and taken off after.
    return Add(Divide(Add(above, Multiply(Constant(-low), below)), below), Constant(low))


def floor_number(part: LoweredValue) -> LoweredValue:
    """Return FLOOR of a number."""
    part, domain = require_number(part, "The argument of FLOOR")
    above, below = domain.step.numerator, domain.step.denominator
    scaled = Numbers(domain.low * above, domain.high * above)
    if max(scaled.bound, above, below) > WIDEST:
        raise grid_too_fine("The argument of FLOOR")
    value = divide_by_integer(multiply_by_integer(part.value, above), scaled, below)
    return limit_magnitude(part.derive_value(value, Numbers(scaled.low // below, scaled.high // below)))


def ceil_number(part: LoweredValue) -> LoweredValue:
    """Return CEIL of a number."""
    return negate_number(floor_number(negate_number(part)))


def round_number(part: LoweredValue, digits: int) -> LoweredValue:
    """Return a number rounded to so many digits after the point, halves upwards."""
    power = literal_number(Fraction(10) ** digits)
    up = floor_number(add_numbers(multiply_numbers(part, power), literal_number(Fraction(1, 2))))
    return multiply_numbers(up, literal_number(1 / Fraction(10) ** digits))


def floor_divide_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return ⌊left / right⌋, which is exact, and missing where right is 0."""
    one, first = require_number(left, "One side of //")
    other, second = require_number(right, "One side of //")
    divisor = _constant_value(other)
    if divisor:
        return floor_number(scale_number(one, first, 1 / divisor))
    quotient = _quotient(one, first, other, second, first.step / second.step)
    nearest = max(1, second.low, -second.high)
    end = math.ceil(first.bound * first.step / (nearest * second.step))
    domain = Numbers(-end if first.low < 0 or second.low < 0 else 0, end)
    return one.derive_value(quotient, domain, other, total=second.low > 0 or second.high < 0)


def take_modulo(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left − right · ⌊left / right⌋, which lies between 0 and right."""
    (one, other), step = align_steps([left, right], "An operand of %")
    if MISSING in (one, other):
        return MISSING
    times_right = Multiply(floor_divide_numbers(one, other).value, other.value)
    rest = Add(one.value, Multiply(times_right, Constant(-1)))
    divisor = number_domain(other)
    most = max(divisor.bound - 1, 0)  # the rest has the sign of the divisor and is smaller than it
    domain = Numbers(-most if divisor.low < 0 else 0, most if divisor.high > 0 else 0, step)
    return one.derive_value(rest, domain, other, total=divisor.low > 0 or divisor.high < 0)


def take_smaller(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return the smaller of two numbers or dates, or the one that is not missing."""
    return _take_extreme(left, right, Least)


def take_larger(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return the larger of two numbers or dates, or the one that is not missing."""
    return _take_extreme(left, right, Greatest)


def _take_extreme(
    left: LoweredValue,
    right: LoweredValue,
    kind: type[Least | Greatest],
) -> LoweredValue:
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        one, other = align_periods(left, right)
        unit = require_periods(one).unit
        period = Periods(*_extreme_ends(one, other, kind), unit)
        return _passing_over(one, other, kind, period)
    (one, other), step = align_steps([left, right], "An argument of LEAST or GREATEST")
    return _passing_over(one, other, kind, Numbers(*_extreme_ends(one, other, kind), step))


def _extreme_ends(one: LoweredValue, other: LoweredValue, kind: type[Least | Greatest]) -> tuple[int, int]:
    """Return the bounds of an extreme: a value that may be passed over bounds it on one side only."""
    domains = [part.domain for part in (one, other) if isinstance(part.domain, Numbers | Periods)]
    low, high = min(each.low for each in domains), max(each.high for each in domains)
    never = [part.domain for part in (one, other) if part.present]
    ends = [each for each in never if isinstance(each, Numbers | Periods)]
    if kind is Least:
        return low, min((each.high for each in ends), default=high)
    return max((each.low for each in ends), default=low), high


def _passing_over(
    one: LoweredValue, other: LoweredValue, kind: type[Least | Greatest], domain: Numbers | Periods
) -> LoweredValue:
    """Return an extreme that is missing only where both sides are."""
    value = kind(one.value, other.value, skips=True)
    return LoweredValue(value, domain, one.constant and other.constant, one.present or other.present)
