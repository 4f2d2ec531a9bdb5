"""Parsing of values and conditions: nodes of SQL become expressions that the curator can lower and price.

A closed list of nodes is read, and everything a node carries beyond what is expected is refused.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.lower.texts import fold_ascii
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
    UnitWindow,
)
from sfumato.errors import PolicyError
from sfumato.queries.functions import INSTEAD, read_function_call
from sfumato.queries.leaves import (
    COMPARISONS,
    describe_node,
    parse_column_name,
    parse_date,
    parse_interval,
    parse_literal,
    parse_position,
    parse_sides,
    parse_text,
    refuse_other_parts,
)
from sfumato.queries.patterns import expand_expression

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- values ------------------------------------------------------------------------------------------------


def parse_expression(node: exp.Expression) -> Expression:
    """Return the value that a node computes from a row, or in a subquery by unit from a unit's rows."""
    read = _VALUES.get(type(node))
    if read is not None:
        return read(node)
    call = read_function_call(node)
    if call is not None:
        name, arguments = call
        return FunctionCall(name, tuple(parse_expression(each) for each in arguments))
    if type(node) in _CONDITIONS:
        return Truth(parse_condition(node))
    raise _unsupported(node)


def _unsupported(node: exp.Expression) -> PolicyError:
    what = describe_node(node)
    if isinstance(node, exp.AggFunc):
        return PolicyError(
            "SF-Q105",
            f"{what} is not supported within the rows of one unit.",
            known="COUNT, SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, FIRST and LAST with ORDER BY",
            try_="SELECT patient_id, SUM(cost) AS cost FROM visits GROUP BY patient_id",
        )
    if isinstance(node, exp.Subquery | exp.Select):
        return PolicyError(
            "SF-Q105",
            "A number from a subquery is not supported here.",
            why="a number about people is only available with noise, and is paid for",
            try_="ask SELECT AVG(cost) FROM visits first, then compare with the number that was released",
        )
    return PolicyError(
        "SF-Q105",
        f"{'Function ' if isinstance(node, exp.Func) else ''}{what} is not supported.",
        known="all functions of a row are listed in docs/sql.md",
        try_=INSTEAD.get(what, "cost * 2, CASE WHEN age >= 65 THEN 1 ELSE 0 END, DATE_TRUNC('month', day)"),
    )


