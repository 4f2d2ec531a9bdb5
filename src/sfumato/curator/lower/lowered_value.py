"""A value of a row as an engine computes it, with the domain its integers stand for, and steps put alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.curator.catalog.calendar import SECONDS, count_whole_periods, start_of_period
from sfumato.curator.catalog.columns import STEPS, choose_exponent
from sfumato.curator.catalog.domains import Domain, Listed, Numbers, Periods
from sfumato.engines.values import (
    Add,
    AtLeast,
    Choose,
    Constant,
    Divide,
    Lookup,
    Multiply,
    Value,
)
from sfumato.errors import PolicyError

MOST_PERIODS = 2**13
"""Most weeks, months, quarters or years whose first days are listed in a program."""
LARGEST = 2**62
"""The largest magnitude of an integer that arithmetic keeps; beyond it numbers are doubles."""


@dataclass(frozen=True, slots=True)
class Real:
    """A double that an engine computes from a row, and what is known of it before any row is read."""

    value: Value
    low: float
    high: float
    quantum: int
    """A value other than 0 is at least 2^quantum away from it."""
    error: float = 0.0
    """How far rounding takes it from the exact number, at most."""
    relative: float = 0.0
    """The same, relative to the number; infinite where that is not known."""
    whole: bool = False
    """Whether it is a whole number."""
    unsigned: bool = False
    """Whether it is not negative by the signs of what it is computed from, whatever is rounded."""

    @property
    def bound(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def nearest(self) -> float:
        """How near to 0 a value other than 0 can be."""
        outside = max(self.low, -self.high)
        return outside if outside > 0 else 2.0**self.quantum

    @property
    def nonzero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class LoweredValue:
    """An integer that an engine computes from a row, and the domain that says what it stands for."""

    value: Value
    domain: Domain
    constant: bool = False
    """Whether all rows of a unit have one value."""
    present: bool = False
    """Whether it is never missing."""
    real: Real | None = None
    """The double that the integer is made from, if it is one: what is computed from it takes the double."""
    error: float = 0.0
    """How far the number lies from the exact one at most, for all that was rounded before."""

    def derive_value(
        self, value: Value, domain: Domain, *others: LoweredValue, total: bool = True, error: float = 0.0
    ) -> LoweredValue:
        """Return a value computed from this and others: constant if all are, and present if all are.

        Where the function is not `total`, the result may be missing for arguments that are present.
        """
        every = (self, *others)
        return LoweredValue(
            value,
            domain,
            all(each.constant for each in every),
            total and all(each.present for each in every),
            error=error,
        )

    def with_value(self, value: Value, domain: Domain | None = None, *, error: float = 0.0) -> LoweredValue:
        """Return another integer that stands for the same, with so much added to its error."""
        return replace(self, value=value, domain=domain or self.domain, real=None, error=self.error + error)


def literal_number(number: Fraction) -> LoweredValue:
    """Return a constant on the step that makes it an integer."""
    step = Fraction(1, number.denominator)
    return LoweredValue(
        Constant(number.numerator), Numbers(number.numerator, number.numerator, step), True, True
    )


MISSING = LoweredValue(Constant(None), Listed(()), True, False)
"""NULL, which fits any domain."""


# ---- numbers -----------------------------------------------------------------------------------------------


def require_number(part: LoweredValue, what: str) -> tuple[LoweredValue, Numbers]:
    """Return the value as a number and its domain: listed numbers by a lookup, true and false as 1 and 0."""
    domain = part.domain
    if isinstance(domain, Numbers):
        return part, domain
    if isinstance(domain, Listed) and domain.values and not isinstance(domain.values[0], str):
        weights, step, lost = _listed_integers(domain)
        listed = Numbers(min(weights), max(weights), step)
        return part.derive_value(Lookup(part.value, weights), listed, error=lost), listed
    if part is MISSING:  # NULL has no domain of its own and is a number wherever one is wanted
        return part, Numbers(0, 0)
    raise PolicyError(
        "SF-Q110",
        f"{what} is not a number.",
        try_="a number, COUNT(*), or the difference of two dates",
    )


def _listed_integers(domain: Listed) -> tuple[tuple[int, ...], Fraction, float]:
    """Return the listed numbers as integers of a step, and how far rounding takes them.

    The step is their common one, by which nothing is rounded, unless an integer would need more than 62 bits.
    """
    numbers = [Fraction(value) for value in domain.values]  # type: ignore[arg-type]
    largest = max(map(abs, numbers))
    step = common = _common_step(numbers)
    if largest / step > LARGEST:
        step = Fraction(2) ** (choose_exponent(largest) + STEPS - LARGEST.bit_length() + 1)
    lost = 0.0 if step == common else float(step / 2)
    return tuple(math.floor(each / step + Fraction(1, 2)) for each in numbers), step, lost


def _common_step(numbers: list[Fraction]) -> Fraction:
    common = Fraction(0)
    for each in numbers:
        common = _common_divisor(common, each)
    return common or Fraction(1)


def _common_divisor(one: Fraction, other: Fraction) -> Fraction:
    """Return the largest step that both are multiples of."""
    return Fraction(
        math.gcd(one.numerator * other.denominator, other.numerator * one.denominator),
        one.denominator * other.denominator,
    )


def constant_number(part: LoweredValue) -> Fraction | None:
    """Return the number if it is a constant."""
    if isinstance(part.value, Constant) and part.value.value is not None and isinstance(part.domain, Numbers):
        return part.value.value * part.domain.step
    return None


def align_steps(parts: list[LoweredValue], what: str) -> tuple[list[LoweredValue], Fraction] | None:
    """Return the numbers as integers of one step; None where one is a double or would need too many bits."""
    if any(part.real is not None for part in parts):
        return None
    numbers = [require_number(part, what) for part in parts]
    known = [domain for part, domain in numbers if part is not MISSING]
    step = _common_step([domain.step for domain in known])
    if any(domain.bound * int(domain.step / step) > LARGEST for domain in known):
        return None
    return [part if part is MISSING else _on_step(part, domain, step) for part, domain in numbers], step


def _on_step(part: LoweredValue, domain: Numbers, step: Fraction) -> LoweredValue:
    factor = int(domain.step / step)
    scaled = Numbers(domain.low * factor, domain.high * factor, step)
    return part.with_value(multiply_by_integer(part.value, factor), scaled)


def coarsen_grid(part: LoweredValue, domain: Numbers, bits: int) -> LoweredValue:
    """Return a number on a grid 2^bits times as coarse, rounded down."""
    return _coarsen(part, domain, 2**bits) if bits > 0 else part


def limit_places(part: LoweredValue, domain: Numbers, most: int) -> LoweredValue:
    """Return a number rounded down to 1, 2 or 5 times a power of ten steps, so that decimals are shown."""
    factors = (digit * 10**power for power in range(200) for digit in (1, 2, 5))
    return _coarsen(part, domain, next(each for each in factors if domain.size <= most * each))


def _coarsen(part: LoweredValue, domain: Numbers, factor: int) -> LoweredValue:
    low, high = domain.low // factor, domain.high // factor  # like the value, rounded down
    coarse = Numbers(low, high, domain.step * factor)
    value = divide_by_integer(part.value, domain, factor)
    return part.with_value(value, coarse, error=float(coarse.step))


def round_to_grid(part: LoweredValue, domain: Numbers, bits: int) -> LoweredValue:
    """Return a number on a grid 2^bits times as coarse, the nearest point of it."""
    if bits <= 0:
        return part
    half = 2 ** (bits - 1)
    moved = Numbers(domain.low + half, domain.high + half, domain.step)
    coarse = Numbers(moved.low >> bits, moved.high >> bits, domain.step * 2**bits)
    value = divide_by_integer(add_integer(part.value, half), moved, 2**bits)
    return part.with_value(value, coarse, error=float(coarse.step / 2))


def multiply_by_integer(value: Value, factor: int) -> Value:
    """Return a value times an integer; constants and lookups are multiplied here, not by the engine."""
    if factor == 1:
        return value
    if isinstance(value, Constant):
        return Constant(None if value.value is None else value.value * factor)
    if isinstance(value, Lookup):
        return Lookup(value.part, tuple(None if each is None else each * factor for each in value.entries))
    return Multiply(value, Constant(factor))


def add_integer(value: Value, by: int) -> Value:
    """Return a value plus an integer; constants and lookups are added here, not by the engine."""
    if by == 0:
        return value
    if isinstance(value, Constant):
        return Constant(None if value.value is None else value.value + by)
    if isinstance(value, Lookup):
        return Lookup(value.part, tuple(None if each is None else each + by for each in value.entries))
    # Sums with constants are merged, so that equal values are written in one way.
    if isinstance(value, Add) and isinstance(value.right, Constant) and value.right.value is not None:
        return add_integer(value.left, value.right.value + by)
    return Add(value, Constant(by))


def divide_by_integer(value: Value, domain: Numbers, divisor: int) -> Value:
    """Return ⌊value / divisor⌋ for a positive divisor; lookups are divided here, not by the engine.

    Engines round towards zero, so a multiple of the divisor is added first and nothing negative is divided.
    """
    if divisor == 1:
        return value
    if isinstance(value, Lookup):
        return Lookup(value.part, tuple(None if each is None else each // divisor for each in value.entries))
    up = -(domain.low // divisor) if domain.low < 0 else 0
    if up and domain.bound + up * divisor >= LARGEST:
        # 64 bits do not hold the multiple too, and how long division takes in more depends on the number.
        below_zero = add_integer(Divide(add_integer(value, 1), Constant(divisor)), -1)
        return Choose(AtLeast(value, 0), Divide(value, Constant(divisor)), below_zero)
    return add_integer(Divide(add_integer(value, up * divisor), Constant(divisor)), -up)


# ---- dates -------------------------------------------------------------------------------------------------


def subtract_dates(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left − right in days, or in seconds where one side is a timestamp."""
    one, other = align_periods(left, right)
    first, second = require_periods(one), require_periods(other)
    domain = Numbers(first.low - second.high, first.high - second.low)
    return one.derive_value(Add(one.value, multiply_by_integer(other.value, -1)), domain, other)


