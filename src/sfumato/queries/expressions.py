"""What is computed of a row, and which rows: the text of SQL into values the curator can price.

A closed list of nodes is read, and everything a node carries beyond what is expected is refused.
"""

from __future__ import annotations

from datetime import date, datetime, time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.lower.conditions import parse_moment
from sfumato.curator.question.relation import (
    Case,
    Comparison,
    Condition,
    Conjunction,
    Disjunction,
    Expression,
    FunctionCall,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Negation,
    Truth,
    UnitAggregate,
)
from sfumato.errors import PolicyError
from sfumato.queries.leaves import (
    COMPARISONS,
    describe_node,
    parse_column_name,
    parse_literal,
    parse_sides,
    parse_text,
    refuse_other_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- values ------------------------------------------------------------------------------------------------


def parse_expression(node: exp.Expression) -> Expression:
    """A value of a row; inside a subquery by unit, also a figure of the unit's rows."""
    for kind, read in _VALUES.items():
        if type(node) is kind:
            return read(node)
    if type(node) in _CONDITIONS:
        return Truth(parse_condition(node))
    raise PolicyError(
        "SF-Q147",
        "This cannot be computed of a row.",
        got=describe_node(node),
        known="arithmetic, CASE, COALESCE, ABS, ROUND, FLOOR, LEAST, YEAR, DATE_TRUNC, LOWER, LENGTH, …",
        try_="cost * 2, CASE WHEN age >= 65 THEN 1 ELSE 0 END, DATE_TRUNC('month', day)",
    )


def _paren(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    return parse_expression(node.this)


def _column(node: exp.Expression) -> Expression:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        raise PolicyError("SF-Q148", "All columns cannot be asked for here.", try_="the columns' names")
    return parse_column_name(node)


def _negated(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    inner = parse_expression(node.this)
    if isinstance(inner, Literal) and isinstance(inner.value, Fraction):
        return Literal(-inner.value)
    return FunctionCall("negate", (inner,))


def _of_two(name: str) -> Callable[[exp.Expression], Expression]:
    def read(node: exp.Expression) -> Expression:
        refuse_other_parts(node, "this", "expression", "typed", "safe")
        return FunctionCall(name, (parse_expression(node.this), parse_expression(node.expression)))

    return read


def _of_one(name: str) -> Callable[[exp.Expression], Expression]:
    def read(node: exp.Expression) -> Expression:
        refuse_other_parts(node, "this")
        return FunctionCall(name, (parse_expression(node.this),))

    return read


def _of_many(name: str) -> Callable[[exp.Expression], Expression]:
    def read(node: exp.Expression) -> Expression:
        refuse_other_parts(node, "this", "expressions", "ignore_nulls")
        return FunctionCall(name, tuple(parse_expression(each) for each in (node.this, *node.expressions)))

    return read


def _round(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "decimals")
    digits = node.args.get("decimals")
    return FunctionCall(
        "round", tuple(parse_expression(each) for each in (node.this, digits) if each is not None)
    )


def _substring(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "start", "length")
    parts = (node.this, node.args.get("start"), node.args.get("length"))
    return FunctionCall("substring", tuple(parse_expression(each) for each in parts if each is not None))


def _case(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "ifs", "default")
    branches = tuple(
        (_when(each, node.this), parse_expression(each.args["true"])) for each in node.args["ifs"]
    )
    default = node.args.get("default")
    return Case(branches, Literal(None) if default is None else parse_expression(default))


def _when(branch: exp.Expression, compared: exp.Expression | None) -> Condition:
    refuse_other_parts(branch, "this", "true")
    if compared is None:
        return parse_condition(branch.this)
    return Comparison(parse_expression(compared), "=", parse_expression(branch.this))


def _if(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "true", "false")
    no = node.args.get("false")
    return Case(
        ((parse_condition(node.this), parse_expression(node.args["true"])),),
        Literal(None) if no is None else parse_expression(no),
    )


# ---- dates -------------------------------------------------------------------------------------------------

_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_FIELDS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "isodow": "weekday",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}


def _truncated(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "unit", "input_type_preserved")
    return FunctionCall(f"truncate_{_unit(node.args.get('unit'), _UNITS)}", (parse_expression(node.this),))


def _extracted(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "expression")
    return FunctionCall(_FIELDS[_unit(node.this, tuple(_FIELDS))], (parse_expression(node.expression),))


def _apart(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "expression", "unit", "date_part_boundary")
    _unit(node.args.get("unit"), ("day",))
    return FunctionCall("days_between", (parse_expression(node.this), parse_expression(node.expression)))


def _interval(node: exp.Expression) -> Expression:
    """Days or weeks, as a number of days."""
    refuse_other_parts(node, "this", "unit")
    unit = _unit(node.args.get("unit"), ("day", "week", "days", "weeks"))
    typed = str(node.this.this) if isinstance(node.this, exp.Literal) else ""
    if not typed.isdecimal() or len(typed) > 7:
        raise PolicyError("SF-Q131", "An interval is a whole number of days or weeks.", try_="INTERVAL 7 DAY")
    return Literal(Fraction(int(typed) * (7 if unit.startswith("week") else 1)))


def _unit(node: Any, known: tuple[str, ...]) -> str:
    name = str(node.this).lower() if isinstance(node, exp.Var | exp.Literal) else ""
    if name in known:
        return name
    raise PolicyError(
        "SF-Q131",
        "This part of the calendar is not known here.",
        known=", ".join(known),
        try_=f"'{known[-1]}'",
    )


_CASTS = {
    exp.DataType.Type.INT: "round",
    exp.DataType.Type.BIGINT: "round",
    exp.DataType.Type.SMALLINT: "round",
    exp.DataType.Type.DOUBLE: None,
    exp.DataType.Type.FLOAT: None,
    exp.DataType.Type.DATE: "truncate_day",
}


_MOMENTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)


def _cast(node: exp.Expression) -> Expression:
    """DATE '2024-01-31' and its like are literals; numbers are rounded by CAST(… AS INTEGER)."""
    refuse_other_parts(node, "this", "to")
    to = node.args["to"].this if isinstance(node.args.get("to"), exp.DataType) else None
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return Literal(_moment(parse_text(node.this), to))
    if to not in _CASTS:
        raise PolicyError("SF-Q147", "This CAST is not known.", try_="CAST(x AS INTEGER), or CAST(x AS DATE)")
    name = _CASTS[to]
    return parse_expression(node.this) if name is None else FunctionCall(name, (parse_expression(node.this),))


def _moment(typed: str, to: Any) -> date:
    moment = parse_moment(typed)
    if moment is None or to not in (exp.DataType.Type.DATE, *_MOMENTS):
        raise PolicyError("SF-Q131", "This is not a date.", try_="DATE '2024-01-31'")
    if to is exp.DataType.Type.DATE:
        return date(moment.year, moment.month, moment.day)
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time.min)


