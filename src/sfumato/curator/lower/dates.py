"""Functions of dates and timestamps: their fields, truncation, and days added or subtracted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.catalog.calendar import MONTHS, SECONDS, start_of_period
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.lower import arithmetic, lowered_value
from sfumato.curator.lower.lowered_value import LoweredValue, add_integer
from sfumato.engines.values import (
    Add,
    AtMost,
    Calendar,
    Choose,
    Constant,
    Divide,
    Multiply,
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date


def _convert_to_days(part: LoweredValue) -> tuple[Value, Periods]:
    """Return a date, a timestamp or the start of a period as days since 1970."""
    domain = part.domain
    if not isinstance(domain, Periods):
        raise PolicyError("SF-Q110", "A date or a timestamp is expected here.", try_="YEAR(day)")
    if domain.unit not in SECONDS:
        part = lowered_value.convert_to_dates(part)
        return part.value, lowered_value.require_periods(part)
    size = 86400 // SECONDS[domain.unit]
    value = _floor_divide(part.value, domain.low, size)
    return value, Periods(domain.low // size, domain.high // size)


def _floor_divide(value: Value, low: int, size: int) -> Value:
    # Unlike `divide_by_integer` it also divides by 1: leaving that out would change programs, and so hashes.
    up = -(low // size) if low < 0 else 0
    return add_integer(Divide(add_integer(value, up * size), Constant(size)), -up)


def make_field_function(name: str, low: int, high: int) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function that takes a field of the calendar from a date: its year, month, day or weekday."""

    def extract_field(part: LoweredValue) -> LoweredValue:
        days, domain = _convert_to_days(part)
        years = [day.year for day in (date_of_day(domain.low), date_of_day(domain.high))]
        ends = (years[0], years[1]) if name == "year" else (low, high)
        return part.derive_value(Calendar(days, name), Numbers(*ends))

    return extract_field


def extract_quarter(part: LoweredValue) -> LoweredValue:
    """Return the quarter of a date, from 1 to 4."""
    month = make_field_function("month", 1, 12)(part)
    return month.derive_value(Divide(Add(month.value, Constant(2)), Constant(3)), Numbers(1, 4))


def make_clock_function(unit: str, size: int) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function that takes the hour, minute or second, one of `size`, from a timestamp."""

    def extract_clock(part: LoweredValue) -> LoweredValue:
        domain = part.domain
        if not isinstance(domain, Periods) or domain.unit != "second":
            raise PolicyError(
                "SF-Q110", f"{unit.upper()} needs a timestamp.", try_=f"{unit.upper()}(seen_at)"
            )
        whole = _floor_divide(part.value, domain.low, SECONDS[unit])
        up = -(domain.low // SECONDS[unit] // size) if domain.low < 0 else 0
        positive = add_integer(whole, up * size)
        rest = Add(positive, Multiply(Constant(-size), Divide(positive, Constant(size))))
        return part.derive_value(rest, Numbers(0, size - 1))

    return extract_clock


CLOCK = {"hour": 24, "minute": 60, "second": 60}
"""How many hours, minutes and seconds there are in the next larger unit."""


def extract_weekday_from_sunday(part: LoweredValue) -> LoweredValue:
    """Return DAYOFWEEK: 0 on Sundays to 6 on Saturdays."""
    days, domain = _convert_to_days(part)
    # 1970 began on a Thursday, four days after a Sunday.
    since = add_integer(days, 4)
    weeks = _floor_divide(since, domain.low + 4, 7)
    return part.derive_value(Add(since, Multiply(weeks, Constant(-7))), Numbers(0, 6))


def extract_day_of_year(part: LoweredValue) -> LoweredValue:
    """Return the number of a day in its year, from 1 to 366."""
    days, _ = _convert_to_days(part)
    return part.derive_value(_day_of_year(days), Numbers(1, 366))


def extract_week(part: LoweredValue) -> LoweredValue:
    """Return the number of the week in its year, from 1 to 53; its Thursday says which year that is."""
    days, domain = _convert_to_days(part)
    weeks = _floor_divide(add_integer(days, 3), domain.low + 3, 7)
    thursday = Add(Multiply(weeks, Constant(7)), Constant(0))
    return part.derive_value(Divide(add_integer(_day_of_year(thursday), 6), Constant(7)), Numbers(1, 53))


def _day_of_year(days: Value) -> Value:
    """Return days since the last day of the year before, which the calendar's rule for leap years counts."""
    before = add_integer(Calendar(days, "year"), -1)
    leap = Add(
        Add(Divide(before, Constant(4)), Multiply(Divide(before, Constant(100)), Constant(-1))),
        Divide(before, Constant(400)),
    )
    passed = Add(Multiply(before, Constant(365)), leap)
    # 719,162 days lie between the start of the year 1 and that of 1970.
    return Add(days, Add(Multiply(passed, Constant(-1)), Constant(719_162 + 1)))


