"""SQL into a question. sqlglot parses; a closed list of nodes is read; everything else is refused.

Nothing of the analyst's text goes further than the names and literals picked here: the curator looks the
names up in the catalog and puts the literals on the catalog's grids.
"""

from __future__ import annotations

from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.curator.measurement import Key, Output, Question
from sfumato.curator.relation import AllOf, Relation
from sfumato.errors import PolicyError
from sfumato.queries.aggregates import aggregate, default_name
from sfumato.queries.conditions import condition
from sfumato.queries.leaves import column, identifier, only, shape

LONGEST = 20_000
DEEPEST = 60


def question(text: str) -> Question:
    """The question a SELECT asks, or a coded refusal."""
    select = _only_select(text)
    only(select, "expressions", "from_", "where", "group")
    _unqualify(select)
    where = condition(select.args["where"].this) if select.args.get("where") else AllOf()
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
    only(source, "this")
    only(source.this, "this", "alias")
    if source.this.args.get("alias"):
        only(source.this.args["alias"], "this")
    return identifier(source.this.this)


def _unqualify(select: exp.Select) -> None:
    """With one table its name or alias before a column says nothing, so it is dropped."""
    table = _table(select)
    known = {table.casefold(), select.args["from_"].this.alias_or_name.casefold()}
    for each in select.find_all(exp.Column):
        if each.table.casefold() in known:
            each.set("table", None)


def _keys(select: exp.Select) -> tuple[str, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    only(group, "expressions")
    keys = tuple(
        column(item) if isinstance(item, exp.Column) else _not_a_key(item) for item in group.expressions
    )
    if len(set(keys)) < len(keys):
        raise PolicyError("SF-Q109", "GROUP BY names a column twice.")
    return keys


def _not_a_key(item: exp.Expression) -> NoReturn:
    raise PolicyError(
        "SF-Q109", "GROUP BY takes the names of declared columns.", got=shape(item), try_="GROUP BY ward"
    )


# ---- what is shown -----------------------------------------------------------------------------------------


def _output(item: exp.Expression, keys: tuple[str, ...]) -> Output:
    alias = None
    if isinstance(item, exp.Alias):
        only(item, "this", "alias")
        alias, item = identifier(item.args["alias"]), item.this
    if isinstance(item, exp.Column):
        name = column(item)
        if name.casefold() not in [key.casefold() for key in keys]:
            raise PolicyError(
                "SF-Q108",
                f"'{name}' is shown row by row, which nothing may be.",
                try_=f"GROUP BY {name}, or an aggregate of it",
            )
        return Output(alias or name, Key(name))
    shown = aggregate(item)
    return Output(alias or default_name(shown), shown)


def _check_outputs(outputs: tuple[Output, ...]) -> None:
    names = [output.name.casefold() for output in outputs]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q115", "Two columns of the answer have the same name.", try_="AS another_name")
    if all(isinstance(output.shows, Key) for output in outputs):
        raise PolicyError(
            "SF-Q116", "A question asks for at least one aggregate.", try_="SELECT COUNT(*) FROM …"
        )
