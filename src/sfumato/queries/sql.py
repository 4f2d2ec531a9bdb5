"""SQL into a question. sqlglot parses; a closed list of nodes is read; everything else is refused.

Nothing of the analyst's text goes further than the names and literals picked here: the curator looks the
names up in the catalog and puts the literals on the catalog's grids.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from sfumato.curator.question.measurement import GroupKey, Output, Question
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.queries import answer_clauses
from sfumato.queries import expressions as conditions
from sfumato.queries.answer_clauses import GroupByKeys
from sfumato.queries.figures import default_name, parse_figure
from sfumato.queries.leaves import parse_column_name, parse_identifier, refuse_other_parts
from sfumato.queries.questions import check_question
from sfumato.queries.relations import optional_names, parse_group_key, parse_rows, parse_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.question.relation import Condition, Expression

LONGEST = 20_000
DEEPEST = 60


def parse_question(text: str) -> Question:
    """The question a SELECT asks, or a coded refusal."""
    select = _only_select(text)
    refuse_other_parts(
        select,
        "with_",
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
    )
    relation = parse_rows(select, parse_with(select, {}))
    keys = _keys(select)
    outputs = tuple(_output(item, keys) for item in select.expressions)
    return check_question(Question(relation, keys.expressions, outputs, **_after(select, keys, outputs)))


def parse_condition_text(text: str) -> Condition:
    """The condition that a text after WHERE would say, or a coded refusal."""
    return conditions.parse_condition(parse_condition_node(text))


def parse_condition_node(text: str) -> exp.Expression:
    """The node of a condition, yet to be read."""
    return _one(text, "a condition", "age >= 65")


def parse_expression_text(text: str) -> Expression:
    """The value that a text in a SELECT would compute, or a coded refusal."""
    return conditions.parse_expression(_one(text, "an expression", "cost * 2"))


def _one(text: str, what: str, example: str) -> exp.Expression:
    dialect = sqlglot.Dialect.get_or_raise("duckdb")
    parsed = _parsed(text, lambda: dialect.parse_into(exp.Condition, text))
    if len(parsed) != 1 or parsed[0] is None:
        raise PolicyError("SF-Q101", f"This is not {what} that can be read.", try_=f'"{example}"')
    node: exp.Expression = parsed[0]
    return node


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


# ---- groups ------------------------------------------------------------------------------------------------


def _keys(select: exp.Select) -> GroupByKeys:
    group = select.args.get("group")
    if group is None:
        return GroupByKeys((), frozenset())
    refuse_other_parts(group, "expressions")
    said = tuple(parse_group_key(item, select.expressions) for item in group.expressions)
    return GroupByKeys(said, optional_names(select))


# ---- what is shown -----------------------------------------------------------------------------------------


def _output(item: exp.Expression, keys: GroupByKeys) -> Output:
    alias = None
    if isinstance(item, exp.Alias):
        refuse_other_parts(item, "this", "alias")
        alias, item = parse_identifier(item.args["alias"]), item.this
    place = keys.find_place(item)
    if place is not None:
        return Output(alias or _key_name(keys.expressions[place]), GroupKey(place))
    if isinstance(item, exp.Column):
        name = str(parse_column_name(item))[:80]
        raise PolicyError(
            "SF-Q108",
            f"'{name}' is shown row by row, which nothing may be.",
            try_=f"GROUP BY {name}, or an aggregate of it",
        )
    shown = parse_figure(item, {})
    if isinstance(shown, Fraction):
        raise PolicyError("SF-Q104", "A number typed in is known already.", try_="COUNT(*)")
    return Output(alias or default_name(shown), shown)


def _key_name(key: Expression) -> str:
    if isinstance(key, Name):
        return key.column
    raise PolicyError("SF-Q118", "A computed group needs a name.", try_="FLOOR(age / 10) AS decade")


def _after(select: exp.Select, keys: GroupByKeys, outputs: tuple[Output, ...]) -> dict[str, Any]:
    """The parts of a question that are done after the noise."""
    clauses: dict[str, Any] = {name: clause for name, clause in select.args.items() if clause}
    after: dict[str, Any] = {
        name: answer_clauses.parse_limit(clauses[name]) for name in ("limit", "offset") if name in clauses
    }
    if "having" in clauses:
        after["having"] = answer_clauses.parse_having(
            clauses["having"].this, answer_clauses.name_numbers(outputs)
        )
    if "order" in clauses:
        after["order"] = answer_clauses.parse_order_by(clauses["order"], keys, outputs)
    return after
