"""What the integer of a column or an expression stands for, and between which bounds it lies.

A domain follows from declarations and from the question, never from data. It is what makes a bound: a sum is
priced by its domain, a key has a cell for each value of its domain, and a redefined column has a new one.
"""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeGuard

from sfumato.privacy.canonical import tagged

EPOCH = date(1970, 1, 1)
ORIGIN = datetime(1970, 1, 1)  # noqa: DTZ001  moments are kept in UTC, without saying so

Scalar = str | bool | Fraction | date | datetime
"""A literal or a listed value, numbers exact."""


@tagged("Numbers", "low", "high", "step", "rounded")
@dataclass(frozen=True, slots=True)
class Numbers:
    """The number integer · step, for an integer from low to high."""

    low: int
    high: int
    step: Fraction = Fraction(1)
    rounded: bool = False
    """Whether values were put on this grid, so that a literal is put on it too before it is compared."""

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def bound(self) -> int:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def whole(self) -> bool:
        """Whether people see whole numbers: others, and those beyond 64 bits, are shown as doubles."""
        return self.step.denominator == 1 and self.bound * self.step < 2**62

    @property
    def known(self) -> bool:
        """Whether its integers say which values there are: not where the step was chosen for them."""
        return not self.rounded or self.step == 1

    def value_at(self, place: int) -> Fraction:
        return place * self.step

    def show_value(self, place: int) -> Any:
        return int(self.value_at(place)) if self.whole else float(self.value_at(place))

    def show_values(self) -> list[Any]:
        return [self.show_value(place) for place in range(self.low, self.high + 1)]


@tagged("Listed", "values")
@dataclass(frozen=True, slots=True)
class Listed:
    """The value at a place, from 0, of a public list."""

    values: tuple[Scalar, ...]

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return len(self.values) - 1

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def known(self) -> bool:
        return True

    def value_at(self, place: int) -> Scalar:
        return self.values[place]

    def show_value(self, place: int) -> Any:
        return self.show_values()[place]

    @property
    def numbers(self) -> tuple[Fraction, ...]:
        """The list as numbers; empty when it is one of texts or booleans."""
        return tuple(value for value in self.values if type(value) is Fraction)

    def show_values(self) -> list[Any]:
        """As people see them, all of one type that the list fixes."""
        numbers = self.numbers
        if not numbers:
            return list(self.values)
        kind = int if all(number.denominator == 1 for number in numbers) else float
        return [kind(number) for number in numbers]


TRUTH = Listed((False, True))

SECONDS = {"second": 1, "minute": 60, "hour": 3600}
MONTHS = {"month": 1, "quarter": 3, "year": 12}


@tagged("Periods", "low", "high", "unit")
@dataclass(frozen=True, slots=True)
class Periods:
    """A stretch of the calendar: how many whole ones lie between the start of 1970 and it, in UTC.

    Weeks begin on Mondays, so that week 0 began in 1969.
    """

    low: int
    high: int
    unit: str = "day"
    """second, minute, hour, day, week, month, quarter or year"""

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def known(self) -> bool:
        return True

    def value_at(self, place: int) -> date:
        return start_of_period(place, self.unit)

    show_value = value_at

    def show_values(self) -> list[Any]:
        return [self.value_at(place) for place in range(self.low, self.high + 1)]


@tagged("Texts")
@dataclass(frozen=True, slots=True)
class FreeTexts:
    """Any text. It can be counted, tested and bought as a key; it is never shown otherwise."""


Domain = Numbers | Listed | Periods | FreeTexts

MOST_CELLS = 1_000_000


def countable(domain: Domain) -> TypeGuard[Numbers | Listed | Periods]:
    """Whether every value is known beforehand, and there are not too many for a cell each."""
    return not isinstance(domain, FreeTexts) and domain.known and domain.size <= MOST_CELLS


# ---- the calendar ------------------------------------------------------------------------------------------


def start_of_period(place: int, unit: str) -> date | datetime:
    """When a stretch of the calendar begins."""
    if unit in SECONDS:
        return ORIGIN + timedelta(seconds=place * SECONDS[unit])
    if unit in MONTHS:
        months = place * MONTHS[unit]
        return date(1970 + months // 12, months % 12 + 1, 1)
    return EPOCH + timedelta(days=place * 7 - 3 if unit == "week" else place)


def count_periods(moment: date, unit: str) -> Fraction:
    """How many stretches after the start of 1970 a moment lies, exactly."""
    whole = _whole(moment, unit)
    return whole + (_seconds(moment) - _seconds(start_of_period(whole, unit))) / _length(whole, unit)


def _length(place: int, unit: str) -> int:
    """Of a stretch, in seconds; the next one may begin after the last date there is."""
    if unit in SECONDS:
        return SECONDS[unit]
    if unit in MONTHS:
        months = range(place * MONTHS[unit], (place + 1) * MONTHS[unit])
        return 86400 * sum(monthrange(1970 + month // 12, month % 12 + 1)[1] for month in months)
    return 86400 * (7 if unit == "week" else 1)


def _whole(moment: date, unit: str) -> int:
    if unit in SECONDS:
        return math.floor(_seconds(moment) / SECONDS[unit])
    if unit in MONTHS:
        return ((moment.year - 1970) * 12 + moment.month - 1) // MONTHS[unit]
    days = (date(moment.year, moment.month, moment.day) - EPOCH).days
    return (days + 3) // 7 if unit == "week" else days


def _seconds(moment: date) -> Fraction:
    """Since the start of 1970, in UTC."""
    if not isinstance(moment, datetime):
        return Fraction((moment - EPOCH).days * 86400)
    naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return Fraction((naive - ORIGIN) // timedelta(microseconds=1), 10**6)