def align_periods(left: LoweredValue, right: LoweredValue) -> tuple[LoweredValue, LoweredValue]:
    """Return two dates in one unit: the same period, days, or seconds."""
    if require_periods(left).unit == require_periods(right).unit:
        return left, right
    one, other = convert_to_dates(left), convert_to_dates(right)
    if require_periods(one).unit == require_periods(other).unit:
        return one, other
    return convert_to_seconds(one), convert_to_seconds(other)


def convert_to_dates(part: LoweredValue) -> LoweredValue:
    """Return a period of the calendar, such as a month, as the date or timestamp that it starts with."""
    domain = require_periods(part)
    if domain.unit in ("day", "second"):
        return part
    if domain.unit in SECONDS:
        size = SECONDS[domain.unit]
        ends = domain.low * size, domain.high * size
        return part.derive_value(multiply_by_integer(part.value, size), Periods(*ends, "second"))
    if domain.size > MOST_PERIODS:
        raise PolicyError(
            "SF-Q110",
            f"A {domain.unit} and another date cannot be compared over so many years.",
            try_="DATE_TRUNC both sides to one unit",
        )
    places = range(domain.low, domain.high + 1)
    days = tuple(count_whole_periods(start_of_period(place, domain.unit), "day") for place in places)
    return part.derive_value(Lookup(add_integer(part.value, -domain.low), days), Periods(days[0], days[-1]))


