"""SQL's function calls: which of the curator's functions a node means, and the nodes of its arguments.

The closed list is `FUNCTIONS` in curator/lower/functions.py, which says how SQL spells each function. A new
one needs a line here only if its node keeps the arguments in places of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.lower.functions import FUNCTIONS
from sfumato.errors import PolicyError
from sfumato.queries.leaves import refuse_other_parts

if TYPE_CHECKING:
    from collections.abc import Callable

FunctionNodes = tuple[str, tuple[exp.Expression, ...]]
"""The curator's name of a function, and the nodes of its arguments."""

_BY_SQL_NAME = {function.sql: name for name, function in FUNCTIONS.items() if function.sql is not None}
SQL_NAMES = tuple(_BY_SQL_NAME)
# By exact class: a subclass of a listed function may mean something else.
_BY_CLASS: dict[type, str] = {
    exp.FUNCTION_BY_NAME[sql]: name for sql, name in _BY_SQL_NAME.items() if sql in exp.FUNCTION_BY_NAME
}
_OTHER_SPELLINGS = {"SUFFIX": "ends_with", "PREFIX": "starts_with", "WEEKDAY": "day_of_week"}
_OTHER_CLASSES: dict[type, str] = {
    exp.DayOfMonth: "day",
    exp.WeekOfYear: "week",
    exp.TimeToStr: "strftime",
}

_LISTED = "SUBSTRING, LEFT, UPPER or LOWER of a listed text, or CASE"
INSTEAD = {
    "TRIM": _LISTED,
    "REPLACE": _LISTED,
    "REVERSE": _LISTED,
    "SPLIT_PART": _LISTED,
    "REGEXP_EXTRACT": _LISTED,
    "REGEXP_REPLACE": _LISTED,
    "TRUNC": "FLOOR(x), or CASE WHEN x < 0 THEN CEIL(x) ELSE FLOOR(x) END",
    "CBRT": "POWER(x, 1.0 / 3) written as POWER(x, 0.3333)",
    "AGE": "DATE_DIFF('year', born, day)",
    "LAST_DAY": "DATE_TRUNC('month', day)",
    "NOW": "a date, as in day >= DATE '2024-01-31'",
    "CURRENT_DATE": "a date, as in day >= DATE '2024-01-31'",
    "CURRENT_TIMESTAMP": "a timestamp, as in seen >= TIMESTAMP '2024-01-31 00:00:00'",
    "TO_CHAR": "STRFTIME(day, '%Y-%m')",
    "DATE_FORMAT": "STRFTIME(day, '%Y-%m')",
    "RANDOM": "the question without it: each answer has noise of its own",
    "MD5": "the column itself, in GROUP BY or with =",
    "HASH": "the column itself, in GROUP BY or with =",
}
"""What to write in place of functions that people try and that are not on the list."""

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integer_divide",
    exp.Mod: "modulo",
    exp.DPipe: "join_texts",
}

_ARGUMENT_PLACES: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Round: ("this", "decimals"),
    exp.Substring: ("this", "start", "length"),
    exp.TimeToStr: ("this", "format"),
    exp.Concat: ("expressions",),
}


def read_function_call(node: exp.Expression) -> FunctionNodes | None:
    """Return the function that a node calls, with the nodes of its arguments; None if it is not listed."""
    if type(node) in _OPERATORS:
        # The DuckDB dialect sets `typed` and `safe` on every division; they change no meaning.
        refuse_other_parts(node, "this", "expression", "typed", "safe")
        return _OPERATORS[type(node)], (node.this, node.expression)
    if type(node) in _DATE_FUNCTIONS:
        return _DATE_FUNCTIONS[type(node)](node)
    if type(node) is exp.Anonymous:
        return _read_anonymous(node)
    if type(node) is exp.Log:
        return _read_logarithm(node)
    name = _BY_CLASS.get(type(node)) or _OTHER_CLASSES.get(type(node))
    return None if name is None else (name, _read_arguments(node, name))


