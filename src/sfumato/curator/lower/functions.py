"""The closed list of functions of a row. Each is total: it has one stated meaning for every input.

To add a function, write how it is lowered and put it on the list at the end, with the name that SQL spells
it by; record a plan that uses it (tests/unit/queries/plans) and name it in docs/questions.md.

Values of a public list are computed here, entry by entry; all others are computed by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower import arithmetic, dates, texts, words
from sfumato.curator.lower.conditions import compare_values, recode_list
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    Real,
    align_steps,
    constant_number,
    convert_to_seconds,
    literal_number,
    require_number,
    require_typed_integer,
    subtract_dates,
)
from sfumato.curator.lower.reals import (
    as_real,
    choose_real,
    coalesce_reals,
    exponential_real,
    logarithm_real,
    power_real,
    root_real,
    settle_real,
)
from sfumato.engines.values import Choose, Constant, Either, Missing
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.domains import Domain, Scalar

MOST_ARGUMENTS = 20
MOST_POWER = 8

# ---- numbers -----------------------------------------------------------------------------------------------

_ZERO = literal_number(Fraction(0))


def _sign(part: LoweredValue) -> LoweredValue:
    """Return −1, 0 or 1."""
    part, _ = require_number(part, "The argument of SIGN")
    positive, negative = (compare_values(part, operator, _ZERO) for operator in (">", "<"))
    # A comparison with a missing value is not true, so it would end up here and become 0.
    zero = Choose(Missing(part.value), Constant(None), Constant(0))
    return part.derive_value(
        Choose(positive, Constant(1), Choose(negative, Constant(-1), zero)), Numbers(-1, 1)
    )


def _round(part: LoweredValue, digits: LoweredValue | None = None) -> LoweredValue:
    places = (
        0 if digits is None else require_typed_integer(digits, "The second argument of ROUND", range(-9, 10))
    )
    return arithmetic.round_number(part, places)


# ---- functions of doubles: what has no value, as the logarithm of zero, is missing -------------------------


def _take_root(part: LoweredValue) -> LoweredValue:
    """Return SQRT of a number, missing below 0."""
    if part is MISSING:
        return MISSING
    found = as_real(part, "The argument of SQRT")
    return settle_real(root_real(found), part, total=found.low >= 0)


def _make_logarithm(name: str) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function LN, LOG2 or LOG10, missing at 0 and below."""

    def take_logarithm(part: LoweredValue) -> LoweredValue:
        if part is MISSING:
            return MISSING
        argument = as_real(part, f"The argument of {name.upper()}")
        found = logarithm_real(argument, name)
        return MISSING if found is None else settle_real(found, part, total=argument.low > 0)

    return take_logarithm


def _take_exponential(part: LoweredValue) -> LoweredValue:
    """Return EXP of a number."""
    if part is MISSING:
        return MISSING
    found = as_real(part, "The argument of EXP")
    return settle_real(exponential_real(found, present=part.present), part)


def _take_power(part: LoweredValue, exponent: LoweredValue) -> LoweredValue:
    """Return a number to a constant power; missing where it has none.

    Small whole powers are products.
    """
    power = constant_number(exponent)
    if power is None or abs(power) > MOST_POWER:
        raise _unsupported_power()
    if part is MISSING:
        return MISSING
    if power == Fraction(1, 2):
        return _take_root(part)
    if power == 0:
        return part.derive_value(Choose(Missing(part.value), Constant(None), Constant(1)), Numbers(1, 1))
    if power.denominator == 1:
        product = part
        for _ in range(int(abs(power)) - 1):
            product = arithmetic.multiply_numbers(product, part)
        return product if power > 0 else arithmetic.divide_numbers(literal_number(Fraction(1)), product)
    base = as_real(part, "The first argument of POWER")
    found = power_real(base, power)
    if found is None:
        return MISSING
    return settle_real(found, part, total=base.low > 0 or (power > 0 and base.low >= 0))


def _unsupported_power() -> PolicyError:
    return PolicyError(
        "SF-Q105",
        "The second argument of POWER must be a constant.",
        allowed=f"-{MOST_POWER} to {MOST_POWER}",
        try_="POWER(x, 2), or EXP(y * LN(x))",
    )


# ---- missing values ----------------------------------------------------------------------------------------


def unify_domains(parts: list[LoweredValue], what: str) -> tuple[list[LoweredValue], Domain] | None:
    """Return the values in one domain that holds them all, and that domain; None if they become doubles."""
    known = [part for part in parts if part is not MISSING]
    if not known:
        raise PolicyError("SF-Q134", f"{what} is always NULL.", try_="a value other than NULL")
    if all(isinstance(part.domain, Listed) for part in known):
        return _unify_lists(parts, known)
    if all(isinstance(part.domain, Periods) for part in known):
        return _unify_periods(parts, known)
    if any(isinstance(part.domain, FreeTexts) for part in known):
        raise PolicyError(
            "SF-Q110", f"{what} cannot return a free text.", try_="numbers, dates or listed texts"
        )
    aligned = align_steps(parts, f"A value of {what}")
    if aligned is None:
        return None
    same, step = aligned
    domains = [part.domain for part in same if isinstance(part.domain, Numbers)]
    hull = Numbers(min(each.low for each in domains), max(each.high for each in domains), step)
    return same, hull


