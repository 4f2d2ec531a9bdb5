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
_OTHER_SPELLINGS = {"SUFFIX": "ends_with", "PREFIX": "starts_with"}

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integer_divide",
    exp.Mod: "modulo",
}

_ARGUMENT_PLACES: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Round: ("this", "decimals"),
    exp.Substring: ("this", "start", "length"),
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
    name = _BY_CLASS.get(type(node))
    return None if name is None else (name, _read_arguments(node, name))


def _read_arguments(node: exp.Expression, name: str) -> tuple[exp.Expression, ...]:
    places = _ARGUMENT_PLACES.get(type(node)) or _places_by_number(name)
    # sqlglot sets `ignore_nulls` on every LEAST and GREATEST; the curator's rule for missing values holds.
    refuse_other_parts(node, *places, *(("ignore_nulls",) if "expressions" in places else ()))
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
    if name == "DATE_PART" and len(node.expressions) == 2:
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
    _read_date_part(node.args.get("unit"), ("day",))
    return "days_between", (node.this, node.expression)


def _read_date_part(node: Any, known: tuple[str, ...]) -> str:
    name = str(node.this).lower() if isinstance(node, exp.Var | exp.Literal) else ""
    if name in known:
        return name
    raise PolicyError(
        "SF-Q131",
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
