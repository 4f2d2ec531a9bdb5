"""SQL into a question. sqlglot parses; a closed list of nodes is read; everything else is refused.

Nothing of the analyst's text goes further than the names and literals picked here: the curator looks the
names up in the catalog and puts the literals on the catalog's grids.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.curator.measurement import Aggregate, Count, Key, Mean, Output, Question, Sum
from sfumato.curator.relation import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    IsMissing,
    Negation,
    Relation,
    Scalar,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 20_000
DEEPEST = 60

_COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}  # each operator, and the one to use when the literal stands on the left


def question(text: str) -> Question:
    """The question a SELECT asks, or a coded refusal."""
    select = _only_select(text)
    _only(select, "expressions", "from_", "where", "group")
    _unqualify(select)
    where = _condition(select.args["where"].this) if select.args.get("where") else AllOf()
    relation = Relation(_table(select), where)
    keys = _keys(select)
    outputs = tuple(_output(item, keys) for item in select.expressions)
    _check_outputs(outputs)
    return Question(relation, keys, outputs)


# ---- the statement -----------------------------------------------------------------------------------------


def _only_select(text: str) -> exp.Select:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise PolicyError("SF-Q113", f"A question is a text of at most {LONGEST:,} characters.")
    try:
        statements = sqlglot.parse(text, dialect="duckdb")
        deep = any(statement and _depth(statement) > DEEPEST for statement in statements)
    except (SqlglotError, RecursionError, ValueError) as problem:
        raise PolicyError("SF-Q101", "This is not SQL that can be read.", **_place(problem)) from None
    if deep:
        raise PolicyError("SF-Q113", f"A question is at most {DEEPEST} levels deep.")
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise PolicyError("SF-Q102", "A question is one SELECT statement.", try_="SELECT COUNT(*) FROM …")
    return statements[0]


def _place(problem: Exception) -> dict[str, str]:
    details = getattr(problem, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    return {"where": f"line {line}, column {column}"} if line else {}


def _depth(root: exp.Expr) -> int:
    deepest, stack = 0, [(root, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in node.iter_expressions())
    return deepest


def _table(select: exp.Select) -> str:
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        raise PolicyError("SF-Q103", "A question is asked of one registered table.", try_="… FROM visits")
    _only(source, "this")
    _only(source.this, "this", "alias")
    if source.this.args.get("alias"):
        _only(source.this.args["alias"], "this")
    return _identifier(source.this.this)


def _unqualify(select: exp.Select) -> None:
    """With one table its name or alias before a column says nothing, so it is dropped."""
    table = _table(select)
    known = {table.casefold(), select.args["from_"].this.alias_or_name.casefold()}
    for column in select.find_all(exp.Column):
        if column.table.casefold() in known:
            column.set("table", None)


def _keys(select: exp.Select) -> tuple[str, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    _only(group, "expressions")
    keys = tuple(
        _column(item) if isinstance(item, exp.Column) else _not_a_key(item) for item in group.expressions
    )
    if len(set(keys)) < len(keys):
        raise PolicyError("SF-Q109", "GROUP BY names a column twice.")
    return keys


def _not_a_key(item: exp.Expression) -> NoReturn:
    raise PolicyError(
        "SF-Q109", "GROUP BY takes the names of declared columns.", got=_shape(item), try_="GROUP BY ward"
    )


# ---- what is shown -----------------------------------------------------------------------------------------


def _output(item: exp.Expression, keys: tuple[str, ...]) -> Output:
    alias = None
    if isinstance(item, exp.Alias):
        _only(item, "this", "alias")
        alias, item = _identifier(item.args["alias"]), item.this
    if isinstance(item, exp.Column):
        column = _column(item)
        if column.casefold() not in [key.casefold() for key in keys]:
            raise PolicyError(
                "SF-Q108",
                f"'{column}' is shown row by row, which nothing may be.",
                try_=f"GROUP BY {column}, or an aggregate of it",
            )
        return Output(alias or column, Key(column))
    aggregate = _aggregate(item)
    return Output(alias or _default_name(aggregate), aggregate)


def _aggregate(item: exp.Expression) -> Aggregate:
    if isinstance(item, exp.Count):
        _only(item, "this", "big_int")
        return Count() if _counts_rows(item.this) else Count(_argument(item))
    if isinstance(item, exp.Sum | exp.Avg):
        _only(item, "this")
        return Sum(_argument(item)) if isinstance(item, exp.Sum) else Mean(_argument(item))
    raise PolicyError(
        "SF-Q104",
        "Only COUNT, SUM, AVG and the columns of GROUP BY can be shown.",
        got=_shape(item),
        try_="SELECT ward, COUNT(*) AS n … GROUP BY ward",
    )


def _counts_rows(argument: Any) -> bool:
    if isinstance(argument, exp.Star):
        _only(argument)
        return True
    return isinstance(argument, exp.Literal) and not argument.is_string


def _argument(item: exp.Expression) -> str:
    if isinstance(item.this, exp.Column):
        return _column(item.this)
    raise PolicyError(
        "SF-Q105",
        "An aggregate takes the name of one declared column.",
        got=_shape(item.this),
        try_=f"{item.key.upper()}(cost)",
    )


def _default_name(aggregate: Aggregate) -> str:
    kind = {Count: "count", Sum: "sum", Mean: "avg"}[type(aggregate)]
    return kind if aggregate.column is None else f"{kind}_{aggregate.column}"


def _check_outputs(outputs: tuple[Output, ...]) -> None:
    names = [output.name.casefold() for output in outputs]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q115", "Two columns of the answer have the same name.", try_="AS another_name")
    if all(isinstance(output.shows, Key) for output in outputs):
        raise PolicyError(
            "SF-Q116", "A question asks for at least one COUNT, SUM or AVG.", try_="SELECT COUNT(*) FROM …"
        )


# ---- which rows --------------------------------------------------------------------------------------------


def _condition(node: exp.Expression) -> Condition:
    for kind, read in _CONDITIONS.items():
        if type(node) is kind:
            return read(node)
    raise PolicyError(
        "SF-Q105",
        "WHERE takes comparisons of declared columns with values, AND, OR, NOT, IN, BETWEEN and IS NULL.",
        got=_shape(node),
        try_="WHERE age >= 65 AND ward IN ('A', 'B')",
    )


def _paren(node: exp.Expression) -> Condition:
    _only(node, "this")
    return _condition(node.this)


def _not(node: exp.Expression) -> Condition:
    _only(node, "this")
    return Negation(_condition(node.this))


def _both(node: exp.Expression) -> Condition:
    return AllOf(tuple(_condition(part) for part in _sides(node)))


def _either(node: exp.Expression) -> Condition:
    return AnyOf(tuple(_condition(part) for part in _sides(node)))


def _comparison(node: exp.Expression) -> Condition:
    left, right = _sides(node)
    straight, turned = _COMPARISONS[type(node)]
    if isinstance(left, exp.Column):
        return Comparison(_column(left), straight, _literal(right))
    return Comparison(_named(right), turned, _literal(left))


def _differs(node: exp.Expression) -> Condition:
    left, right = _sides(node)
    equal = exp.EQ(this=left, expression=right)
    return Negation(_comparison(equal))


def _in(node: exp.Expression) -> Condition:
    _only(node, "this", "expressions")
    column = _named(node.this)
    return AnyOf(tuple(Comparison(column, "=", _literal(item)) for item in node.expressions))


def _between(node: exp.Expression) -> Condition:
    _only(node, "this", "low", "high")
    column = _named(node.this)
    low, high = _literal(node.args["low"]), _literal(node.args["high"])
    return AllOf((Comparison(column, ">=", low), Comparison(column, "<=", high)))


def _is(node: exp.Expression) -> Condition:
    left, right = _sides(node)
    if isinstance(right, exp.Null):
        return IsMissing(_named(left))
    raise PolicyError("SF-Q105", "IS is followed by NULL or NOT NULL.", got=_shape(right), try_="age IS NULL")


_CONDITIONS: dict[type[exp.Expression], Callable[[exp.Expression], Condition]] = {
    exp.Paren: _paren,
    exp.Not: _not,
    exp.And: _both,
    exp.Or: _either,
    exp.NEQ: _differs,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    **dict.fromkeys(_COMPARISONS, _comparison),
}


# ---- leaves ------------------------------------------------------------------------------------------------


def _sides(node: exp.Expression) -> tuple[exp.Expression, exp.Expression]:
    _only(node, "this", "expression")
    return node.this, node.expression


def _named(node: exp.Expression) -> str:
    if isinstance(node, exp.Column):
        return _column(node)
    raise PolicyError(
        "SF-Q105", "A comparison names one declared column.", got=_shape(node), try_="age >= 65"
    )


def _column(node: exp.Column) -> str:
    _only(node, "this")
    return _identifier(node.this)


def _identifier(node: Any) -> str:
    if not isinstance(node, exp.Identifier):
        raise PolicyError("SF-Q105", "A name is expected here.", got=_shape(node))
    return str(node.this)


def _literal(node: exp.Expression) -> Scalar:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_figure(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _figure(node)
    if isinstance(node, exp.Column):
        raise PolicyError(
            "SF-Q105",
            "A column is compared with a value, not with another column.",
            try_=f"single quotes, if it is a text: '{_identifier(node.this)}'",
        )
    raise PolicyError(
        "SF-Q105",
        "A column is compared with a number, a text, TRUE or FALSE.",
        got=_shape(node),
        try_="age >= 65",
    )


def _figure(node: exp.Literal) -> Fraction:
    text = str(node.this)
    if len(text) <= 40 and _small_exponent(text):
        try:
            return Fraction(text)
        except ValueError:
            pass
    raise PolicyError("SF-Q111", "This is not a number that can be compared with.", try_="65 or 0.5")


def _small_exponent(text: str) -> bool:
    _, _, exponent = text.lower().partition("e")
    return not exponent or (exponent.lstrip("+-").isdecimal() and abs(int(exponent)) <= 30)


_CLAUSES = {
    "order": ("ORDER BY", "sort the answer: release.to_arrow().sort_by(…)"),
    "limit": ("LIMIT", "cut the answer: release.to_arrow().slice(0, 10)"),
    "having": ("HAVING", "filter the answer: release.to_arrow().filter(…)"),
    "distinct": ("DISTINCT", "GROUP BY the column, if its values are listed"),
    "joins": ("A second table", "register the joined table"),
    "with_": ("WITH", "a question without a subquery"),
    "query": ("A subquery", "a list of values"),
    "db": ("A schema before the table's name", "the table's name alone"),
    "table": ("Another table's name before a column", "the column's name alone"),
    "sample": ("TABLESAMPLE", "the whole table: noise hides people, a sample need not"),
    "columns": ("New names for columns", "the columns' own names"),
    "expressions": ("More than one argument", "one aggregate for each column"),
}


def _only(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that carries anything beyond the parts named."""
    extra = [name for name, part in node.args.items() if part and name not in allowed]
    if extra:
        plain = extra[0].strip("_").replace("_", " ").upper()
        what, instead = _CLAUSES.get(extra[0], (plain, "SELECT … FROM one_table WHERE … GROUP BY …"))
        raise PolicyError("SF-Q103", f"{what} cannot be asked here.", try_=instead)


def _shape(node: Any) -> str:
    """What stands there, in the analyst's own words where it is a function."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}(…)"
    return node.key.upper() if isinstance(node, exp.Expression) else "nothing"
