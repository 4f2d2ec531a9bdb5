"""Domains: what the integer of a column or an expression stands for, and between which bounds it lies.

A domain follows from declarations and from the question, never from data. It is what makes a bound: a sum is
priced by its domain, a key has a cell for each value of its domain, and a redefined column has a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import TypeGuard

from sfumato.curator.catalog.calendar import UNITS, start_of_period
from sfumato.errors.checked import checked, require_field
from sfumato.privacy.canonical import tagged

Scalar = str | bool | Fraction | date | datetime
"""A literal or a listed value, numbers exact."""

Shown = str | bool | int | float | date
"""A value as people see it."""


@tagged("Numbers", "low", "high", "step", "rounded")
@dataclass(frozen=True, slots=True)
@checked
class Numbers:
    """The number integer · step, for an integer from low to high."""

    low: int
    high: int
    step: Fraction = Fraction(1)
    rounded: bool = False
    """Whether values were rounded to this grid, because no step was declared."""

    def __post_init__(self) -> None:
        require_field(self.low <= self.high, self, "high", "low or more")
        require_field(self.step > 0, self, "step", "above 0")

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def bound(self) -> int:
        """The largest magnitude of its integers."""
        return max(abs(self.low), abs(self.high))

    @property
    def whole(self) -> bool:
        """Whether people see whole numbers: others, and those beyond 64 bits, are shown as doubles."""
        return self.step.denominator == 1 and self.bound * self.step < 2**62

    @property
    def known(self) -> bool:
        """Whether every value is known beforehand; not where sfumato chose the step."""
        return not self.rounded or self.step == 1

    def value_at(self, place: int) -> Fraction:
        """Return the exact number that an integer stands for."""
        return place * self.step

    def show_value(self, place: int) -> int | float:
        """Return the number of an integer as people see it."""
        return int(self.value_at(place)) if self.whole else float(self.value_at(place))

    def show_values(self) -> list[int | float]:
        """Return every number as people see it."""
        return [self.show_value(place) for place in range(self.low, self.high + 1)]


@tagged("Listed", "values")
@dataclass(frozen=True, slots=True)
@checked
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
        """Return the listed value at a place."""
        return self.values[place]

    def show_value(self, place: int) -> Shown:
        """Return the listed value at a place as people see it."""
        return self.show_values()[place]

    @property
    def numbers(self) -> tuple[Fraction, ...]:
        """The listed numbers; empty where texts or booleans are listed."""
        return tuple(value for value in self.values if type(value) is Fraction)

    def show_values(self) -> list[Shown]:
        """Return the listed values as people see them, all of one type."""
        numbers = self.numbers
        if not numbers:
            return [value for value in self.values if not isinstance(value, Fraction)]
        kind = int if all(number.denominator == 1 for number in numbers) else float
        return [kind(number) for number in numbers]


TRUTH = Listed((False, True))


@tagged("Periods", "low", "high", "unit")
@dataclass(frozen=True, slots=True)
@checked
class Periods:
    """A period of the calendar, by how many whole ones lie between the start of 1970 and it, in UTC.

    Weeks begin on Mondays, so that week 0 began in 1969.
    """

    low: int
    high: int
    unit: str = "day"
    """second, minute, hour, day, week, month, quarter or year"""

    def __post_init__(self) -> None:
        require_field(self.low <= self.high, self, "high", "low or more")
        require_field(self.unit in UNITS, self, "unit", ", ".join(UNITS))

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def known(self) -> bool:
        return True

    def value_at(self, place: int) -> date:
        """Return when the period starts."""
        return start_of_period(place, self.unit)

    show_value = value_at

    def show_values(self) -> list[date]:
        """Return the start of every period."""
        return [self.value_at(place) for place in range(self.low, self.high + 1)]


@tagged("Texts")
@dataclass(frozen=True, slots=True)
@checked
class FreeTexts:
    """Any text. It can be counted, tested and discovered as a key; it is never shown otherwise."""


Domain = Numbers | Listed | Periods | FreeTexts

MOST_CELLS = 1_000_000
"""Limit on the groups of one question, so that they fit in memory; no promise of privacy rests on it."""


def is_countable(domain: Domain) -> TypeGuard[Numbers | Listed | Periods]:
    """Return whether every value is known beforehand and there are few enough to have a cell each."""
    return not isinstance(domain, FreeTexts) and domain.known and domain.size <= MOST_CELLS