# ---- functions that the parser has no node for -------------------------------------------------------------

_NAMED = {"suffix": "ends_with", "prefix": "starts_with", "isodow": "weekday"}


def _anonymous(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "expressions")
    name = str(node.this).lower()
    if name == "date_part" and len(node.expressions) == 2:
        return FunctionCall(
            _FIELDS[_unit(node.expressions[0], tuple(_FIELDS))], (parse_expression(node.expressions[1]),)
        )
    if name in _NAMED:
        return FunctionCall(_NAMED[name], tuple(map(parse_expression, node.expressions)))
    raise PolicyError("SF-Q147", f"There is no function {name[:40]} here.", try_="see the list of functions")


# ---- figures of one unit's rows ----------------------------------------------------------------------------

_FIGURES: dict[type[exp.Expression], str] = {exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}


def _figure(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    return UnitAggregate(_FIGURES[type(node)], parse_expression(node.this))


def _count(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "big_int")
    if counts_rows(node.this):
        return UnitAggregate("count")
    if isinstance(node.this, exp.Distinct):
        raise PolicyError(
            "SF-Q149", "Different values of one unit cannot be counted here.", try_="COUNT(*), or COUNT(x)"
        )
    return UnitAggregate("count", parse_expression(node.this))


def counts_rows(argument: Any) -> bool:
    """Whether what COUNT takes stands for every row."""
    if isinstance(argument, exp.Star):
        refuse_other_parts(argument)
        return True
    return isinstance(argument, exp.Literal) and not argument.is_string


_VALUES: dict[type[exp.Expression], Callable[[exp.Expression], Expression]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Neg: _negated,
    exp.Literal: lambda node: Literal(parse_literal(node)),
    exp.Null: lambda node: Literal(None),
    exp.Boolean: lambda node: Literal(parse_literal(node)),
    exp.Add: _of_two("add"),
    exp.Sub: _of_two("subtract"),
    exp.Mul: _of_two("multiply"),
    exp.Div: _of_two("divide"),
    exp.IntDiv: _of_two("integer_divide"),
    exp.Mod: _of_two("modulo"),
    exp.Pow: _of_two("power"),
    exp.Nullif: _of_two("nullif"),
    exp.StartsWith: _of_two("starts_with"),
    exp.EndsWith: _of_two("ends_with"),
    exp.Contains: _of_two("contains"),
    exp.Left: _of_two("left"),
    exp.Abs: _of_one("abs"),
    exp.Sign: _of_one("sign"),
    exp.Floor: _of_one("floor"),
    exp.Ceil: _of_one("ceil"),
    exp.Lower: _of_one("lower"),
    exp.Upper: _of_one("upper"),
    exp.Length: _of_one("length"),
    exp.Year: _of_one("year"),
    exp.Month: _of_one("month"),
    exp.Day: _of_one("day"),
    exp.Quarter: _of_one("quarter"),
    exp.Hour: _of_one("hour"),
    exp.Minute: _of_one("minute"),
    exp.Second: _of_one("second"),
    exp.DayOfWeekIso: _of_one("weekday"),
    exp.Coalesce: _of_many("coalesce"),
    exp.Least: _of_many("least"),
    exp.Greatest: _of_many("greatest"),
    exp.Round: _round,
    exp.Substring: _substring,
    exp.Case: _case,
    exp.If: _if,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.Extract: _extracted,
    exp.DateDiff: _apart,
    exp.Interval: _interval,
    exp.Cast: _cast,
    exp.Anonymous: _anonymous,
    exp.Count: _count,
    **dict.fromkeys(_FIGURES, _figure),
}


# ---- conditions --------------------------------------------------------------------------------------------


def parse_condition(node: exp.Expression) -> Condition:
    for kind, read in _CONDITIONS.items():
        if type(node) is kind:
            return read(node)
    if type(node) in _BOOLEANS:
        return IsTrue(parse_expression(node))
    raise PolicyError(
        "SF-Q105",
        "WHERE takes comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL.",
        got=describe_node(node),
        try_="WHERE age >= 65 AND ward IN ('A', 'B')",
    )


_BOOLEANS = (
    exp.Column,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
    exp.Anonymous,
    exp.Boolean,
    exp.Case,
    exp.Coalesce,
)


def _within(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this")
    return parse_condition(node.this)


def _not(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this")
    return Negation(parse_condition(node.this))


def _both(node: exp.Expression) -> Condition:
    return Conjunction(tuple(parse_condition(part) for part in parse_sides(node)))


def _either(node: exp.Expression) -> Condition:
    return Disjunction(tuple(parse_condition(part) for part in parse_sides(node)))


def _comparison(node: exp.Expression) -> Condition:
    left, right = (parse_expression(part) for part in parse_sides(node))
    if isinstance(left, Literal) and isinstance(right, Literal):
        raise PolicyError("SF-Q105", "A comparison names a column.", try_="age >= 65")
    return Comparison(left, COMPARISONS[type(node)], right)


def _differs(node: exp.Expression) -> Condition:
    left, right = parse_sides(node)
    return Negation(_comparison(exp.EQ(this=left, expression=right)))


def _in(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "expressions")
    part = parse_expression(node.this)
    return Disjunction(tuple(Comparison(part, "=", parse_expression(item)) for item in node.expressions))


def _between(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "low", "high")
    part = parse_expression(node.this)
    low, high = parse_expression(node.args["low"]), parse_expression(node.args["high"])
    return Conjunction((Comparison(part, ">=", low), Comparison(part, "<=", high)))


def _is(node: exp.Expression) -> Condition:
    left, right = parse_sides(node)
    if isinstance(right, exp.Null):
        return IsNull(parse_expression(left))
    raise PolicyError(
        "SF-Q105", "IS is followed by NULL or NOT NULL.", got=describe_node(right), try_="age IS NULL"
    )


def _like(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "expression", "negate")
    return _perhaps_not(node, Like(parse_expression(node.this), _pattern(node.expression)))


def _perhaps_not(node: exp.Expression, holds: Condition) -> Condition:
    return Negation(holds) if node.args.get("negate") else holds


def _pattern(node: exp.Expression) -> str:
    """As typed: a backslash stands for itself."""
    return parse_text(node).replace("\\", "\\\\")


def _ilike(node: exp.Expression) -> Condition:
    """Letters of ASCII alone are the same large and small."""
    refuse_other_parts(node, "this", "expression", "negate")
    small = "".join(_small(each) for each in _pattern(node.expression))
    return _perhaps_not(node, Like(FunctionCall("lower", (parse_expression(node.this),)), small))


def _small(letter: str) -> str:
    return letter.lower() if letter.isascii() else letter


_CONDITIONS: dict[type[exp.Expression], Callable[[exp.Expression], Condition]] = {
    exp.Paren: _within,
    exp.Not: _not,
    exp.And: _both,
    exp.Or: _either,
    exp.NEQ: _differs,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _ilike,
    **dict.fromkeys(COMPARISONS, _comparison),
}
