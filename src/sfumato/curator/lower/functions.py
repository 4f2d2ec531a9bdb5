"""The closed list of functions of a row. Each is total: it has one stated meaning for every input.

A function of a public list is computed here, entry by entry; of anything else the engine computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower import arithmetic, dates, lowered_value, texts
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.lower.typed_arguments import require_typed_integer
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

Function = Callable[..., LoweredValue]


# ---- numbers -----------------------------------------------------------------------------------------------


def _absolute(part: LoweredValue) -> LoweredValue:
    either = arithmetic.take_larger(part, arithmetic.negate_number(part))
    if not isinstance(either.domain, Numbers):
        raise AssertionError(either)
    return replace(either, domain=replace(either.domain, low=max(0, either.domain.low)))


def _sign(part: LoweredValue) -> LoweredValue:
    """−1, 0 or 1."""
    part, _ = lowered_value.require_number(part, "What SIGN takes")
    positive, negative = AtLeast(part.value, 1), AtMost(part.value, -1)
    zero = Choose(Missing(part.value), Constant(None), Constant(0))
    return part.derive_value(
        Choose(positive, Constant(1), Choose(negative, Constant(-1), zero)), Numbers(-1, 1)
    )


def _power(part: LoweredValue, exponent: LoweredValue) -> LoweredValue:
    times = require_typed_integer(exponent, "The exponent of POWER", range(1, 5))
    product = part
    for _ in range(times - 1):
        product = arithmetic.multiply_numbers(product, part)
    return product


def _round(part: LoweredValue, digits: LoweredValue | None = None) -> LoweredValue:
    places = 0 if digits is None else require_typed_integer(digits, "ROUND's number of digits", range(-9, 10))
    return arithmetic.round_number(part, places)


# ---- missing values ----------------------------------------------------------------------------------------


def unify_domains(parts: list[LoweredValue], what: str) -> tuple[list[LoweredValue], LoweredValue]:
    """Values in one domain that holds them all, and what any of them is like."""
    known = [part for part in parts if part is not lowered_value.MISSING]
    if not known:
        raise PolicyError("SF-Q134", f"{what} is NULL whatever happens.", try_="a value")
    if all(isinstance(part.domain, Listed) for part in known):
        return _listed_together(parts, known)
    if all(isinstance(part.domain, Periods) for part in known):
        return _periods_together(parts, known)
    if any(isinstance(part.domain, FreeTexts) for part in known):
        raise PolicyError("SF-Q110", f"{what} cannot be a free text.", try_="numbers, dates or listed texts")
    same, step = lowered_value.align_steps(parts, what)
    domains = [part.domain for part in same if isinstance(part.domain, Numbers)]
    hull = Numbers(min(each.low for each in domains), max(each.high for each in domains), step)
    return same, LoweredValue(Constant(0), hull)


def _listed_together(
    parts: list[LoweredValue], known: list[LoweredValue]
) -> tuple[list[LoweredValue], LoweredValue]:
    lists = [part.domain.values for part in known if isinstance(part.domain, Listed)]
    values: tuple[Scalar, ...] = tuple(dict.fromkeys(value for each in lists for value in each))
    if len({type(value) for value in values}) > 1:
        raise PolicyError(
            "SF-Q110", "Texts, numbers and booleans do not mix in one column.", try_="CASE … one kind"
        )
    return [_placed(part, values) for part in parts], LoweredValue(Constant(0), Listed(values))


def _placed(part: LoweredValue, values: tuple[Scalar, ...]) -> LoweredValue:
    if part is lowered_value.MISSING or not isinstance(part.domain, Listed):
        return part
    places = tuple(values.index(value) for value in part.domain.values)
    if places == tuple(range(len(places))):
        return part
    if isinstance(part.value, Constant) and part.value.value is not None:
        return part.derive_value(Constant(places[part.value.value]), Listed(values))
    return part.derive_value(Lookup(part.value, places), Listed(values))


def _periods_together(
    parts: list[LoweredValue], known: list[LoweredValue]
) -> tuple[list[LoweredValue], LoweredValue]:
    units = {part.domain.unit for part in known if isinstance(part.domain, Periods)}
    if units == {"day", "second"}:
        known = [lowered_value.convert_to_seconds(part) for part in known]
        parts = [
            part if part is lowered_value.MISSING else lowered_value.convert_to_seconds(part)
            for part in parts
        ]
    domains = [part.domain for part in known if isinstance(part.domain, Periods)]
    if len({domain.unit for domain in domains}) > 1:
        raise PolicyError("SF-Q131", "Stretches of different length do not mix.", try_="DATE_TRUNC both")
    ends = min(each.low for each in domains), max(each.high for each in domains)
    return parts, LoweredValue(Constant(0), Periods(*ends, domains[0].unit))


def _coalesce(*parts: LoweredValue) -> LoweredValue:
    every, like_all = unify_domains(list(parts), "COALESCE")
    value = every[-1].value
    for part in reversed(every[:-1]):
        value = Either(part.value, value)
    constant = all(part.constant for part in every)
    return LoweredValue(value, like_all.domain, constant, any(part.present for part in every))


def _nullif(part: LoweredValue, unwanted: LoweredValue) -> LoweredValue:
    from sfumato.curator.lower.conditions import compare_values

    if isinstance(part.domain, FreeTexts):
        raise PolicyError("SF-Q110", "NULLIF cannot be a free text.", try_="numbers, dates or listed texts")
    same = compare_values(part, "=", unwanted)
    return part.derive_value(Choose(same, Constant(None), part.value), part.domain, unwanted, total=False)


def _plus(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    dated = isinstance(left.domain, Periods)
    return dates.add_days(left, right) if dated else arithmetic.add_numbers(left, right)


def _minus(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    dated = isinstance(left.domain, Periods)
    return dates.subtract_days(left, right) if dated else arithmetic.subtract_numbers(left, right)


# ---- the list ----------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    "add": (_plus, 2, 2),
    "subtract": (_minus, 2, 2),
    "multiply": (arithmetic.multiply_numbers, 2, 2),
    "divide": (arithmetic.divide_numbers, 2, 2),
    "integer_divide": (arithmetic.floor_divide_numbers, 2, 2),
    "modulo": (arithmetic.take_modulo, 2, 2),
    "negate": (arithmetic.negate_number, 1, 1),
    "abs": (_absolute, 1, 1),
    "sign": (_sign, 1, 1),
    "floor": (arithmetic.floor_number, 1, 1),
    "ceil": (arithmetic.ceil_number, 1, 1),
    "round": (_round, 1, 2),
    "power": (_power, 2, 2),
    "coalesce": (_coalesce, 1, 20),
    "nullif": (_nullif, 2, 2),
    "year": (dates.make_field_function("year", 0, 0), 1, 1),
    "month": (dates.make_field_function("month", 1, 12), 1, 1),
    "day": (dates.make_field_function("day", 1, 31), 1, 1),
    "weekday": (dates.make_field_function("weekday", 1, 7), 1, 1),
    "quarter": (dates.extract_quarter, 1, 1),
    "hour": (dates.make_clock_function("hour", 24), 1, 1),
    "minute": (dates.make_clock_function("minute", 60), 1, 1),
    "second": (dates.make_clock_function("second", 60), 1, 1),
    "days_between": (
        lambda a, b: lowered_value.subtract_dates(
            dates.truncate_date(a, "day"), dates.truncate_date(b, "day")
        ),
        2,
        2,
    ),
    "length": (texts.measure_text, 1, 1),
    "lower": (texts.make_case_function(upper=False), 1, 1),
    "upper": (texts.make_case_function(upper=True), 1, 1),
    "substring": (texts.take_substring, 2, 3),
    "left": (texts.take_left, 2, 2),
    "starts_with": (texts.make_text_test("", "%"), 2, 2),
    "ends_with": (texts.make_text_test("%", ""), 2, 2),
    "contains": (texts.make_text_test("%", "%"), 2, 2),
    **{
        f"truncate_{unit}": (lambda part, unit=unit: dates.truncate_date(part, unit), 1, 1)
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
}
"""Each function, with the fewest and the most arguments that it takes."""


def _chain(two: Callable[[LoweredValue, LoweredValue], LoweredValue]) -> Function:
    """Of all at once: numbers are put on one step first, so that none is rewritten again and again."""

    def of(*parts: LoweredValue) -> LoweredValue:
        dates = any(isinstance(part.domain, Periods) for part in parts)
        every = (
            list(parts)
            if dates
            else lowered_value.align_steps(list(parts), "What LEAST and GREATEST take")[0]
        )
        return reduce(two, every)

    return of


FUNCTIONS["least"] = (_chain(arithmetic.take_smaller), 1, 20)
FUNCTIONS["greatest"] = (_chain(arithmetic.take_larger), 1, 20)


def apply_function(name: str, parts: tuple[LoweredValue, ...]) -> LoweredValue:
    function, fewest, most = FUNCTIONS[name]
    if not fewest <= len(parts) <= most:
        raise PolicyError(
            "SF-Q135",
            f"{name.upper()} takes {fewest if fewest == most else f'{fewest} to {most}'} arguments.",
            got=str(len(parts)),
        )
    return function(*parts)
