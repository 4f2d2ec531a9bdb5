"""Interval arithmetic on lowered values: sums, products, quotients, rounding, minimum and maximum.

Numbers are exact integers of a step while SQL on decimals would be exact, up to 62 bits. From the first real
quotient or function on, and where integers would need more bits, they are doubles (reals.py).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.lower.lowered_value import (
    LARGEST,
    MISSING,
    LoweredValue,
    Real,
    add_integer,
    align_periods,
    align_steps,
    constant_number,
    divide_by_integer,
    multiply_by_integer,
    number_domain,
    require_number,
    require_periods,
    subtract_dates,
)
from sfumato.curator.lower.reals import (
    absolute_real,
    add_reals,
    align_reals,
    as_real,
    divide_reals,
    multiply_reals,
    negate_real,
    round_real,
    scale_real,
    settle_real,
    settle_whole,
    take_extreme,
)
from sfumato.engines.value_ranges import divide_towards_zero
from sfumato.engines.values import (
    Add,
    AtLeast,
    Choose,
    Constant,
    Divide,
    Greatest,
    Least,
    Multiply,
    Value,
)

_INTEGERS = 2.0**61
"""Whole doubles below this become integers again."""


def add_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left + right."""
    what = "One side of +"
    aligned = align_steps([left, right], what)
    if aligned is not None:
        (one, other), step = aligned
        first, second = number_domain(one), number_domain(other)
        domain = Numbers(first.low + second.low, first.high + second.high, step)
        if domain.bound <= LARGEST:
            # A constant is folded into what stands on the left, so that x + 1 + 1 and x + 2 are one program.
            constant = other.value.value if isinstance(other.value, Constant) else None
            value = Add(one.value, other.value) if constant is None else add_integer(one.value, constant)
            return one.derive_value(value, domain, other, error=one.error + other.error)
    return settle_real(add_reals(as_real(left, what), as_real(right, what)), left, right)


def negate_number(part: LoweredValue) -> LoweredValue:
    """Return a number with its sign changed."""
    if part.real is not None:
        return settle_real(negate_real(part.real), part)
    part, domain = require_number(part, "The operand of the minus sign")
    negated = Numbers(-domain.high, -domain.low, domain.step)
    return part.derive_value(multiply_by_integer(part.value, -1), negated, error=part.error)


def subtract_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left − right; for two dates, the time between them."""
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        return subtract_dates(left, right)
    return add_numbers(left, negate_number(right))


def multiply_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left · right; a constant factor changes only the step, so that no integer grows."""
    what = "One side of *"
    for part, factor in ((left, constant_number(right)), (right, constant_number(left))):
        if factor:  # zero would make the step zero; its product is computed like any other
            return scale_number(part, factor, what)
    if left.real is None and right.real is None:
        one, first = require_number(left, what)
        other, second = require_number(right, what)
        # A product over two intervals is largest and smallest at their corners.
        corners = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
        least = max(0, min(corners)) if one.value == other.value else min(corners)
        domain = Numbers(least, max(corners), first.step * second.step)
        if domain.bound <= LARGEST:
            ends = float(first.bound * first.step), float(second.bound * second.step)
            error = ends[0] * other.error + ends[1] * one.error + one.error * other.error
            same = one if one.value == other.value else other
            return one.derive_value(Multiply(one.value, same.value), domain, other, error=error)
    return settle_real(multiply_reals(as_real(left, what), as_real(right, what)), left, right)


def scale_number(part: LoweredValue, factor: Fraction, what: str) -> LoweredValue:
    """Return a number times a constant other than zero: unchanged integers on another step."""
    if part.real is not None:
        return settle_real(scale_real(part.real, factor), part)
    if factor < 0:
        return negate_number(scale_number(part, -factor, what))
    part, domain = require_number(part, what)
    scaled = replace(domain, step=domain.step * factor)
    return part.derive_value(part.value, scaled, error=part.error * float(factor))


