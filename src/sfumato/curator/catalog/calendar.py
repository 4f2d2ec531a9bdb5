"""The calendar in whole periods since 1970, and the reading of dates."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

EPOCH = date(1970, 1, 1)
ORIGIN = datetime(1970, 1, 1)  # noqa: DTZ001  timestamps are kept in UTC, without saying so

SECONDS = {"second": 1, "minute": 60, "hour": 3600}
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def parse_moment(text: str) -> date | None:
    """Return the date or timestamp that a text writes, or None."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text)
        if re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", text, re.ASCII):
            return datetime.fromisoformat(text)
    except ValueError:
        return None
    return None


def start_of_period(place: int, unit: str) -> date | datetime:
    """Return when a period starts; `place` counts periods from the start of 1970."""
    if unit in SECONDS:
        return ORIGIN + timedelta(seconds=place * SECONDS[unit])
    if unit in MONTHS:
        months = place * MONTHS[unit]
        return date(1970 + months // 12, months % 12 + 1, 1)
    # Weeks start on Mondays; 1970 began on a Thursday, three days into week 0.
    return EPOCH + timedelta(days=place * 7 - 3 if unit == "week" else place)


def count_periods(moment: date, unit: str) -> Fraction:
    """Return exactly how many periods lie between the start of 1970 and a moment."""
    whole = count_whole_periods(moment, unit)
    return whole + (
        _seconds_since_origin(moment) - _seconds_since_origin(start_of_period(whole, unit))
    ) / _period_length(whole, unit)


def _period_length(place: int, unit: str) -> int:
    """Return the length of a period in seconds, also of the one that ends after the last date there is."""
    if unit in SECONDS:
        return SECONDS[unit]
    if unit in MONTHS:
        months = range(place * MONTHS[unit], (place + 1) * MONTHS[unit])
        return 86400 * sum(monthrange(1970 + month // 12, month % 12 + 1)[1] for month in months)
    return 86400 * (7 if unit == "week" else 1)


def count_whole_periods(moment: date, unit: str) -> int:
    """Return the place of the period that a moment lies in, counted from the start of 1970."""
    if unit in SECONDS:
        return math.floor(_seconds_since_origin(moment) / SECONDS[unit])
    if unit in MONTHS:
        return ((moment.year - 1970) * 12 + moment.month - 1) // MONTHS[unit]
    days = (date(moment.year, moment.month, moment.day) - EPOCH).days
    return (days + 3) // 7 if unit == "week" else days


def _seconds_since_origin(moment: date) -> Fraction:
    """Return the seconds since the start of 1970, in UTC."""
    if not isinstance(moment, datetime):
        return Fraction((moment - EPOCH).days * 86400)
    naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return Fraction((naive - ORIGIN) // timedelta(microseconds=1), 10**6)