def _read_logarithm(node: exp.Expression) -> FunctionNodes:
    """LOG of one argument is that to the base 10, as in DuckDB and PostgreSQL."""
    refuse_other_parts(node, "this", "expression")
    base, part = (node.this, node.expression) if node.args.get("expression") else (None, node.this)
    typed = 10 if base is None else base.this if isinstance(base, exp.Literal) else ""
    if str(typed) not in ("2", "10"):
        raise PolicyError("SF-Q105", "The base of LOG must be 2 or 10.", try_="LOG10(x), or LN(x) / LN(3)")
    return f"log{typed}", (part,)


def _read_arguments(node: exp.Expression, name: str) -> tuple[exp.Expression, ...]:
    places = _ARGUMENT_PLACES.get(type(node)) or _places_by_number(name)
    # sqlglot sets these on every LEAST, GREATEST and CONCAT; they say what the curator means anyway.
    set_always = ("ignore_nulls", "safe", "coalesce") if "expressions" in places else ()
    refuse_other_parts(node, *places, *set_always)
    arguments: list[exp.Expression] = []
    for place in places:
        part = node.args.get(place)
        arguments += part if isinstance(part, list) else [] if part is None else [part]
    return tuple(arguments)


def _places_by_number(name: str) -> tuple[str, ...]:
    """Return where sqlglot keeps the arguments of a function of one, of two, or of many."""
    most = FUNCTIONS[name].most
    return ("this",) if most == 1 else ("this", "expression") if most == 2 else ("this", "expressions")


def _read_anonymous(node: exp.Expression) -> FunctionNodes | None:
    refuse_other_parts(node, "this", "expressions")
    name = str(node.this).upper()
    if name in ("DATE_PART", "DATEPART") and len(node.expressions) == 2:
        part, date = node.expressions
        return _DATE_PARTS[_read_date_part(part, tuple(_DATE_PARTS))], (date,)
    function = _BY_SQL_NAME.get(name) or _OTHER_SPELLINGS.get(name)
    return None if function is None else (function, tuple(node.expressions))


# ---- dates -------------------------------------------------------------------------------------------------

_TRUNCATIONS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_DATE_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "isodow": "weekday",
    "dow": "day_of_week",
    "dayofweek": "day_of_week",
    "doy": "day_of_year",
    "week": "week",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}


def _read_truncation(node: exp.Expression) -> FunctionNodes:
    refuse_other_parts(node, "this", "unit", "input_type_preserved")
    return f"truncate_{_read_date_part(node.args.get('unit'), _TRUNCATIONS)}", (node.this,)


def _read_extraction(node: exp.Expression) -> FunctionNodes:
    refuse_other_parts(node, "this", "expression")
    return _DATE_PARTS[_read_date_part(node.this, tuple(_DATE_PARTS))], (node.expression,)


def _read_difference(node: exp.Expression) -> FunctionNodes:
    refuse_other_parts(node, "this", "expression", "unit", "date_part_boundary")
    return f"{_read_date_part(node.args.get('unit'), _TRUNCATIONS)}s_between", (node.this, node.expression)


def _read_date_part(node: Any, known: tuple[str, ...]) -> str:
    name = str(node.this).lower() if isinstance(node, exp.Var | exp.Literal) else ""
    if name in known:
        return name
    raise PolicyError(
        "SF-Q110",
        f"Date part '{name[:40]}' is not supported here." if name else "A date part is expected here.",
        known=", ".join(known),
        try_=f"'{known[-1]}'",
    )


_DATE_FUNCTIONS: dict[type[exp.Expression], Callable[[exp.Expression], FunctionNodes]] = {
    exp.TimestampTrunc: _read_truncation,
    exp.DateTrunc: _read_truncation,
    exp.Extract: _read_extraction,
    exp.DateDiff: _read_difference,
}