def divide_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left / right: exact if right is a constant, else a double. It is missing where right is 0."""
    what = "One side of /"
    divisor = constant_number(right)
    if divisor:
        return scale_number(left, 1 / divisor, what)
    one, other = align_reals(left, right, what)
    return settle_real(divide_reals(one, other), left, right, total=other.nonzero)


def average_numbers(
    total: LoweredValue, there: LoweredValue, low: LoweredValue, high: LoweredValue
) -> LoweredValue:
    """Return a sum divided by its number of summands, all of which lie from low to high."""
    quotient = divide_reals(as_real(total, "A sum"), as_real(there, "A count"))
    ends = [float(number_domain(end).low * number_domain(end).step) for end in (low, high)]
    error = quotient.error + total.error
    found = replace(quotient, low=ends[0], high=ends[1], error=min(error, ends[1] - ends[0]))
    return settle_real(found, total, there, total=number_domain(there).low > 0)


# ---- rounding ----------------------------------------------------------------------------------------------


def floor_number(part: LoweredValue) -> LoweredValue:
    """Return FLOOR of a number."""
    if part.real is None:
        part, domain = require_number(part, "The argument of FLOOR")
        above, below = domain.step.numerator, domain.step.denominator
        scaled = Numbers(domain.low * above, domain.high * above)
        if max(scaled.bound, above, below) <= LARGEST:
            value = divide_by_integer(multiply_by_integer(part.value, above), scaled, below)
            return part.derive_value(value, Numbers(scaled.low // below, scaled.high // below))
    return _round_double(as_real(part, "The argument of FLOOR"), "floor", Fraction(1), part)


def ceil_number(part: LoweredValue) -> LoweredValue:
    """Return CEIL of a number."""
    return negate_number(floor_number(negate_number(part)))


def round_number(part: LoweredValue, digits: int) -> LoweredValue:
    """Return a number rounded to so many digits after the point, halves away from zero."""
    unit = 1 / Fraction(10) ** digits
    what = "The argument of ROUND"
    if part.real is None:
        part, domain = require_number(part, what)
        ratio = domain.step / unit
        # A half of the divisor is added before dividing, so that it is made even.
        double = 1 if ratio.denominator % 2 == 0 else 2
        above, below = double * ratio.numerator, double * ratio.denominator
        if (ratio.denominator == 1) and domain.bound * ratio.numerator <= LARGEST:
            return _on_unit(part, domain, ratio.numerator, unit)
        if max(domain.bound * above + below, above, below) <= LARGEST:
            return _round_integer(part, domain, (above, below), unit)
    return _round_double(scale_real(as_real(part, what), 1 / unit), "away", unit, part)


def _on_unit(part: LoweredValue, domain: Numbers, factor: int, unit: Fraction) -> LoweredValue:
    """Return a number that has no more digits already."""
    kept = Numbers(domain.low * factor, domain.high * factor, unit)
    return part.derive_value(multiply_by_integer(part.value, factor), kept)


def _round_integer(
    part: LoweredValue, domain: Numbers, ratio: tuple[int, int], unit: Fraction
) -> LoweredValue:
    """Return ratio · part rounded, where the ratio has a half of its divisor in it."""
    above, below = ratio
    doubled, half = multiply_by_integer(part.value, above), below // 2
    up, down = add_integer(doubled, half), add_integer(doubled, -half)
    moved: Value = up
    if domain.high < 0:
        moved = down
    elif domain.low < 0:
        moved = Choose(AtLeast(part.value, 0), up, down)
    ends = [
        divide_towards_zero(above * end + (half if end >= 0 else -half), below)
        for end in (domain.low, domain.high)
    ]
    return part.derive_value(Divide(moved, Constant(below)), Numbers(ends[0], ends[1], unit))


def _round_double(found: Real, rule: str, unit: Fraction, part: LoweredValue) -> LoweredValue:
    """Return a double as integers of this unit, or as a double if they could need more than 62 bits."""
    if found.bound < _INTEGERS:
        return settle_whole(found, rule, unit, part)
    return settle_real(scale_real(round_real(found, rule), unit), part)


def floor_divide_numbers(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left / right rounded towards zero, and missing where right is 0."""
    what = "One side of //"
    if left.real is None and right.real is None:
        one, first = require_number(left, what)
        other, second = require_number(right, what)
        ratio = first.step / second.step
        above, below = first.bound * ratio.numerator, second.bound * ratio.denominator
        if max(above, below) <= LARGEST:
            quotient = Divide(
                multiply_by_integer(one.value, ratio.numerator),
                multiply_by_integer(other.value, ratio.denominator),
            )
            nearest = max(1, second.low, -second.high) * ratio.denominator
            end = above // nearest
            domain = Numbers(-end if first.low < 0 or second.low < 0 else 0, end)
            nonzero = second.low > 0 or second.high < 0
            return one.derive_value(quotient, domain, other, total=nonzero)
    dividend, divisor = align_reals(left, right, what)
    found = _round_double(divide_reals(dividend, divisor), "zero", Fraction(1), left)
    return replace(found, present=left.present and right.present and divisor.nonzero)


def take_modulo(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return what the division leaves, with the sign of the dividend; missing where the divisor is 0."""
    aligned = align_steps([left, right], "An operand of %")
    if MISSING in (left, right):
        return MISSING
    if aligned is None:
        times = multiply_numbers(floor_divide_numbers(left, right), right)
        return subtract_numbers(left, times)
    (one, other), step = aligned
    times_right = Multiply(Divide(one.value, other.value), other.value)
    rest = Add(one.value, Multiply(times_right, Constant(-1)))
    dividend, divisor = number_domain(one), number_domain(other)
    most = max(min(divisor.bound - 1, dividend.bound), 0)
    domain = Numbers(-most if dividend.low < 0 else 0, most if dividend.high > 0 else 0, step)
    return one.derive_value(rest, domain, other, total=divisor.low > 0 or divisor.high < 0)


# ---- extremes ----------------------------------------------------------------------------------------------


def absolute_number(part: LoweredValue) -> LoweredValue:
    """Return ABS of a number."""
    if part.real is not None:
        return settle_real(absolute_real(part.real), part)
    part, domain = require_number(part, "The argument of ABS")
    if domain.low >= 0:
        return part
    # The larger of x and −x: interval arithmetic alone would not see that it is never negative.
    either = take_larger(part, negate_number(part))
    grid = number_domain(either)
    return either.with_value(either.value, replace(grid, low=max(0, grid.low)))


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
    what = "An argument of LEAST or GREATEST"
    aligned = align_steps([left, right], what)
    if aligned is None:
        ends = (left.present, right.present)
        extreme = take_extreme(as_real(left, what), as_real(right, what), kind, ends)
        listed = extreme.whole and extreme.bound < _INTEGERS
        found = (
            settle_whole(extreme, "even", Fraction(1), left, right)
            if listed
            else settle_real(extreme, left, right)
        )
        return replace(found, present=left.present or right.present)
    (one, other), step = aligned
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
    value, constant = kind(one.value, other.value, skips=True), one.constant and other.constant
    error = max(one.error, other.error)
    return LoweredValue(value, domain, constant, one.present or other.present, error=error)
