"""A value of a row as an engine computes it, with what it stands for; and arithmetic that keeps bounds.

Every integer lies within its domain's bounds and within ±2^62: where a product or a quotient would not, it is
put on a coarser grid, rounded down. So nothing an analyst can write overflows, and every sum has a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.columns import STEPS, exponent_of
from sfumato.curator.domains import Domain, Listed, Numbers, Periods
from sfumato.engines.values import (
    WIDEST,
    Add,
    AtMost,
    Choose,
    Constant,
    Divide,
    Greatest,
    Least,
    Lookup,
    Multiply,
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Lowered:
    value: Value
    domain: Domain
    constant: bool = False
    """Whether all rows of a unit have the same."""
    present: bool = False
    """Whether it is never missing."""

    def then(self, value: Value, domain: Domain, *others: Lowered, total: bool = True) -> Lowered:
        """Computed from this and others: constant if all are; present if all are, for a total function."""
        every = (self, *others)
        return Lowered(
            value,
            domain,
            all(each.constant for each in every),
            total and all(each.present for each in every),
        )


def literal_number(number: Fraction) -> Lowered:
    step = Fraction(1, number.denominator)
    return Lowered(Constant(number.numerator), Numbers(number.numerator, number.numerator, step), True, True)


MISSING = Lowered(Constant(None), Listed(()), True, False)
"""NULL, which fits any domain."""


# ---- numbers -----------------------------------------------------------------------------------------------


def number(part: Lowered, what: str) -> tuple[Lowered, Numbers]:
    """The value as a number; a listed number by a list of its integers, true and false as 1 and 0."""
    domain = part.domain
    if isinstance(domain, Numbers):
        return part, domain
    if isinstance(domain, Listed) and domain.values and not isinstance(domain.values[0], str):
        weights, step = _weights(domain)
        listed = Numbers(min(weights), max(weights), step)
        return part.then(Lookup(part.value, weights), listed), listed
    if part is MISSING:
        return part, Numbers(0, 0)
    raise PolicyError(
        "SF-Q114",
        f"{what} is not a number.",
        try_="a number, COUNT(*), or the difference of two dates",
    )


def _weights(domain: Listed) -> tuple[tuple[int, ...], Fraction]:
    """The listed numbers on their common grid, if it is not too fine, else on one like that of `between`."""
    numbers = [Fraction(value) for value in domain.values]  # type: ignore[arg-type]
    step = _common(numbers)
    if max(abs(each / step) for each in numbers) > 2**STEPS:
        step = Fraction(2) ** exponent_of(max(map(abs, numbers)))
    return tuple(math.floor(each / step + Fraction(1, 2)) for each in numbers), step


def _common(numbers: list[Fraction]) -> Fraction:
    common = Fraction(0)
    for each in numbers:
        common = _divisor(common, each)
    return common or Fraction(1)


def _divisor(one: Fraction, other: Fraction) -> Fraction:
    """The largest step that both are multiples of."""
    return Fraction(
        math.gcd(one.numerator * other.denominator, other.numerator * one.denominator),
        one.denominator * other.denominator,
    )


def aligned(parts: list[Lowered], what: str) -> tuple[list[Lowered], Fraction]:
    """The same numbers as integers of one step: exact, unless that would be too fine."""
    numbers = [number(part, what) for part in parts]
    known = [domain for part, domain in numbers if part is not MISSING]
    step = _common([domain.step for domain in known])
    largest = max((domain.bound * int(domain.step / step) for domain in known), default=0)
    bits = max(0, largest.bit_length() - 60)
    every = [part if part is MISSING else _on_step(part, domain, step, bits) for part, domain in numbers]
    return every, step * 2**bits


def _on_step(part: Lowered, domain: Numbers, step: Fraction, bits: int) -> Lowered:
    """As integers of `step`, then on a grid 2^bits times as coarse."""
    factor = int(domain.step / step)
    if max(1, domain.bound) * factor > WIDEST:
        raise too_fine("A sum or a comparison")
    scaled = Numbers(domain.low * factor, domain.high * factor, step)
    return coarser(replace(part, value=times(part.value, factor), domain=scaled), scaled, bits)


def kept(part: Lowered) -> Lowered:
    """The number itself if its integers are small enough, else on a coarser grid."""
    domain = part.domain
    if isinstance(domain, Numbers) and domain.bound > LARGEST // 2:
        return coarser(part, domain, domain.bound.bit_length() - 2 * STEPS)
    return part


def coarser(part: Lowered, domain: Numbers, bits: int) -> Lowered:
    """On a grid 2^bits times as coarse, rounded down."""
    if bits <= 0:
        return part
    low, high = domain.low >> bits, domain.high >> bits
    value = _floor(part.value, domain, 2**bits)
    return replace(part, value=value, domain=Numbers(low, high, domain.step * 2**bits))


def times(value: Value, factor: int) -> Value:
    if factor == 1:
        return value
    if isinstance(value, Constant):
        return Constant(None if value.value is None else value.value * factor)
    if isinstance(value, Lookup):
        return Lookup(value.part, tuple(None if each is None else each * factor for each in value.entries))
    return Multiply(value, Constant(factor))


def shifted(value: Value, by: int) -> Value:
    """The value plus an integer."""
    if by == 0:
        return value
    if isinstance(value, Constant):
        return Constant(None if value.value is None else value.value + by)
    if isinstance(value, Lookup):
        return Lookup(value.part, tuple(None if each is None else each + by for each in value.entries))
    if isinstance(value, Add) and isinstance(value.right, Constant) and value.right.value is not None:
        return shifted(value.left, value.right.value + by)
    return Add(value, Constant(by))


def _floor(value: Value, domain: Numbers, divisor: int) -> Value:
    """⌊value / divisor⌋, divisor positive. Engines round towards zero, so nothing negative is divided."""
    if divisor == 1:
        return value
    up = -(domain.low // divisor) if domain.low < 0 else 0
    return shifted(Divide(shifted(value, up * divisor), Constant(divisor)), -up)


# ---- arithmetic --------------------------------------------------------------------------------------------


def add(left: Lowered, right: Lowered) -> Lowered:
    (one, other), step = aligned([left, right], "One side of +")
    first, second = _numbers(one), _numbers(other)
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
        return part.value.value * _numbers(part).step
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
    sums, counts = _numbers(total), _numbers(there)
    ends = [_numbers(end).low * _numbers(end).step for end in (low, high)]
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
        return _floor(above, Numbers(low, max(high, 0)), below.value)
    return Add(Divide(Add(above, Multiply(Constant(-low), below)), below), Constant(low))


def floor(part: Lowered) -> Lowered:
    part, domain = number(part, "What FLOOR takes")
    above, below = domain.step.numerator, domain.step.denominator
    scaled = Numbers(domain.low * above, domain.high * above)
    if max(scaled.bound, above, below) > WIDEST:
        raise too_fine("What FLOOR takes")
    value = _floor(times(part.value, above), scaled, below)
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
    divisor = _numbers(other)
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
        first, second = _periods(one), _periods(other)
        period = Periods(end(first.low, second.low), end(first.high, second.high), first.unit)
        return one.then(kind(one.value, other.value), period, other)
    (one, other), step = aligned([left, right], "What LEAST and GREATEST take")
    low, high = _numbers(one), _numbers(other)
    domain = Numbers(end(low.low, high.low), end(low.high, high.high), step)
    return one.then(kind(one.value, other.value), domain, other)


# ---- dates -------------------------------------------------------------------------------------------------


def apart(left: Lowered, right: Lowered) -> Lowered:
    """How many days, or seconds where one side is a moment, left is after right."""
    one, other = same_periods(left, right)
    first, second = _periods(one), _periods(other)
    domain = Numbers(first.low - second.high, first.high - second.low)
    return one.then(Add(one.value, times(other.value, -1)), domain, other)


def same_periods(left: Lowered, right: Lowered) -> tuple[Lowered, Lowered]:
    """Both to the day, or both to the second."""
    units = _periods(left).unit, _periods(right).unit
    if units[0] == units[1]:
        return left, right
    if set(units) == {"day", "second"}:
        return seconds(left), seconds(right)
    raise PolicyError("SF-Q131", f"A {units[0]} and a {units[1]} cannot be compared.", try_="DATE_TRUNC both")


def seconds(part: Lowered) -> Lowered:
    domain = _periods(part)
    if domain.unit == "second":
        return part
    ends = domain.low * 86400, domain.high * 86400
    return part.then(times(part.value, 86400), Periods(*ends, "second"))


def too_fine(what: str) -> PolicyError:
    return PolicyError(
        "SF-Q132", f"{what} would need a grid that is too fine.", try_="ROUND one side, or a smaller range"
    )


def _numbers(part: Lowered) -> Numbers:
    return part.domain if isinstance(part.domain, Numbers) else Numbers(0, 0)


def _periods(part: Lowered) -> Periods:
    if not isinstance(part.domain, Periods):
        raise PolicyError("SF-Q131", "A date is expected here.", try_="DATE '2024-01-31'")
    return part.domain
