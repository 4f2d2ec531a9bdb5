"""Parsing of one SELECT: groups of rows, their aggregates, and what is computed from those."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.measurement import GroupKey, Output, Question
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.queries.answer_clauses import GroupByKeys, name_numbers, parse_limit, parse_order_by
from sfumato.queries.expressions import parse_expression
from sfumato.queries.figures import default_name, parse_figure, parse_having
from sfumato.queries.key_conditions import narrow_by_keys
from sfumato.queries.leaves import (
    parse_column_name,
    parse_identifier,
    refuse_other_parts,
    spell_name,
)
from sfumato.queries.relations import RowNames, optional_names, parse_group_key, parse_rows, parse_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.question.relation import Expression
    from sfumato.queries.relations import ListNames

_PARTS = ("with_", "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset")


def parse_select(select: exp.Select, list_names: ListNames | None = None) -> Question:
    """Return the question of a SELECT, in which names of columns come before aliases."""
    if _lists_keys(select):
        return _select_keys(select)
    refuse_other_parts(select, *_PARTS)
    relation = parse_rows(select, parse_with(select, {}))
    names = RowNames(relation, list_names)
    keys, levels = _parse_group_by(select, names)
    if keys.expressions and not levels:
        select, relation = narrow_by_keys(select, relation, keys, names)
    outputs = tuple(_parse_output(item, keys, levels=bool(levels)) for item in select.expressions)
    clauses = _parse_clauses(select, keys, outputs, names)
    return Question(relation, keys.expressions, outputs, levels=levels, **clauses)


def _lists_keys(select: exp.Select) -> bool:
    """Return whether SELECT DISTINCT asks for values of rows and for no number."""
    plain = not any(item.find(exp.AggFunc, exp.Window, exp.Star) for item in select.expressions)
    return plain and select.args.get("distinct") is not None and select.args.get("group") is None


def _select_keys(select: exp.Select) -> Question:
    """Return the question for the groups that there are, by the columns of the SELECT list."""
    refuse_other_parts(
        select, "with_", "expressions", "from_", "joins", "where", "distinct", "order", "limit", "offset"
    )
    refuse_other_parts(select.args["distinct"])
    relation = parse_rows(select, parse_with(select, {}))
    shown = tuple(parse_expression(item.unalias()) for item in select.expressions)
    keys = GroupByKeys(tuple(dict.fromkeys(shown)), optional_names(select))
    outputs = tuple(_parse_output(item, keys) for item in select.expressions)
    clauses = _parse_clauses(select, keys, outputs, RowNames(relation))
    if not all(isinstance(each.by, GroupKey) for each in clauses.get("order", ())):
        raise PolicyError("SF-Q120", "SELECT DISTINCT is sorted by its columns.", try_="ORDER BY 1")
    return Question(relation, keys.expressions, outputs, distinct=True, **clauses)


# ---- groups ------------------------------------------------------------------------------------------------


def _parse_group_by(select: exp.Select, names: RowNames) -> tuple[GroupByKeys, tuple[tuple[int, ...], ...]]:
    """Return the keys, and the places of those of each level where there are several levels."""
    group = select.args.get("group")
    if group is None:
        return GroupByKeys((), frozenset()), ()
    refuse_other_parts(group, "expressions", "all")
    named = _list_ungrouped(select) if group.args.get("all") else group.expressions
    if not any(isinstance(item, _LEVELS) for item in named):
        keys = tuple(parse_group_key(item, select.expressions, names) for item in named)
        return GroupByKeys(keys, optional_names(select)), ()
    places: dict[Expression, int] = {}
    levels: dict[tuple[int, ...], None] = {}
    for level in _list_levels(named):
        found = [parse_group_key(item, select.expressions, names) for item in level]
        levels.setdefault(tuple(sorted({places.setdefault(key, len(places)) for key in found})))
    return GroupByKeys(tuple(places), optional_names(select)), tuple(levels)


_LEVELS = (exp.Rollup, exp.Cube, exp.GroupingSets)
MOST_LEVELS = 64
"""The most levels of one question: each has a part of the spend."""


def _list_levels(items: Sequence[exp.Expression]) -> list[list[exp.Expression]]:
    """Return the keys of each level: of ROLLUP its beginnings, of CUBE all subsets, the finest first."""
    levels: list[list[exp.Expression]] = [[]]
    for item in items:
        own = _levels_of(item)
        _require_few(len(levels) * len(own))
        levels = [level + more for level in levels for more in own]
    return levels


def _require_few(levels: int) -> None:
    if levels > MOST_LEVELS:
        raise PolicyError("SF-Q113", f"A question has at most {MOST_LEVELS} levels.", try_="ROLLUP (a, b)")


def _levels_of(item: exp.Expression) -> list[list[exp.Expression]]:
    parts = item.expressions if isinstance(item, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets) else []
    if isinstance(item, _LEVELS):
        _require_few(len(parts))  # before lists of lists are made
    match item:
        case exp.Paren():
            return _levels_of(item.this)
        case exp.Tuple():
            return [parts]
        case exp.Rollup():
            whole = [_levels_of(part)[0] for part in parts]
            return [[key for part in whole[:size] for key in part] for size in range(len(whole), -1, -1)]
        case exp.Cube() if len(parts) <= 6:
            whole = [_levels_of(part)[0] for part in parts]
            chosen = (
                subset for size in range(len(whole), -1, -1) for subset in itertools.combinations(whole, size)
            )
            return [[key for part in subset for key in part] for subset in chosen]
        case exp.Cube():
            raise PolicyError("SF-Q113", "CUBE takes at most 6 keys.", try_="ROLLUP, or GROUPING SETS")
        case exp.GroupingSets():
            return [level for part in parts for level in _levels_of(part)]
    return [[item]]


def _list_ungrouped(select: exp.Select) -> list[exp.Expression]:
    """Return what GROUP BY ALL means: every column of the answer that has no aggregate in it."""
    return [item.unalias() for item in select.expressions if not item.find(exp.AggFunc, exp.Window)]


# ---- columns of the answer ---------------------------------------------------------------------------------


def _parse_output(item: exp.Expression, keys: GroupByKeys, *, levels: bool = False) -> Output:
    alias, item = _parse_alias(item)
    if levels and isinstance(item, exp.Grouping) and len(item.expressions) == 1:
        marked = keys.find_place(item.expressions[0])
        if marked is not None:
            return Output(alias or spell_name(item), GroupKey(len(keys.expressions) + marked))
    place = keys.find_place(item)
    if place is not None:
        return Output(alias or _key_name(keys.expressions[place], item), GroupKey(place))
    if isinstance(item, exp.Star):
        raise PolicyError(
            "SF-Q108",
            "* asks for the rows themselves.",
            why="single rows are never shown",
            try_="SELECT COUNT(*) FROM visits, or DESCRIBE visits for what is declared",
        )
    if isinstance(item, exp.Column):
        name = str(parse_column_name(item))[:80]
        raise PolicyError(
            "SF-Q108",
            f"'{name}' is neither grouped by nor aggregated.",
            why="single rows are never shown",
            try_=f"GROUP BY {name}, or an aggregate of it",
        )
    shown = parse_figure(item, {})
    if isinstance(shown, Fraction):
        raise PolicyError("SF-Q104", "A column of the answer is a constant.", try_="COUNT(*)")
    return Output(alias or default_name(shown, item), shown)


def _parse_alias(item: exp.Expression) -> tuple[str | None, exp.Expression]:
    if not isinstance(item, exp.Alias):
        return None, item
    refuse_other_parts(item, "this", "alias")
    return parse_identifier(item.args["alias"]), item.this


def _key_name(key: Expression, node: exp.Expression) -> str:
    return key.column if isinstance(key, Name) else spell_name(node)


def _parse_clauses(
    select: exp.Select, keys: GroupByKeys, outputs: tuple[Output, ...], names: RowNames
) -> dict[str, Any]:
    """Return the parts of a question that are applied to the noisy answer."""
    clauses: dict[str, Any] = {name: clause for name, clause in select.args.items() if clause}
    after = _parse_limits(clauses)
    if "having" in clauses:
        having, known = clauses["having"].this, name_numbers(outputs)
        used = {each.name.casefold() for each in having.find_all(exp.Column)} & known.keys()
        hidden = {name for name in used if names.has(name)}
        after["having"] = parse_having(having, {name: known[name] for name in known.keys() - hidden})
    if "order" in clauses:
        after["order"] = parse_order_by(clauses["order"], keys, outputs)
    return after


def _parse_limits(clauses: dict[str, Any]) -> dict[str, Any]:
    return {name: parse_limit(clauses[name]) for name in ("limit", "offset") if clauses.get(name)}
