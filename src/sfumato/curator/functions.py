"""The closed list of functions of a row. Each is total: it has one stated meaning for every input.

A function of a public list is computed here, entry by entry; of anything else the engine computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from sfumato.curator import lowered
from sfumato.curator.conditions import like, text_of
from sfumato.curator.domains import MONTHS, SECONDS, TRUTH, Listed, Numbers, Periods, Texts, begin
from sfumato.curator.lowered import Lowered, literal_number, shifted
from sfumato.engines.values import (
    Add,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Constant,
    Divide,
    Either,
    Folded,
    Length,
    Lookup,
    Missing,
    Multiply,
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from datetime import date

    from sfumato.curator.domains import Scalar

Function = Callable[..., Lowered]

LONGEST_TEXT = 1000
"""Texts are cut to this many code points when they are stored."""


# ---- numbers -----------------------------------------------------------------------------------------------


def _absolute(part: Lowered) -> Lowered:
    either = lowered.larger(part, lowered.negate(part))
    if not isinstance(either.domain, Numbers):
        raise AssertionError(either)
    return replace(either, domain=replace(either.domain, low=max(0, either.domain.low)))


def _sign(part: Lowered) -> Lowered:
    """−1, 0 or 1."""
    part, _ = lowered.number(part, "What SIGN takes")
    positive, negative = AtLeast(part.value, 1), AtMost(part.value, -1)
    zero = Choose(Missing(part.value), Constant(None), Constant(0))
    return part.then(Choose(positive, Constant(1), Choose(negative, Constant(-1), zero)), Numbers(-1, 1))


def _one() -> Lowered:
    return literal_number(Fraction(1))


def _power(part: Lowered, exponent: Lowered) -> Lowered:
    times = _typed_integer(exponent, "The exponent of POWER", range(1, 5))
    product = part
    for _ in range(times - 1):
        product = lowered.multiply(product, part)
    return product


def _round(part: Lowered, digits: Lowered | None = None) -> Lowered:
    places = 0 if digits is None else _typed_integer(digits, "ROUND's number of digits", range(-9, 10))
    return lowered.rounded(part, places)


def _integer_divide(left: Lowered, right: Lowered) -> Lowered:
    return lowered.floor(lowered.divide(left, right))


def _typed_integer(part: Lowered, what: str, allowed: range) -> int:
    """A whole number that was typed in."""
    domain = part.domain
    if (
        isinstance(part.value, Constant)
        and isinstance(domain, Numbers)
        and domain.step == 1
        and domain.low in allowed
    ):
        return domain.low
    raise PolicyError(
        "SF-Q135", f"{what} is a whole number typed in.", allowed=f"{allowed[0]} to {allowed[-1]}"
    )


# ---- missing values ----------------------------------------------------------------------------------------


def united(parts: list[Lowered], what: str) -> tuple[list[Lowered], Lowered]:
    """Values in one domain that holds them all, and what any of them is like."""
    known = [part for part in parts if part is not lowered.MISSING]
    if not known:
        raise PolicyError("SF-Q134", f"{what} is NULL whatever happens.", try_="a value")
    if all(isinstance(part.domain, Listed) for part in known):
        return _listed_together(parts, known)
    if all(isinstance(part.domain, Periods) for part in known):
        return _periods_together(parts, known)
    if any(isinstance(part.domain, Texts) for part in known):
        raise PolicyError("SF-Q110", f"{what} cannot be a free text.", try_="numbers, dates or listed texts")
    same, step = lowered.aligned(parts, what)
    domains = [part.domain for part in same if isinstance(part.domain, Numbers)]
    hull = Numbers(min(each.low for each in domains), max(each.high for each in domains), step)
    return same, Lowered(Constant(0), hull)


def _listed_together(parts: list[Lowered], known: list[Lowered]) -> tuple[list[Lowered], Lowered]:
    lists = [part.domain.values for part in known if isinstance(part.domain, Listed)]
    values: tuple[Scalar, ...] = tuple(dict.fromkeys(value for each in lists for value in each))
    if len({type(value) for value in values}) > 1:
        raise PolicyError(
            "SF-Q110", "Texts, numbers and booleans do not mix in one column.", try_="CASE … one kind"
        )
    return [_placed(part, values) for part in parts], Lowered(Constant(0), Listed(values))


def _placed(part: Lowered, values: tuple[Scalar, ...]) -> Lowered:
    if part is lowered.MISSING or not isinstance(part.domain, Listed):
        return part
    places = tuple(values.index(value) for value in part.domain.values)
    if places == tuple(range(len(places))):
        return part
    if isinstance(part.value, Constant) and part.value.value is not None:
        return part.then(Constant(places[part.value.value]), Listed(values))
    return part.then(Lookup(part.value, places), Listed(values))


def _periods_together(parts: list[Lowered], known: list[Lowered]) -> tuple[list[Lowered], Lowered]:
    units = {part.domain.unit for part in known if isinstance(part.domain, Periods)}
    if units == {"day", "second"}:
        known = [lowered.seconds(part) for part in known]
        parts = [part if part is lowered.MISSING else lowered.seconds(part) for part in parts]
    domains = [part.domain for part in known if isinstance(part.domain, Periods)]
    if len({domain.unit for domain in domains}) > 1:
        raise PolicyError("SF-Q131", "Stretches of different length do not mix.", try_="DATE_TRUNC both")
    ends = min(each.low for each in domains), max(each.high for each in domains)
    return parts, Lowered(Constant(0), Periods(*ends, domains[0].unit))


def _coalesce(*parts: Lowered) -> Lowered:
    every, like_all = united(list(parts), "COALESCE")
    value = every[-1].value
    for part in reversed(every[:-1]):
        value = Either(part.value, value)
    constant = all(part.constant for part in every)
    return Lowered(value, like_all.domain, constant, any(part.present for part in every))


def _nullif(part: Lowered, unwanted: Lowered) -> Lowered:
    from sfumato.curator.conditions import compared

    if isinstance(part.domain, Texts):
        raise PolicyError("SF-Q110", "NULLIF cannot be a free text.", try_="numbers, dates or listed texts")
    same = compared(part, "=", unwanted)
    return part.then(Choose(same, Constant(None), part.value), part.domain, unwanted, total=False)


# ---- dates -------------------------------------------------------------------------------------------------


def _days(part: Lowered) -> tuple[Value, Periods]:
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
    return shifted(Divide(shifted(value, up * size), Constant(size)), -up)


def _field(name: str, low: int, high: int) -> Function:
    def of(part: Lowered) -> Lowered:
        days, domain = _days(part)
        years = [day.year for day in (day_of(domain.low), day_of(domain.high))]
        ends = (years[0], years[1]) if name == "year" else (low, high)
        return part.then(Calendar(days, name), Numbers(*ends))

    return of


def _quarter(part: Lowered) -> Lowered:
    month = _field("month", 1, 12)(part)
    return month.then(Divide(Add(month.value, Constant(2)), Constant(3)), Numbers(1, 4))


def _clock(unit: str, size: int) -> Function:
    """Hours of the day, minutes of the hour, seconds of the minute."""

    def of(part: Lowered) -> Lowered:
        domain = part.domain
        if not isinstance(domain, Periods) or domain.unit != "second":
            raise PolicyError(
                "SF-Q131", f"{unit.upper()} is asked of moments.", try_=f"{unit.upper()}(seen_at)"
            )
        whole = _floored(part.value, domain.low, SECONDS[unit])
        up = -(domain.low // SECONDS[unit] // size) if domain.low < 0 else 0
        positive = shifted(whole, up * size)
        rest = Add(positive, Multiply(Constant(-size), Divide(positive, Constant(size))))
        return part.then(rest, Numbers(0, size - 1))

    return of


def truncate(part: Lowered, unit: str) -> Lowered:
    """The stretch of the calendar that a date or moment lies in."""
    domain = part.domain
    if isinstance(domain, Periods) and domain.unit == unit:
        return part
    if isinstance(domain, Periods) and domain.unit == "second" and unit in SECONDS:
        size = SECONDS[unit]
        return part.then(
            _floored(part.value, domain.low, size), Periods(domain.low // size, domain.high // size, unit)
        )
    days, dates = _days(part)
    if unit == "day":
        return part.then(days, dates)
    if unit == "week":
        value = _floored(shifted(days, 3), dates.low + 3, 7)
        return part.then(value, Periods((dates.low + 3) // 7, (dates.high + 3) // 7, unit))
    if unit in MONTHS:
        return part.then(*_months(days, dates, unit))
    raise PolicyError(
        "SF-Q131", "This is not a stretch of the calendar.", try_="'day', 'week', 'month' or 'year'"
    )


def _months(days: Value, dates: Periods, unit: str) -> tuple[Value, Periods]:
    """Counted from the year 1, so that nothing negative is divided; then from 1970."""
    months = Add(Multiply(Calendar(days, "year"), Constant(12)), Add(Calendar(days, "month"), Constant(-1)))
    size = MONTHS[unit]
    value = shifted(Divide(months, Constant(size)) if size > 1 else months, -1970 * 12 // size)
    ends = [_month(day_of(end)) // size for end in (dates.low, dates.high)]
    return value, Periods(ends[0], ends[1], unit)


def day_of(place: int) -> date:
    return begin(place, "day")


def _month(day: date) -> int:
    return (day.year - 1970) * 12 + day.month - 1


def _add_days(part: Lowered, more: Lowered) -> Lowered:
    domain = part.domain
    extra, by = lowered.number(more, "The number of days")
    if not isinstance(domain, Periods) or domain.unit != "day" or by.step.denominator != 1:
        raise PolicyError("SF-Q131", "Whole days are added to dates.", try_="day + 7")
    factor = int(by.step)
    ends = domain.low + by.low * factor, domain.high + by.high * factor
    if not -700_000 < ends[0] <= ends[1] < 2_900_000:
        raise PolicyError("SF-Q131", "This date lies outside the years 54 to 9900.", try_="fewer days")
    return part.then(Add(part.value, Multiply(extra.value, Constant(factor))), Periods(*ends), more)


def _subtract_days(part: Lowered, fewer: Lowered) -> Lowered:
    if isinstance(fewer.domain, Periods):
        return lowered.apart(part, fewer)
    return _add_days(part, lowered.negate(fewer))


# ---- texts -------------------------------------------------------------------------------------------------


def _length(part: Lowered) -> Lowered:
    if isinstance(part.domain, Texts):
        return part.then(Length(text_of(part)), Numbers(0, LONGEST_TEXT))
    lengths = [len(word) for word in _words(part)]
    return part.then(Lookup(part.value, tuple(lengths)), Numbers(min(lengths), max(lengths)))


def _folded(upper: bool) -> Function:
    def of(part: Lowered) -> Lowered:
        if isinstance(part.domain, Texts):
            return Lowered(Folded(text_of(part), upper), part.domain, part.constant, part.present)
        return _rewritten(part, [fold(word, upper=upper) for word in _words(part)])

    return of


def fold(word: str, *, upper: bool) -> str:
    """The letters of ASCII alone, as every engine can."""
    return "".join((each.upper() if upper else each.lower()) if each.isascii() else each for each in word)


def _part_of_text(part: Lowered, start: Lowered, length: Lowered | None = None) -> Lowered:
    first = _typed_integer(start, "Where SUBSTRING starts", range(1, LONGEST_TEXT + 1)) - 1
    last = (
        LONGEST_TEXT
        if length is None
        else first + _typed_integer(length, "How long it is", range(LONGEST_TEXT + 1))
    )
    return _rewritten(part, [word[first:last] for word in _words(part)])


def _left(part: Lowered, length: Lowered) -> Lowered:
    return _part_of_text(part, _one(), length)


def _rewritten(part: Lowered, words: list[str]) -> Lowered:
    different = tuple(dict.fromkeys(words))
    places = tuple(different.index(word) for word in words)
    if places == tuple(range(len(places))):
        return part.then(part.value, Listed(different))
    return part.then(Lookup(part.value, places), Listed(different))


def _words(part: Lowered) -> list[str]:
    """The texts of a public list."""
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], str):
        return [str(value) for value in part.domain.values]
    raise PolicyError(
        "SF-Q110", "This is asked of texts that are listed.", try_="sf.one_of(…) for the column, or LIKE"
    )


def _tests(before: str, after: str) -> Function:
    """STARTS_WITH, ENDS_WITH and CONTAINS, as LIKE of a text typed in."""

    def of(part: Lowered, piece: Lowered) -> Lowered:
        word = _typed_text(piece)
        pattern = before + "".join(f"\\{each}" if each in "%_\\" else each for each in word) + after
        matches = like(part, pattern)
        return part.then(
            Choose(matches, Constant(1), Choose(Missing(part.value), Constant(None), Constant(0))), TRUTH
        )

    return of


def _typed_text(part: Lowered) -> str:
    if (
        isinstance(part.value, Constant)
        and isinstance(part.domain, Listed)
        and part.domain.values
        and isinstance(part.domain.values[0], str)
    ):
        return part.domain.values[0]
    raise PolicyError("SF-Q135", "A text typed in is expected here.", try_="CONTAINS(note, 'pain')")


FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    "add": (lambda a, b: _add_days(a, b) if isinstance(a.domain, Periods) else lowered.add(a, b), 2, 2),
    "subtract": (
        lambda a, b: _subtract_days(a, b) if isinstance(a.domain, Periods) else lowered.subtract(a, b),
        2,
        2,
    ),
    "multiply": (lowered.multiply, 2, 2),
    "divide": (lowered.divide, 2, 2),
    "integer_divide": (_integer_divide, 2, 2),
    "modulo": (lowered.modulo, 2, 2),
    "negate": (lowered.negate, 1, 1),
    "abs": (_absolute, 1, 1),
    "sign": (_sign, 1, 1),
    "floor": (lowered.floor, 1, 1),
    "ceil": (lowered.ceiling, 1, 1),
    "round": (_round, 1, 2),
    "power": (_power, 2, 2),
    "coalesce": (_coalesce, 1, 20),
    "nullif": (_nullif, 2, 2),
    "year": (_field("year", 0, 0), 1, 1),
    "month": (_field("month", 1, 12), 1, 1),
    "day": (_field("day", 1, 31), 1, 1),
    "weekday": (_field("weekday", 1, 7), 1, 1),
    "quarter": (_quarter, 1, 1),
    "hour": (_clock("hour", 24), 1, 1),
    "minute": (_clock("minute", 60), 1, 1),
    "second": (_clock("second", 60), 1, 1),
    "days_between": (lambda a, b: lowered.apart(truncate(a, "day"), truncate(b, "day")), 2, 2),
    "length": (_length, 1, 1),
    "lower": (_folded(upper=False), 1, 1),
    "upper": (_folded(upper=True), 1, 1),
    "substring": (_part_of_text, 2, 3),
    "left": (_left, 2, 2),
    "starts_with": (_tests("", "%"), 2, 2),
    "ends_with": (_tests("%", ""), 2, 2),
    "contains": (_tests("%", "%"), 2, 2),
    **{
        f"truncate_{unit}": (lambda part, unit=unit: truncate(part, unit), 1, 1)
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
}
"""Each function, with the fewest and the most arguments that it takes."""


def _chain(two: Callable[[Lowered, Lowered], Lowered]) -> Function:
    """Of all at once: numbers are put on one step first, so that none is rewritten again and again."""

    def of(*parts: Lowered) -> Lowered:
        dates = any(isinstance(part.domain, Periods) for part in parts)
        every = list(parts) if dates else lowered.aligned(list(parts), "What LEAST and GREATEST take")[0]
        return reduce(two, every)

    return of


FUNCTIONS["least"] = (_chain(lowered.smaller), 1, 20)
FUNCTIONS["greatest"] = (_chain(lowered.larger), 1, 20)


def call(name: str, parts: tuple[Lowered, ...]) -> Lowered:
    function, fewest, most = FUNCTIONS[name]
    if not fewest <= len(parts) <= most:
        raise PolicyError(
            "SF-Q135",
            f"{name.upper()} takes {fewest if fewest == most else f'{fewest} to {most}'} arguments.",
            got=str(len(parts)),
        )
    return function(*parts)
