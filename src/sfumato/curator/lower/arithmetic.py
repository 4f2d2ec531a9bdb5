"""Arithmetic of lowered values that keeps bounds: sums, products, quotients, rounding, the smaller of two.

Every integer lies within its domain's bounds and within ±2^62: where a product or a quotient would not, it is
put on a coarser grid, rounded down. So nothing an analyst can write overflows, and every sum has a price.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import STEPS, exponent_of
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.lower.lowered import (
    LARGEST,
    MISSING,
    Lowered,
    aligned,
    apart,
    floored,
    kept,
    literal_number,
    number,
    numbers_of,
    periods_of,
    same_periods,
    shifted,
    times,
    too_fine,
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

if TYPE_CHECKING:
    from collections.abc import Callable


def add(left: Lowered, right: Lowered) -> Lowered:
    (one, other), step = aligned([left, right], "One side of +")
    first, second = numbers_of(one), numbers_of(other)
    domain = Numbers(first.low + second.low, first.high + second.high, step)
    if isinstance(other.value, Constant) and other.value.value is not None:
        return kept(one.then(shifted(one.value, other.value.value), domain, other))
    return kept(one.then(Add(one.value, other.value), domain, other))


def negate(part: Lowered) -> Lowered:
    part, domain = number(part, "What follows the minus sign")
    return part.then(times(part.value, -1), Numbers(-domain.high, -domain.low, domain.step))


def subtract(left: Lowered, right: Lowered) -> Lowered:
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        return apart(left, right)
    return add(left, negate(right))


def multiply(left: Lowered, right: Lowered) -> Lowered:
    one, first = number(left, "One side of *")
    other, second = number(right, "One side of *")
    for part, domain, factor in ((one, first, _typed(other)), (other, second, _typed(one))):
        if factor:
            return scaled(part, domain, factor)
    corners = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
    domain = Numbers(min(corners), max(corners), first.step * second.step)
    return kept(one.then(Multiply(one.value, other.value), domain, other))


def scaled(part: Lowered, domain: Numbers, factor: Fraction) -> Lowered:
    """Times a number that is not zero: the same integers, of another step."""
    if factor < 0:
        return negate(scaled(part, domain, -factor))
    return part.then(part.value, replace(domain, step=domain.step * factor))


def _typed(part: Lowered) -> Fraction | None:
    """The number that was typed in, if one was."""
    if isinstance(part.value, Constant) and part.value.value is not None:
        return part.value.value * numbers_of(part).step
    return None


def divide(left: Lowered, right: Lowered) -> Lowered:
    """left / right; exact if right was typed in, else rounded down on a grid chosen from the bounds.

    Missing where right is 0.
    """
    one, first = number(left, "One side of /")
    other, second = number(right, "One side of /")
    divisor = _typed(other)
    if divisor:
        return scaled(one, first, 1 / divisor)
    nearest = max(1, second.low, -second.high)
    magnitude = max(Fraction(1, 2**STEPS), first.bound * first.step / (nearest * second.step))
    step = Fraction(2) ** exponent_of(magnitude)
    ratio = first.step / (second.step * step)
    quotient = _quotient(one, first, other, second, ratio)
    end = math.ceil(magnitude / step)
    domain = Numbers(-end if first.low < 0 or second.low < 0 else 0, end, step)
    nonzero = second.low > 0 or second.high < 0
    return one.then(quotient, domain, other, total=nonzero)


def average(total: Lowered, there: Lowered, low: Lowered, high: Lowered) -> Lowered:
    """A sum by how many numbers it is of, rounded down; all of them, and so it, between two given."""
    sums, counts = numbers_of(total), numbers_of(there)
    ends = [numbers_of(end).low * numbers_of(end).step for end in (low, high)]
    step = Fraction(2) ** exponent_of(max(Fraction(1, 2**STEPS), *map(abs, ends)))
    quotient = _quotient(total, sums, there, counts, sums.step / step)
    domain = Numbers(math.floor(ends[0] / step), math.floor(ends[1] / step), step)
    return total.then(quotient, domain, there, total=counts.low > 0)


def _quotient(one: Lowered, first: Numbers, other: Lowered, second: Numbers, ratio: Fraction) -> Value:
    """⌊one · ratio / other⌋ with a numerator that is not negative and a divisor that is not negative."""
    above, below = times(one.value, ratio.numerator), times(other.value, ratio.denominator)
    low, high = first.low * ratio.numerator, first.high * ratio.numerator
    if max(abs(low), abs(high), second.bound * ratio.denominator) > LARGEST:
        raise too_fine("A quotient")
    if second.low < 0:
        negative = AtMost(other.value, -1)
        above = Choose(negative, times(above, -1), above)
        below = Choose(negative, times(below, -1), below)
        low = min(low, -high)
    if low >= 0:
        return Divide(above, below)
    if isinstance(below, Constant) and below.value:
        return floored(above, Numbers(low, max(high, 0)), below.value)
    return Add(Divide(Add(above, Multiply(Constant(-low), below)), below), Constant(low))


def floor(part: Lowered) -> Lowered:
    part, domain = number(part, "What FLOOR takes")
    above, below = domain.step.numerator, domain.step.denominator
    scaled = Numbers(domain.low * above, domain.high * above)
    if max(scaled.bound, above, below) > WIDEST:
        raise too_fine("What FLOOR takes")
    value = floored(times(part.value, above), scaled, below)
    return kept(part.then(value, Numbers(scaled.low // below, scaled.high // below)))


def ceiling(part: Lowered) -> Lowered:
    return negate(floor(negate(part)))


def rounded(part: Lowered, digits: int) -> Lowered:
    """To so many digits after the point, halves upwards."""
    power = literal_number(Fraction(10) ** digits)
    up = floor(add(multiply(part, power), literal_number(Fraction(1, 2))))
    return multiply(up, literal_number(1 / Fraction(10) ** digits))


def floor_divide(left: Lowered, right: Lowered) -> Lowered:
    """The whole part of left / right, rounded down; exact, and missing where right is 0."""
    one, first = number(left, "One side of //")
    other, second = number(right, "One side of //")
    divisor = _typed(other)
    if divisor:
        return floor(scaled(one, first, 1 / divisor))
    quotient = _quotient(one, first, other, second, first.step / second.step)
    nearest = max(1, second.low, -second.high)
    end = math.ceil(first.bound * first.step / (nearest * second.step))
    domain = Numbers(-end if first.low < 0 or second.low < 0 else 0, end)
    return one.then(quotient, domain, other, total=second.low > 0 or second.high < 0)


def modulo(left: Lowered, right: Lowered) -> Lowered:
    """left less the largest whole multiple of right that is not above it; from 0 to right, without right."""
    (one, other), step = aligned([left, right], "What MOD takes")
    if MISSING in (one, other):
        return MISSING
    times_right = Multiply(floor_divide(one, other).value, other.value)
    rest = Add(one.value, Multiply(times_right, Constant(-1)))
    divisor = numbers_of(other)
    most = max(divisor.bound - 1, 0)
    domain = Numbers(-most if divisor.low < 0 else 0, most if divisor.high > 0 else 0, step)
    return one.then(rest, domain, other, total=divisor.low > 0 or divisor.high < 0)


def clipped(part: Lowered, domain: Numbers, low: int, high: int) -> Lowered:
    """Kept between two integers of its own step."""
    value = part.value
    if domain.low < low:
        value = Greatest(value, Constant(low))
    if domain.high > high:
        value = Least(value, Constant(high))
    ends = min(max(domain.low, low), high), max(min(domain.high, high), low)
    return part.then(value, Numbers(*ends, domain.step))


def smaller(left: Lowered, right: Lowered) -> Lowered:
    return _one_of(left, right, Least, min)


def larger(left: Lowered, right: Lowered) -> Lowered:
    return _one_of(left, right, Greatest, max)


def _one_of(
    left: Lowered,
    right: Lowered,
    kind: Callable[[Value, Value], Least | Greatest],
    end: Callable[[int, int], int],
) -> Lowered:
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        one, other = same_periods(left, right)
        first, second = periods_of(one), periods_of(other)
        period = Periods(end(first.low, second.low), end(first.high, second.high), first.unit)
        return one.then(kind(one.value, other.value), period, other)
    (one, other), step = aligned([left, right], "What LEAST and GREATEST take")
    low, high = numbers_of(one), numbers_of(other)
    domain = Numbers(end(low.low, high.low), end(low.high, high.high), step)
    return one.then(kind(one.value, other.value), domain, other)