def _unify_lists(parts: list[LoweredValue], known: list[LoweredValue]) -> tuple[list[LoweredValue], Domain]:
    lists = [part.domain.values for part in known if isinstance(part.domain, Listed)]
    values: tuple[Scalar, ...] = tuple(dict.fromkeys(value for each in lists for value in each))
    # A column of an answer has one type. Python alone would also merge True with 1.
    if len({type(value) for value in values}) > 1:
        raise PolicyError(
            "SF-Q110", "Texts, numbers and booleans cannot be mixed in one column.", try_="values of one type"
        )
    unified = Listed(values)
    return [recode_list(part, unified) for part in parts], unified


def _unify_periods(parts: list[LoweredValue], known: list[LoweredValue]) -> tuple[list[LoweredValue], Domain]:
    units = {part.domain.unit for part in known if isinstance(part.domain, Periods)}
    if units == {"day", "second"}:
        known = [convert_to_seconds(part) for part in known]
        parts = [part if part is MISSING else convert_to_seconds(part) for part in parts]
    domains = [part.domain for part in known if isinstance(part.domain, Periods)]
    if len({domain.unit for domain in domains}) > 1:
        raise PolicyError(
            "SF-Q110",
            "Dates truncated to different units cannot be mixed.",
            try_="DATE_TRUNC all to one unit",
        )
    ends = min(each.low for each in domains), max(each.high for each in domains)
    return parts, Periods(*ends, domains[0].unit)


def _coalesce(*parts: LoweredValue) -> LoweredValue:
    unified, constant = unify_domains(list(parts), "COALESCE"), all(part.constant for part in parts)
    # One argument that is never missing ends the search.
    present = any(part.present for part in parts)
    if unified is None:
        found = reduce(coalesce_reals, [as_real(part, "An argument of COALESCE") for part in parts])
        return replace(settle_real(found), constant=constant, present=present)
    every, domain = unified
    value = every[-1].value
    for part in reversed(every[:-1]):
        value = Either(part.value, value)
    return LoweredValue(value, domain, constant, present, error=max(part.error for part in every))


def _nullif(part: LoweredValue, unwanted: LoweredValue) -> LoweredValue:
    if isinstance(part.domain, FreeTexts):
        raise PolicyError(
            "SF-Q110", "NULLIF cannot return a free text.", try_="numbers, dates or listed texts"
        )
    same = compare_values(part, "=", unwanted)
    # Where the comparison is unknown the value stays, as SQL defines NULLIF.
    if part.real is not None:
        absent = Real(Constant(None), 0.0, 0.0, 0)
        return settle_real(choose_real(same, absent, part.real), part, unwanted, total=False)
    return part.derive_value(
        Choose(same, Constant(None), part.value), part.domain, unwanted, total=False, error=part.error
    )


