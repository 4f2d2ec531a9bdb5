"""Functions of released values: a closed list that means what DuckDB means by them."""

from __future__ import annotations

import math
import operator
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = 10**300
"""Numbers beyond it are shown as null: they say nothing, and Python's integers would grow without end."""


def apply_function(name: str, values: tuple[Any, ...]) -> Any:
    """Return a function of values that are not constants of a question any more, or None."""
    special = _OF_NULLS.get(name)
    if special is not None:
        return special(*values)
    if any(value is None for value in values):
        return None
    try:
        return _bounded(FUNCTIONS[name][0](*values))
    # Such as the root of a negative number: noise may give one. Types were checked before.
    except (ArithmeticError, ValueError, TypeError):
        return None


def _bounded(value: Any) -> Any:
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        return None
    return value


# ---- numbers -----------------------------------------------------------------------------------------------


def _round(value: Any, digits: Any = 0) -> Any:
    """Round half away from zero, as SQL does."""
    if isinstance(value, int):
        return value if digits >= 0 else _round(float(value), digits)
    step = Decimal(1).scaleb(-int(digits))
    return float(Decimal(repr(value)).quantize(step, ROUND_HALF_UP))


def _divide(left: Any, right: Any) -> Any:
    return left / right if right else None


def _power(base: Any, exponent: Any) -> Any:
    return float(base) ** float(exponent) if abs(exponent) <= 1000 else None


def _modulo(left: Any, right: Any) -> Any:
    return (
        (
            math.fmod(left, right)
            if isinstance(left, float) or isinstance(right, float)
            else _whole_modulo(left, right)
        )
        if right
        else None
    )


def _whole_modulo(left: int, right: int) -> int:
    return left - right * int(left / right)


def _whole_quotient(left: Any, right: Any) -> Any:
    return math.floor(left / right) if right else None


# ---- texts -------------------------------------------------------------------------------------------------


def show_text(value: Any) -> str:
    """Return a value as the text that CAST makes of it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    return str(value)


def _concat(*values: Any) -> str:
    return "".join(map(show_text, values))


def _cast_whole(value: Any) -> Any:
    return int(value) if isinstance(value, str | bool) else int(_round(float(value)))


def _cast_date(value: Any) -> Any:
    return (
        value.date()
        if isinstance(value, datetime)
        else value
        if isinstance(value, date)
        else date.fromisoformat(value)
    )


# ---- what looks at missing values --------------------------------------------------------------------------


def _and(*values: Any) -> Any:
    return False if False in values else None if None in values else True


def _or(*values: Any) -> Any:
    return True if True in values else None if None in values else False


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _nullif(one: Any, other: Any) -> Any:
    return None if one is not None and one == other else one


def _of_present(choose: Callable[..., Any]) -> Callable[..., Any]:
    def choose_present(*values: Any) -> Any:
        return choose((value for value in values if value is not None), default=None)

    return choose_present


def _joined(*values: Any) -> str:
    return "".join(show_text(value) for value in values if value is not None)


_OF_NULLS: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "is_null": lambda value: value is None,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _of_present(max),
    "least": _of_present(min),
    "concat": _joined,
}

FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "+": (operator.add, "number"),
    "-": (operator.sub, "number"),
    "*": (operator.mul, "number"),
    "/": (_divide, "double"),
    "%": (_modulo, "number"),
    "//": (_whole_quotient, "whole"),
    "negate": (operator.neg, "first"),
    "round": (_round, "first"),
    "floor": (math.floor, "double"),
    "ceil": (math.ceil, "double"),
    "abs": (abs, "first"),
    "sign": (lambda value: (value > 0) - (value < 0), "whole"),
    "sqrt": (math.sqrt, "double"),
    "ln": (math.log, "double"),
    "log10": (math.log10, "double"),
    "exp": (math.exp, "double"),
    "power": (_power, "double"),
    "||": (_concat, "text"),
    "upper": (lambda text: show_text(text).upper(), "text"),
    "lower": (lambda text: show_text(text).lower(), "text"),
    "to_text": (show_text, "text"),
    "to_whole": (_cast_whole, "whole"),
    "to_double": (float, "double"),
    "to_date": (_cast_date, "date"),
    "=": (operator.eq, "truth"),
    "<>": (operator.ne, "truth"),
    "<": (operator.lt, "truth"),
    "<=": (operator.le, "truth"),
    ">": (operator.gt, "truth"),
    ">=": (operator.ge, "truth"),
    "not": (operator.not_, "truth"),
    "and": (_and, "truth"),
    "or": (_or, "truth"),
    "is_null": (operator.not_, "truth"),
    "coalesce": (_coalesce, "first"),
    "nullif": (_nullif, "first"),
    "greatest": (max, "first"),
    "least": (min, "first"),
    "concat": (_joined, "text"),
}
"""Each function, and the type of what it gives: one of these words, or that of the first argument."""

MONOTONE = frozenset({"round", "floor", "ceil", "sqrt", "ln", "log10", "exp", "to_whole", "to_double"})
"""Functions that never fall: the ends of an interval stay ends, where other arguments are constants."""
