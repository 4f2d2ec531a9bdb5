"""SQL into a question. sqlglot parses; a closed list of nodes is read; everything else is refused.

Nothing of the analyst's text goes further than the names and literals picked here: the curator looks the
names up in the catalog and puts the literals on the catalog's grids.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from sfumato.curator.measurement import Key, Output, Question
from sfumato.curator.relation import AllOf, Condition, Relation
from sfumato.errors import PolicyError
from sfumato.queries import answers, conditions
from sfumato.queries.figures import default_name, figure
from sfumato.queries.leaves import column, identifier, only, position, shape
from sfumato.queries.questions import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST = 20_000
DEEPEST = 60


def question(text: str) -> Question:
    """The question a SELECT asks, or a coded refusal."""
    select = _only_select(text)
    only(select, "expressions", "from_", "where", "group", "having", "order", "limit", "offset")
    _unqualify(select, _table(select), select.args["from_"].this.alias_or_name)
    where = conditions.condition(select.args["where"].this) if select.args.get("where") else AllOf()
    keys = _keys(select)
    outputs = tuple(_output(item, keys) for item in select.expressions)
    return checked(Question(Relation(_table(select), where), keys, outputs, **_after(select, keys, outputs)))


def condition(text: str, table: str) -> Condition:
    """The condition that a text after WHERE would say, or a coded refusal."""
    dialect = sqlglot.Dialect.get_or_raise("duckdb")
    parsed = _parsed(text, lambda: dialect.parse_into(exp.Condition, text))
    if len(parsed) != 1 or parsed[0] is None:
        raise PolicyError("SF-Q101", "This is not a condition that can be read.", try_='"age >= 65"')
    _unqualify(parsed[0], table)
    return conditions.condition(parsed[0])


# ---- the statement -----------------------------------------------------------------------------------------


def _only_select(text: str) -> exp.Select:
    statements = _parsed(text, lambda: sqlglot.parse(text, dialect="duckdb"))
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise PolicyError("SF-Q102", "A question is one SELECT statement.", try_="SELECT COUNT(*) FROM …")
    return statements[0]


def _parsed(text: str, parse: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise PolicyError("SF-Q113", f"A question is a text of at most {LONGEST:,} characters.")
    try:
        statements = parse()
        deep = any(statement and _depth(statement) > DEEPEST for statement in statements)
    except Exception as problem:  # some texts, such as {:1}, make sqlglot fail in ways of its own
        raise PolicyError("SF-Q101", "This is not SQL that can be read.", **_place(problem)) from None
    if deep:
        raise PolicyError("SF-Q113", f"A question is at most {DEEPEST} levels deep.")
    return statements


def _place(problem: Exception) -> dict[str, str]:
    details = getattr(problem, "errors", None) or [{}]
    line, place = details[0].get("line"), details[0].get("col")
    return {"where": f"line {line}, column {place}"} if line else {}


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


def _unqualify(root: exp.Expression, *tables: str) -> None:
    """With one table its name or alias before a column says nothing, so it is dropped."""
    known = {table.casefold() for table in tables}
    for each in root.find_all(exp.Column):
        if each.table.casefold() in known:
            each.set("table", None)


# ---- groups ------------------------------------------------------------------------------------------------


def _keys(select: exp.Select) -> tuple[str, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    only(group, "expressions")
    return tuple(_key(item, select.expressions) for item in group.expressions)


def _key(item: exp.Expression, shown: Sequence[exp.Expression]) -> str:
    """A column's name, the other name it is shown by, or its position among what is shown."""
    if isinstance(item, exp.Literal):
        return _key_column(shown[position(item, len(shown))].unalias())
    name = _key_column(item)
    aliased = {each.alias.casefold(): each.this for each in shown if isinstance(each, exp.Alias)}
    return _key_column(aliased.get(name.casefold(), item))


def _key_column(item: exp.Expr) -> str:
    if isinstance(item, exp.Column):
        return column(item)
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
    shown = figure(item, {})
    if isinstance(shown, Fraction):
        raise PolicyError("SF-Q104", "A number typed in is known already.", try_="COUNT(*)")
    return Output(alias or default_name(shown), shown)


def _after(select: exp.Select, keys: tuple[str, ...], outputs: tuple[Output, ...]) -> dict[str, Any]:
    """The parts of a question that are done after the noise."""
    clauses: dict[str, Any] = {name: clause for name, clause in select.args.items() if clause}
    after: dict[str, Any] = {
        name: answers.most(clauses[name]) for name in ("limit", "offset") if name in clauses
    }
    if "having" in clauses:
        after["having"] = answers.having(clauses["having"].this, answers.numbers(outputs))
    if "order" in clauses:
        after["order"] = answers.orders(clauses["order"], keys, outputs)
    return after
