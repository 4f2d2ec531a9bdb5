"""The closed list of functions of a row. Each is total: it has one stated meaning for every input.

A function of a public list is computed here, entry by entry; of anything else the engine computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Listed, Numbers, Periods, Texts
from sfumato.curator.lower import arithmetic, dates, lowered, texts
from sfumato.curator.lower.lowered import Lowered
from sfumato.curator.lower.typed import typed_integer
from sfumato.engines.values import (
    AtLeast,
    AtMost,
    Choose,
    Constant,
    Either,
    Lookup,
    Missing,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Scalar

Function = Callable[..., Lowered]


# ---- numbers -----------------------------------------------------------------------------------------------


def _absolute(part: Lowered) -> Lowered:
    either = arithmetic.larger(part, arithmetic.negate(part))
    if not isinstance(either.domain, Numbers):
        raise AssertionError(either)
    return replace(either, domain=replace(either.domain, low=max(0, either.domain.low)))


def _sign(part: Lowered) -> Lowered:
    """−1, 0 or 1."""
    part, _ = lowered.number(part, "What SIGN takes")
    positive, negative = AtLeast(part.value, 1), AtMost(part.value, -1)
    zero = Choose(Missing(part.value), Constant(None), Constant(0))
    return part.then(Choose(positive, Constant(1), Choose(negative, Constant(-1), zero)), Numbers(-1, 1))


def _power(part: Lowered, exponent: Lowered) -> Lowered:
    times = typed_integer(exponent, "The exponent of POWER", range(1, 5))
    product = part
    for _ in range(times - 1):
        product = arithmetic.multiply(product, part)
    return product


def _round(part: Lowered, digits: Lowered | None = None) -> Lowered:
    places = 0 if digits is None else typed_integer(digits, "ROUND's number of digits", range(-9, 10))
    return arithmetic.rounded(part, places)


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
    from sfumato.curator.lower.conditions import compared

    if isinstance(part.domain, Texts):
        raise PolicyError("SF-Q110", "NULLIF cannot be a free text.", try_="numbers, dates or listed texts")
    same = compared(part, "=", unwanted)
    return part.then(Choose(same, Constant(None), part.value), part.domain, unwanted, total=False)


def _plus(left: Lowered, right: Lowered) -> Lowered:
    dated = isinstance(left.domain, Periods)
    return dates.add_days(left, right) if dated else arithmetic.add(left, right)


def _minus(left: Lowered, right: Lowered) -> Lowered:
    dated = isinstance(left.domain, Periods)
    return dates.subtract_days(left, right) if dated else arithmetic.subtract(left, right)


# ---- the list ----------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    "add": (_plus, 2, 2),
    "subtract": (_minus, 2, 2),
    "multiply": (arithmetic.multiply, 2, 2),
    "divide": (arithmetic.divide, 2, 2),
    "integer_divide": (arithmetic.floor_divide, 2, 2),
    "modulo": (arithmetic.modulo, 2, 2),
    "negate": (arithmetic.negate, 1, 1),
    "abs": (_absolute, 1, 1),
    "sign": (_sign, 1, 1),
    "floor": (arithmetic.floor, 1, 1),
    "ceil": (arithmetic.ceiling, 1, 1),
    "round": (_round, 1, 2),
    "power": (_power, 2, 2),
    "coalesce": (_coalesce, 1, 20),
    "nullif": (_nullif, 2, 2),
    "year": (dates.field("year", 0, 0), 1, 1),
    "month": (dates.field("month", 1, 12), 1, 1),
    "day": (dates.field("day", 1, 31), 1, 1),
    "weekday": (dates.field("weekday", 1, 7), 1, 1),
    "quarter": (dates.quarter, 1, 1),
    "hour": (dates.clock("hour", 24), 1, 1),
    "minute": (dates.clock("minute", 60), 1, 1),
    "second": (dates.clock("second", 60), 1, 1),
    "days_between": (lambda a, b: lowered.apart(dates.truncate(a, "day"), dates.truncate(b, "day")), 2, 2),
    "length": (texts.length, 1, 1),
    "lower": (texts.folded(upper=False), 1, 1),
    "upper": (texts.folded(upper=True), 1, 1),
    "substring": (texts.part_of_text, 2, 3),
    "left": (texts.left, 2, 2),
    "starts_with": (texts.tests("", "%"), 2, 2),
    "ends_with": (texts.tests("%", ""), 2, 2),
    "contains": (texts.tests("%", "%"), 2, 2),
    **{
        f"truncate_{unit}": (lambda part, unit=unit: dates.truncate(part, unit), 1, 1)
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


FUNCTIONS["least"] = (_chain(arithmetic.smaller), 1, 20)
FUNCTIONS["greatest"] = (_chain(arithmetic.larger), 1, 20)


def call(name: str, parts: tuple[Lowered, ...]) -> Lowered:
    function, fewest, most = FUNCTIONS[name]
    if not fewest <= len(parts) <= most:
        raise PolicyError(
            "SF-Q135",
            f"{name.upper()} takes {fewest if fewest == most else f'{fewest} to {most}'} arguments.",
            got=str(len(parts)),
        )
    return function(*parts)