def _parse_parenthesis(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    return parse_expression(node.this)


def _parse_column(node: exp.Expression) -> Expression:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        raise PolicyError("SF-Q105", "* is not supported here.", try_="the columns by their names")
    return parse_column_name(node)


def _parse_minus(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    inner = parse_expression(node.this)
    # -1 is a constant, so that comparisons with it and arguments such as the digits of ROUND see one.
    if isinstance(inner, Literal) and isinstance(inner.value, Fraction):
        return Literal(-inner.value)
    return FunctionCall("negate", (inner,))


def _parse_case(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "ifs", "default")
    branches = tuple(
        (_parse_when(each, node.this), parse_expression(each.args["true"])) for each in node.args["ifs"]
    )
    return Case(branches, _parse_otherwise(node.args.get("default")))


def _parse_when(branch: exp.Expression, compared: exp.Expression | None) -> Condition:
    refuse_other_parts(branch, "this", "true")
    if compared is None:
        return parse_condition(branch.this)
    return Comparison(parse_expression(compared), "=", parse_expression(branch.this))


def _parse_if(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "true", "false")
    branch = (parse_condition(node.this), parse_expression(node.args["true"]))
    return Case((branch,), _parse_otherwise(node.args.get("false")))


def _parse_otherwise(node: exp.Expression | None) -> Expression:
    return Literal(None) if node is None else parse_expression(node)


_CASTS = {
    exp.DataType.Type.INT: "round",
    exp.DataType.Type.BIGINT: "round",
    exp.DataType.Type.SMALLINT: "round",
    exp.DataType.Type.DOUBLE: None,
    exp.DataType.Type.FLOAT: None,
    exp.DataType.Type.DATE: "truncate_day",
}


def _parse_cast(node: exp.Expression) -> Expression:
    """DATE '2024-01-31' and its like are literals; numbers are rounded by CAST(… AS INTEGER)."""
    refuse_other_parts(node, "this", "to")
    to = node.args["to"].this if isinstance(node.args.get("to"), exp.DataType) else None
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return Literal(parse_date(parse_text(node.this), to))
    if to not in _CASTS:
        raise PolicyError(
            "SF-Q105", "CAST to this type is not supported.", try_="CAST(x AS INTEGER), or CAST(x AS DATE)"
        )
    name = _CASTS[to]
    return parse_expression(node.this) if name is None else FunctionCall(name, (parse_expression(node.this),))


# ---- aggregates of one unit's rows -------------------------------------------------------------------------

_UNIT_ENDS: dict[type[exp.Expression], str] = {
    exp.ArgMin: "arg_min",
    exp.ArgMax: "arg_max",
    exp.First: "first",
    exp.Last: "last",
}


def _parse_unit_end(node: exp.Expression) -> Expression:
    """arg_min(x, t), arg_max(x, t), and FIRST and LAST of x in an order."""
    figure = _UNIT_ENDS[type(node)]
    refuse_other_parts(node, "this", "expression")
    if figure.startswith("arg"):
        return UnitAggregate(figure, parse_expression(node.this), parse_expression(node.expression))
    ordered = node.this.expressions if isinstance(node.this, exp.Order) else []
    if len(ordered) != 1:
        raise PolicyError(
            "SF-Q104", f"{figure.upper()} needs an order.", try_=f"{figure.upper()}(cost ORDER BY day)"
        )
    by, falls = parse_ordered(ordered[0])
    # The first of a descending order is the last of the ascending one.
    meant = {"first": "last", "last": "first"}[figure] if falls else figure
    return UnitAggregate(meant, parse_expression(node.this.this), by)


def parse_ordered(node: exp.Expression) -> tuple[Expression, bool]:
    """Return an expression of ORDER BY and whether it descends; missing values come last either way."""
    refuse_other_parts(node, "this", "desc", "nulls_first")
    if node.args.get("nulls_first"):
        raise PolicyError("SF-Q103", "NULLS FIRST is not supported here.", try_="ORDER BY … NULLS LAST")
    return parse_expression(node.this), bool(node.args.get("desc"))


# ---- rows of one unit in an order --------------------------------------------------------------------------

_WINDOWS: dict[type[exp.Expression], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
}


def _parse_window(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "partition_by", "order", "over")
    function, order = node.this, node.args.get("order")
    if type(function) not in _WINDOWS or order is None:
        raise PolicyError(
            "SF-Q105",
            f"{describe_node(function)} OVER (…) is not supported within the rows of one unit.",
            known="ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, each with ORDER BY",
            try_="LAG(day) OVER (PARTITION BY patient_id ORDER BY day), or a subquery grouped by the unit",
        )
    refuse_other_parts(function, "this", "offset")
    of, offset = function.args.get("this"), function.args.get("offset")
    return UnitWindow(
        _WINDOWS[type(function)],
        None if of is None else parse_expression(of),
        tuple(parse_expression(each) for each in node.args.get("partition_by") or ()),
        tuple(parse_ordered(each) for each in order.expressions),
        1 if offset is None else parse_position(offset, 1000) + 1,
    )


_UNIT_AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}


def _parse_unit_aggregate(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this")
    return UnitAggregate(_UNIT_AGGREGATES[type(node)], parse_expression(node.this))


def _parse_count(node: exp.Expression) -> Expression:
    refuse_other_parts(node, "this", "big_int")
    if counts_rows(node.this):
        return UnitAggregate("count")
    if isinstance(node.this, exp.Distinct):
        raise PolicyError(
            "SF-Q104", "COUNT(DISTINCT …) is not supported in a subquery.", try_="COUNT(*), or COUNT(x)"
        )
    return UnitAggregate("count", parse_expression(node.this))


def counts_rows(argument: Any) -> bool:
    """Return whether the argument of COUNT stands for every row."""
    if isinstance(argument, exp.Star):
        refuse_other_parts(argument)
        return True
    return isinstance(argument, exp.Literal) and not argument.is_string


_VALUES: dict[type[exp.Expression], Callable[[exp.Expression], Expression]] = {
    exp.Column: _parse_column,
    exp.Paren: _parse_parenthesis,
    exp.Neg: _parse_minus,
    exp.Literal: lambda node: Literal(parse_literal(node)),
    exp.Null: lambda node: Literal(None),
    exp.Boolean: lambda node: Literal(parse_literal(node)),
    exp.Case: _parse_case,
    exp.If: _parse_if,
    exp.Interval: lambda node: Literal(parse_interval(node)),
    exp.Cast: _parse_cast,
    exp.Count: _parse_count,
    exp.Window: _parse_window,
    **dict.fromkeys(_UNIT_AGGREGATES, _parse_unit_aggregate),
    **dict.fromkeys(_UNIT_ENDS, _parse_unit_end),
}


# ---- conditions --------------------------------------------------------------------------------------------


def parse_condition(node: exp.Expression) -> Condition:
    """Return the condition on a row that a node states."""
    read = _CONDITIONS.get(type(node))
    if read is not None:
        return read(node)
    if type(node) in _BOOLEANS:
        return IsTrue(parse_expression(node))
    raise PolicyError(
        "SF-Q105",
        "A condition consists of comparisons, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL.",
        got=describe_node(node),
        try_="WHERE age >= 65 AND ward IN ('A', 'B')",
    )


# Nodes that may be true or false by themselves; whether they are is known when they are lowered.
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


def _parse_nested(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this")
    return parse_condition(node.this)


def _parse_not(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this")
    return Negation(parse_condition(node.this))


def _parse_and(node: exp.Expression) -> Condition:
    return Conjunction(tuple(parse_condition(part) for part in parse_sides(node)))


def _parse_or(node: exp.Expression) -> Condition:
    return Disjunction(tuple(parse_condition(part) for part in parse_sides(node)))


def _parse_comparison(node: exp.Expression) -> Condition:
    left, right = (parse_expression(part) for part in parse_sides(node))
    return Comparison(left, COMPARISONS[type(node)], right)


def _parse_not_equal(node: exp.Expression) -> Condition:
    left, right = parse_sides(node)
    # x <> 1 is NOT x = 1: both are unknown for missing values, and one form finds answers paid for before.
    return Negation(_parse_comparison(exp.EQ(this=left, expression=right)))


def _parse_null_safe(node: exp.Expression) -> Condition:
    """IS NOT DISTINCT FROM and IS DISTINCT FROM: two missing values are alike, and nothing is unknown."""
    left, right = (parse_expression(part) for part in parse_sides(node))
    missing = [IsNull(part) for part in (left, right) if not isinstance(part, Literal)]
    present = tuple(Negation(part) for part in missing)
    equal = Conjunction((*present, Comparison(left, "=", right)))
    alike = Disjunction((equal, Conjunction(tuple(missing)))) if len(missing) == 2 else equal
    return Negation(alike) if isinstance(node, exp.NullSafeNEQ) else alike


def _parse_in(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "expressions")
    part = parse_expression(node.this)
    return Disjunction(tuple(Comparison(part, "=", parse_expression(item)) for item in node.expressions))


def _parse_between(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "low", "high")
    part = parse_expression(node.this)
    low, high = parse_expression(node.args["low"]), parse_expression(node.args["high"])
    return Conjunction((Comparison(part, ">=", low), Comparison(part, "<=", high)))


def _parse_is(node: exp.Expression) -> Condition:
    left, right = parse_sides(node)
    if isinstance(right, exp.Null):
        return IsNull(parse_expression(left))
    raise PolicyError(
        "SF-Q105", "Only IS NULL and IS NOT NULL are supported.", got=describe_node(right), try_="age IS NULL"
    )


def _parse_like(node: exp.Expression) -> Condition:
    refuse_other_parts(node, "this", "expression", "negate")
    return _negate_if_typed(node, Like(parse_expression(node.this), _parse_pattern(node.expression)))


def _negate_if_typed(node: exp.Expression, holds: Condition) -> Condition:
    return Negation(holds) if node.args.get("negate") else holds


def _parse_pattern(node: exp.Expression) -> str:
    """Return the pattern as it was typed: a backslash stands for itself."""
    return parse_text(node).replace("\\", "\\\\")


def _parse_ilike(node: exp.Expression) -> Condition:
    """ILIKE is LIKE of the text in lower case. Only ASCII letters change case, as on every engine."""
    refuse_other_parts(node, "this", "expression", "negate")
    pattern = fold_ascii(_parse_pattern(node.expression), upper=False)
    return _negate_if_typed(node, Like(FunctionCall("lower", (parse_expression(node.this),)), pattern))


def _parse_regular_expression(node: exp.Expression) -> Condition:
    """regexp_matches finds a regular expression anywhere, the others match the whole text."""
    refuse_other_parts(node, "this", "expression", "flag", "full_match")
    text, pattern = parse_expression(node.this), parse_text(node.expression)
    flag = node.args.get("flag")
    blind = isinstance(node, exp.RegexpILike) or (flag is not None and parse_text(flag) == "i")
    if flag is not None and not blind:
        raise PolicyError(
            "SF-Q159", "Only the option 'i' is supported here.", try_="REGEXP_MATCHES(x, 'a', 'i')"
        )
    if blind:
        text, pattern = FunctionCall("lower", (text,)), fold_ascii(pattern, upper=False)
    whole = isinstance(node, exp.RegexpFullMatch | exp.SimilarTo)
    return Disjunction(tuple(Like(text, each) for each in expand_expression(pattern, whole=whole)))


_CONDITIONS: dict[type[exp.Expression], Callable[[exp.Expression], Condition]] = {
    exp.Paren: _parse_nested,
    exp.Not: _parse_not,
    exp.And: _parse_and,
    exp.Or: _parse_or,
    exp.NEQ: _parse_not_equal,
    exp.NullSafeEQ: _parse_null_safe,
    exp.NullSafeNEQ: _parse_null_safe,
    exp.In: _parse_in,
    exp.Between: _parse_between,
    exp.Is: _parse_is,
    exp.Like: _parse_like,
    exp.ILike: _parse_ilike,
    exp.RegexpLike: _parse_regular_expression,
    exp.RegexpILike: _parse_regular_expression,
    exp.RegexpFullMatch: _parse_regular_expression,
    exp.SimilarTo: _parse_regular_expression,
    **dict.fromkeys(COMPARISONS, _parse_comparison),
}