def truncate_date(part: LoweredValue, unit: str) -> LoweredValue:
    """Return the period of the calendar that a date or timestamp lies in."""
    domain = part.domain
    if isinstance(domain, Periods) and domain.unit == unit:
        return part
    if isinstance(domain, Periods) and domain.unit == "second" and unit in SECONDS:
        size = SECONDS[unit]
        return part.derive_value(
            _floor_divide(part.value, domain.low, size),
            Periods(domain.low // size, domain.high // size, unit),
        )
    days, dates = _convert_to_days(part)
    if unit == "day":
        return part.derive_value(days, dates)
    if unit == "week":
        # 1970 began on a Thursday, three days after the Monday that starts its week.
        value = _floor_divide(add_integer(days, 3), dates.low + 3, 7)
        return part.derive_value(value, Periods((dates.low + 3) // 7, (dates.high + 3) // 7, unit))
    if unit in MONTHS:
        return part.derive_value(*_convert_to_months(days, dates, unit))
    raise PolicyError(
        "SF-Q110", f"A date cannot be truncated to the {unit}.", try_="'day', 'week', 'month' or 'year'"
    )


def _convert_to_months(days: Value, dates: Periods, unit: str) -> tuple[Value, Periods]:
    """Return periods of months since 1970, counted from the year 1 so that nothing negative is divided."""
    months = Add(Multiply(Calendar(days, "year"), Constant(12)), Add(Calendar(days, "month"), Constant(-1)))
    size = MONTHS[unit]
    value = add_integer(Divide(months, Constant(size)) if size > 1 else months, -1970 * 12 // size)
    ends = [_months_since_1970(date_of_day(end)) // size for end in (dates.low, dates.high)]
    return value, Periods(ends[0], ends[1], unit)


def count_weeks_between(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    """Return left − right in whole weeks, as DuckDB counts them."""
    days = lowered_value.subtract_dates(truncate_date(left, "day"), truncate_date(right, "day"))
    domain = lowered_value.number_domain(days)
    # Six days more make the division of negative days round towards zero.
    before = Choose(AtMost(days.value, -1), Constant(6), Constant(0))
    ends = (domain.low + 6 * (domain.low < 0)) // 7, (domain.high + 6 * (domain.high < 0)) // 7
    return days.derive_value(_floor_divide(Add(days.value, before), domain.low, 7), Numbers(*ends))


def date_of_day(place: int) -> date:
    """Return the date so many days after the start of 1970."""
    return start_of_period(place, "day")


def _months_since_1970(day: date) -> int:
    return (day.year - 1970) * 12 + day.month - 1


def add_days(part: LoweredValue, more: LoweredValue) -> LoweredValue:
    """Return a date so many days later."""
    domain = part.domain
    extra, by = lowered_value.require_number(more, "The number of days")
    if not isinstance(domain, Periods) or domain.unit != "day" or by.step.denominator != 1:
        raise PolicyError("SF-Q110", "Only whole days can be added to a date.", try_="day + 7")
    factor = int(by.step)
    ends = domain.low + by.low * factor, domain.high + by.high * factor
    # Python's calendar goes from the year 1 to 9999; some room is left for truncation at both ends.
    if not -700_000 < ends[0] <= ends[1] < 2_900_000:
        raise PolicyError("SF-Q110", "This date could lie outside the years 54 to 9900.", try_="fewer days")
    return part.derive_value(Add(part.value, Multiply(extra.value, Constant(factor))), Periods(*ends), more)


def subtract_days(part: LoweredValue, fewer: LoweredValue) -> LoweredValue:
    """Return a date so many days earlier; for two dates, the time between them."""
    if isinstance(fewer.domain, Periods):
        return lowered_value.subtract_dates(part, fewer)
    return add_days(part, arithmetic.negate_number(fewer))
