"""Functions of dates and moments: their fields, what begins a period, and days later or earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import MONTHS, SECONDS, Numbers, Periods, start_of_period
from sfumato.curator.lower import arithmetic, lowered_value
from sfumato.curator.lower.lowered_value import LoweredValue, add_integer
from sfumato.engines.values import (
    Add,
    Calendar,
    Constant,
    Divide,
    Multiply,
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date


def _days(part: LoweredValue) -> tuple[Value, Periods]:
    """A date or moment as days since 1970."""
    domain = part.domain
    if isinstance(domain, Periods) and domain.unit == "day":
        return part.value, domain
    if isinstance(domain, Periods) and domain.unit in SECONDS:
        size = 86400 // SECONDS[domain.unit]
        value = _floored(part.value, domain.low, size)
        return value, Periods(domain.low // size, domain.high // size)
    raise PolicyError("SF-Q131", "A date or a moment is expected here.", try_="YEAR(day)")


def _floored(value: Value, low: int, size: int) -> Value:
    up = -(low // size) if low < 0 else 0
    return add_integer(Divide(add_integer(value, up * size), Constant(size)), -up)


def make_field_function(name: str, low: int, high: int) -> Callable[[LoweredValue], LoweredValue]:
    def of(part: LoweredValue) -> LoweredValue:
        days, domain = _days(part)
        years = [day.year for day in (date_of_day(domain.low), date_of_day(domain.high))]
        ends = (years[0], years[1]) if name == "year" else (low, high)
        return part.derive_value(Calendar(days, name), Numbers(*ends))

    return of


def extract_quarter(part: LoweredValue) -> LoweredValue:
    month = make_field_function("month", 1, 12)(part)
    return month.derive_value(Divide(Add(month.value, Constant(2)), Constant(3)), Numbers(1, 4))


def make_clock_function(unit: str, size: int) -> Callable[[LoweredValue], LoweredValue]:
    """Hours of the day, minutes of the hour, seconds of the minute."""

    def of(part: LoweredValue) -> LoweredValue:
        domain = part.domain
        if not isinstance(domain, Periods) or domain.unit != "second":
            raise PolicyError(
                "SF-Q131", f"{unit.upper()} is asked of moments.", try_=f"{unit.upper()}(seen_at)"
            )
        whole = _floored(part.value, domain.low, SECONDS[unit])
        up = -(domain.low // SECONDS[unit] // size) if domain.low < 0 else 0
        positive = add_integer(whole, up * size)
        rest = Add(positive, Multiply(Constant(-size), Divide(positive, Constant(size))))
        return part.derive_value(rest, Numbers(0, size - 1))

    return of


def truncate_date(part: LoweredValue, unit: str) -> LoweredValue:
    """The stretch of the calendar that a date or moment lies in."""
    domain = part.domain
    if isinstance(domain, Periods) and domain.unit == unit:
        return part
    if isinstance(domain, Periods) and domain.unit == "second" and unit in SECONDS:
        size = SECONDS[unit]
        return part.derive_value(
            _floored(part.value, domain.low, size), Periods(domain.low // size, domain.high // size, unit)
        )
    days, dates = _days(part)
    if unit == "day":
        return part.derive_value(days, dates)
    if unit == "week":
        value = _floored(add_integer(days, 3), dates.low + 3, 7)
        return part.derive_value(value, Periods((dates.low + 3) // 7, (dates.high + 3) // 7, unit))
    if unit in MONTHS:
        return part.derive_value(*_months(days, dates, unit))
    raise PolicyError(
        "SF-Q131", "This is not a stretch of the calendar.", try_="'day', 'week', 'month' or 'year'"
    )


def _months(days: Value, dates: Periods, unit: str) -> tuple[Value, Periods]:
    """Counted from the year 1, so that nothing negative is divided; then from 1970."""
    months = Add(Multiply(Calendar(days, "year"), Constant(12)), Add(Calendar(days, "month"), Constant(-1)))
    size = MONTHS[unit]
    value = add_integer(Divide(months, Constant(size)) if size > 1 else months, -1970 * 12 // size)
    ends = [_month(date_of_day(end)) // size for end in (dates.low, dates.high)]
    return value, Periods(ends[0], ends[1], unit)


def date_of_day(place: int) -> date:
    return start_of_period(place, "day")


def _month(day: date) -> int:
    return (day.year - 1970) * 12 + day.month - 1


def add_days(part: LoweredValue, more: LoweredValue) -> LoweredValue:
    domain = part.domain
    extra, by = lowered_value.require_number(more, "The number of days")
    if not isinstance(domain, Periods) or domain.unit != "day" or by.step.denominator != 1:
        raise PolicyError("SF-Q131", "Whole days are added to dates.", try_="day + 7")
    factor = int(by.step)
    ends = domain.low + by.low * factor, domain.high + by.high * factor
    if not -700_000 < ends[0] <= ends[1] < 2_900_000:
        raise PolicyError("SF-Q131", "This date lies outside the years 54 to 9900.", try_="fewer days")
    return part.derive_value(Add(part.value, Multiply(extra.value, Constant(factor))), Periods(*ends), more)


def subtract_days(part: LoweredValue, fewer: LoweredValue) -> LoweredValue:
    if isinstance(fewer.domain, Periods):
        return lowered_value.subtract_dates(part, fewer)
    return add_days(part, arithmetic.negate_number(fewer))