def _plus(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    dated = isinstance(left.domain, Periods)
    return dates.add_days(left, right) if dated else arithmetic.add_numbers(left, right)


def _minus(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    dated = isinstance(left.domain, Periods)
    return dates.subtract_days(left, right) if dated else arithmetic.subtract_numbers(left, right)


def _days_between(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    return subtract_dates(dates.truncate_date(left, "day"), dates.truncate_date(right, "day"))


def _make_difference(unit: str) -> Callable[[LoweredValue, LoweredValue], LoweredValue]:
    """Return DATE_DIFF: how many starts of such a period lie between two dates, or how many whole weeks."""
    if unit == "week":
        return dates.count_weeks_between

    def count_starts(left: LoweredValue, right: LoweredValue) -> LoweredValue:
        return subtract_dates(dates.truncate_date(left, unit), dates.truncate_date(right, unit))

    return count_starts


def _reduce_pairs(
    function: Callable[[LoweredValue, LoweredValue], LoweredValue],
) -> Callable[..., LoweredValue]:
    """Return a function of many values from one of two values."""

    def apply(*parts: LoweredValue) -> LoweredValue:
        known = [part for part in parts if part is not MISSING]
        # All numbers are put on one step first: pair by pair, the first would be rewritten again and again.
        dated = any(isinstance(part.domain, Periods) for part in known)
        aligned = None if dated or not known else align_steps(known, "An argument of LEAST or GREATEST")
        return reduce(function, aligned[0] if aligned else known) if known else MISSING

    return apply


# ---- the list ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a row: how it is lowered, how many arguments it takes, and how SQL spells it."""

    lower: Callable[..., LoweredValue]
    fewest: int
    most: int
    sql: str | None = None
    """The name that people type; None where SQL has an operator or a syntax of its own."""


def _unary(lower: Callable[..., LoweredValue], sql: str | None = None) -> Function:
    return Function(lower, 1, 1, sql)


def _binary(lower: Callable[..., LoweredValue], sql: str | None = None) -> Function:
    return Function(lower, 2, 2, sql)


# The keys stand in request hashes, so they are never renamed.
FUNCTIONS: dict[str, Function] = {
    "add": _binary(_plus),
    "subtract": _binary(_minus),
    "multiply": _binary(arithmetic.multiply_numbers),
    "divide": _binary(arithmetic.divide_numbers),
    "integer_divide": _binary(arithmetic.floor_divide_numbers),
    "modulo": _binary(arithmetic.take_modulo),
    "negate": _unary(arithmetic.negate_number),
    "abs": _unary(arithmetic.absolute_number, "ABS"),
    "sign": _unary(_sign, "SIGN"),
    "floor": _unary(arithmetic.floor_number, "FLOOR"),
    "ceil": _unary(arithmetic.ceil_number, "CEIL"),
    "round": Function(_round, 1, 2, "ROUND"),
    "power": _binary(_take_power, "POWER"),
    "sqrt": _unary(_take_root, "SQRT"),
    "ln": _unary(_make_logarithm("ln"), "LN"),
    "log2": _unary(_make_logarithm("log2")),
    "log10": _unary(_make_logarithm("log10")),
    "exp": _unary(_take_exponential, "EXP"),
    "least": Function(_reduce_pairs(arithmetic.take_smaller), 1, MOST_ARGUMENTS, "LEAST"),
    "greatest": Function(_reduce_pairs(arithmetic.take_larger), 1, MOST_ARGUMENTS, "GREATEST"),
    "coalesce": Function(_coalesce, 1, MOST_ARGUMENTS, "COALESCE"),
    "nullif": _binary(_nullif, "NULLIF"),
    # The years follow from the bounds of the dates, so none are given here.
    "year": _unary(dates.make_field_function("year", 0, 0), "YEAR"),
    "quarter": _unary(dates.extract_quarter, "QUARTER"),
    "month": _unary(dates.make_field_function("month", 1, 12), "MONTH"),
    "day": _unary(dates.make_field_function("day", 1, 31), "DAY"),
    "weekday": _unary(dates.make_field_function("weekday", 1, 7), "ISODOW"),
    "day_of_week": _unary(dates.extract_weekday_from_sunday, "DAYOFWEEK"),
    "day_of_year": _unary(dates.extract_day_of_year, "DAYOFYEAR"),
    "week": _unary(dates.extract_week, "WEEK"),
    "day_name": _unary(words.name_weekday, "DAYNAME"),
    "month_name": _unary(words.name_month, "MONTHNAME"),
    "strftime": _binary(words.format_date, "STRFTIME"),
    "hour": _unary(dates.make_clock_function("hour", 24), "HOUR"),
    "minute": _unary(dates.make_clock_function("minute", 60), "MINUTE"),
    "second": _unary(dates.make_clock_function("second", 60), "SECOND"),
    "days_between": _binary(_days_between),
    **{
        f"{unit}s_between": _binary(_make_difference(unit))
        for unit in ("second", "minute", "hour", "week", "month", "quarter", "year")
    },
    **{
        f"truncate_{unit}": _unary(lambda part, unit=unit: dates.truncate_date(part, unit))
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
    "lower": _unary(texts.make_case_function("LOWER", upper=False), "LOWER"),
    "upper": _unary(texts.make_case_function("UPPER", upper=True), "UPPER"),
    "length": _unary(texts.measure_text, "LENGTH"),
    "starts_with": _binary(texts.make_text_test("", "%"), "STARTS_WITH"),
    "ends_with": _binary(texts.make_text_test("%", ""), "ENDS_WITH"),
    "contains": _binary(texts.make_text_test("%", "%"), "CONTAINS"),
    "substring": Function(texts.take_substring, 2, 3, "SUBSTRING"),
    "left": _binary(texts.take_left, "LEFT"),
    "join_texts": Function(words.join_texts, 1, MOST_ARGUMENTS),
    "concat": Function(words.join_present_texts, 1, MOST_ARGUMENTS, "CONCAT"),
}
"""The closed list, by the names that questions and request hashes use."""


def apply_function(name: str, arguments: tuple[LoweredValue, ...]) -> LoweredValue:
    """Return what a function of the list makes of its arguments."""
    function = FUNCTIONS[name]
    if not function.fewest <= len(arguments) <= function.most:
        raise PolicyError(
            "SF-Q105",
            f"{function.sql or name.upper()} takes {_describe_arity(function)}.",
            got=str(len(arguments)),
        )
    return function.lower(*arguments)


def _describe_arity(function: Function) -> str:
    if function.fewest == function.most:
        return "1 argument" if function.most == 1 else f"{function.most} arguments"
    return f"{function.fewest} to {function.most} arguments"