def convert_to_seconds(part: LoweredValue) -> LoweredValue:
    """Return a date as the timestamp at its start."""
    domain = require_periods(part)
    if domain.unit == "second":
        return part
    ends = domain.low * 86400, domain.high * 86400
    return part.derive_value(multiply_by_integer(part.value, 86400), Periods(*ends, "second"))


def grid_too_fine(what: str) -> PolicyError:
    """Return the refusal of a computation whose integers no engine could hold."""
    return PolicyError(
        "SF-Q158", f"{what} would need more than 128 bits.", try_="ROUND one side, or a smaller range"
    )


def number_domain(part: LoweredValue) -> Numbers:
    """Return the bounds of a number; NULL stands for any number and counts as 0."""
    return part.domain if isinstance(part.domain, Numbers) else Numbers(0, 0)


def require_periods(part: LoweredValue) -> Periods:
    """Return the domain of a date or timestamp; refuse anything else."""
    if not isinstance(part.domain, Periods):
        raise PolicyError("SF-Q110", "A date is expected here.", try_="DATE '2024-01-31'")
    return part.domain


# ---- constants that decide the shape of a computation, which no row may -----------------------------------


def require_typed_integer(part: LoweredValue, what: str, allowed: range) -> int:
    """Return an argument that is a constant whole number within a range."""
    domain = part.domain
    if (
        isinstance(part.value, Constant)
        and isinstance(domain, Numbers)
        and domain.step == 1
        and domain.low in allowed
    ):
        return domain.low
    raise PolicyError(
        "SF-Q105", f"{what} must be a constant whole number.", allowed=f"{allowed[0]} to {allowed[-1]}"
    )


def require_typed_text(part: LoweredValue) -> str:
    """Return an argument that is a constant text."""
    if (
        isinstance(part.value, Constant)
        and isinstance(part.domain, Listed)
        and part.domain.values
        and isinstance(part.domain.values[0], str)
    ):
        return part.domain.values[0]
    raise PolicyError("SF-Q105", "A constant text is expected here.", try_="CONTAINS(note, 'pain')")
