"""Parsing of one SELECT: groups of rows, their aggregates, and what is computed from those."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.derived import (
    AnswerColumn,
    AnswerOrder,
    AnswerStage,
    AnswerTotal,
    has_part,
    list_columns,
    list_parts,
)
from sfumato.curator.question.description import describe_aggregate
from sfumato.curator.question.measurement import CountOf, GroupKey, Output, Question
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.queries.answer_clauses import (
    GroupByKeys,
    name_numbers,
    parse_having,
    parse_limit,
    parse_order_by,
)
from sfumato.queries.expressions import parse_expression
from sfumato.queries.figures import default_name, parse_figure
from sfumato.queries.leaves import (
    parse_column_name,
    parse_identifier,
    parse_position,
    refuse_other_parts,
    spell_name,
)
from sfumato.queries.relations import optional_names, parse_group_key, parse_rows, parse_with
from sfumato.queries.released import ReleasedReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.curator.question.derived import Derived
    from sfumato.curator.question.relation import Expression, Relation
    from sfumato.queries.relations import Known

_PARTS = ("with_", "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset")
_AFTER = ("qualify", "distinct")
"""Parts that only an answer can have."""
_WRONG = ("SF-Q111", "SF-Q119", "SF-Q121", "SF-Q122")
"""Refusals of what is wrong in any reading: constants, positions and limits."""


def parse_select(select: exp.Select, known: Known, depth: int = 0) -> Question:
    """Return the question of a SELECT; of its FROM, so many levels are answers that are released first."""
    if depth:
        inner = find_inner_select(select)
        if inner is None:
            raise PolicyError(
                "SF-Q102", "A subquery must be a single SELECT.", try_="SELECT … FROM (SELECT …)"
            )
        return _select_from_answer(select, parse_select(inner, known, depth - 1))
    refuse_other_parts(select, *_PARTS, *_AFTER)
    relation = parse_rows(select, parse_with(select, known))
    if _lists_keys(select):
        return _select_keys(select, relation)
    keys, levels = _parse_group_by(select)
    try:
        refuse_other_parts(select, *_PARTS)
        outputs = tuple(_parse_output(item, keys) for item in select.expressions)
        clauses = _parse_clauses(select, keys, outputs)
        return Question(relation, keys.expressions, outputs, levels=levels, **clauses)
    except PolicyError as plain:
        return _select_free_work(select, relation, keys, levels, plain)


def _lists_keys(select: exp.Select) -> bool:
    """Return whether SELECT DISTINCT asks for values of rows and for no number."""
    plain = not any(item.find(exp.AggFunc, exp.Window, exp.Star) for item in select.expressions)
    return plain and select.args.get("distinct") is not None and select.args.get("group") is None


def _select_keys(select: exp.Select, relation: Relation) -> Question:
    """Return the question for the groups that there are, by the columns of the SELECT list."""
    keys = GroupByKeys(
        tuple(parse_expression(item.unalias()) for item in select.expressions), optional_names(select)
    )
    reader = ReleasedReader(keys)
    outputs = _read_outputs(reader, select.expressions, keys)
    stage = _read_stage(reader, select, outputs)
    shown = [Output(f"key {place + 1}", GroupKey(place)) for place in range(len(outputs))]
    return Question(relation, keys.expressions, (*shown, Output("count", CountOf())), then=(stage,))


# ---- groups ------------------------------------------------------------------------------------------------


def _parse_group_by(select: exp.Select) -> tuple[GroupByKeys, tuple[tuple[int, ...], ...]]:
    """Return the keys, and the places of those of each level where there are several levels."""
    group = select.args.get("group")
    if group is None:
        return GroupByKeys((), frozenset()), ()
    refuse_other_parts(group, "expressions", "all")
    named = _list_ungrouped(select) if group.args.get("all") else group.expressions
    if not any(isinstance(item, _LEVELS) for item in named):
        keys = tuple(parse_group_key(item, select.expressions) for item in named)
        return GroupByKeys(keys, optional_names(select)), ()
    places: dict[Expression, int] = {}
    levels: dict[tuple[int, ...], None] = {}
    for level in _list_levels(named):
        found = [parse_group_key(item, select.expressions) for item in level]
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
        raise PolicyError("SF-Q117", f"A question has at most {MOST_LEVELS} levels.", try_="ROLLUP (a, b)")


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
            raise PolicyError("SF-Q117", "CUBE takes at most 6 keys.", try_="ROLLUP, or GROUPING SETS")
        case exp.GroupingSets():
            return [level for part in parts for level in _levels_of(part)]
    return [[item]]


def _list_ungrouped(select: exp.Select) -> list[exp.Expression]:
    """Return what GROUP BY ALL means: every column of the answer that has no aggregate in it."""
    return [item.unalias() for item in select.expressions if not item.find(exp.AggFunc, exp.Window)]


# ---- columns of the answer ---------------------------------------------------------------------------------


def _parse_output(item: exp.Expression, keys: GroupByKeys) -> Output:
    alias, item = _parse_alias(item)
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


def _parse_clauses(select: exp.Select, keys: GroupByKeys, outputs: tuple[Output, ...]) -> dict[str, Any]:
    """Return the parts of a question that are applied to the noisy answer."""
    clauses: dict[str, Any] = {name: clause for name, clause in select.args.items() if clause}
    after = _parse_limits(clauses)
    if "having" in clauses:
        after["having"] = parse_having(clauses["having"].this, name_numbers(outputs))
    if "order" in clauses:
        after["order"] = parse_order_by(clauses["order"], keys, outputs)
    return after


def _parse_limits(clauses: dict[str, Any]) -> dict[str, Any]:
    return {name: parse_limit(clauses[name]) for name in ("limit", "offset") if clauses.get(name)}


# ---- free work on the numbers of the answer ----------------------------------------------------------------


def _select_free_work(
    select: exp.Select,
    relation: Relation,
    keys: GroupByKeys,
    levels: tuple[tuple[int, ...], ...],
    plain: PolicyError,
) -> Question:
    """Return a question whose aggregates are released, and a stage that computes the answer from them.

    `plain` is the refusal of a simpler reading: it is raised again where nothing here is the reason for it.
    """
    if plain.code in _WRONG:
        raise plain
    reader = ReleasedReader(keys, levels=bool(levels))
    try:
        outputs = _read_outputs(reader, select.expressions, keys)
        stage = _read_stage(reader, select, outputs)
        columns = _name_columns(reader, keys, outputs)
        return Question(relation, keys.expressions, columns, then=(stage,), levels=levels)
    except PolicyError:
        if select.find(exp.Window) or any(select.args.get(part) for part in _AFTER):
            raise
        raise plain from None


def _read_outputs(
    reader: ReleasedReader, items: Sequence[exp.Expression], keys: GroupByKeys | None
) -> tuple[tuple[str, Derived], ...]:
    found: list[tuple[str, Derived]] = []
    for item in items:
        if isinstance(item, exp.Star) and keys is None:
            refuse_other_parts(item)
            found += reader.columns.items()
            continue
        alias, inner = _parse_alias(item)
        shown = reader.read(inner)
        found.append((alias or _default_name(inner, shown, keys, reader), shown))
    return tuple(found)


def _default_name(
    node: exp.Expression, shown: Derived, keys: GroupByKeys | None, reader: ReleasedReader
) -> str:
    """Return the name of a column that was given none."""
    if isinstance(node, exp.Column):
        return parse_column_name(node).column
    if keys is not None and isinstance(shown, AnswerColumn):
        if shown.place < len(keys.expressions):
            return _key_name(keys.expressions[shown.place], node)
        marks = len(keys.expressions) * (2 if reader.levels else 1)
        return default_name(list(reader.aggregates)[shown.place - marks], node)
    return spell_name(node)


def _read_stage(
    reader: ReleasedReader, select: exp.Select, outputs: tuple[tuple[str, Derived], ...], **more: Any
) -> AnswerStage:
    """Return the stage of a SELECT list with the clauses after it."""
    reader.columns = {**reader.columns, **{name.casefold(): shown for name, shown in outputs}}
    having, qualify = (
        None if select.args.get(name) is None else reader.read(select.args[name].this)
        for name in ("having", "qualify")
    )
    distinct = select.args.get("distinct")
    if distinct is not None:
        refuse_other_parts(distinct)
    return AnswerStage(
        outputs,
        having=having,
        qualify=qualify,
        distinct=distinct is not None,
        order=tuple(_read_order(reader, select, [shown for _, shown in outputs])),
        **_parse_limits(select.args),
        **more,
    )


def _read_order(reader: ReleasedReader, select: exp.Select, outputs: list[Derived]) -> Iterator[AnswerOrder]:
    order = select.args.get("order")
    if order is None:
        return
    refuse_other_parts(order, "expressions")
    for item in order.expressions:
        nulls, descending = bool(item.args.get("nulls_first")), bool(item.args.get("desc"))
        if isinstance(item.this, exp.Var) and str(item.this.this).upper() == "ALL":
            yield from (AnswerOrder(shown, descending, nulls) for shown in outputs)
        elif isinstance(item.this, exp.Literal):
            yield AnswerOrder(outputs[parse_position(item.this, len(outputs))], descending, nulls)
        else:
            yield reader.read_order(item)


def _name_columns(
    reader: ReleasedReader, keys: GroupByKeys, outputs: tuple[tuple[str, Derived], ...]
) -> tuple[Output, ...]:
    """Return the columns that are released: keys, and aggregates under names that people know them by."""
    marks = len(keys.expressions) * (2 if reader.levels else 1)
    shows = [*map(GroupKey, range(marks)), *reader.aggregates]
    found: list[Output] = []
    for place, each in enumerate(shows):
        alone = (name for name, shown in outputs if list_columns(shown) == {place})
        name = next(alone, f"key {place + 1}" if isinstance(each, GroupKey) else describe_aggregate(each))
        taken = {output.name.casefold() for output in found}
        found.append(Output(f"{name} ({place + 1})" if name.casefold() in taken else name, each))
    return tuple(found)


# ---- SELECT from an answer ---------------------------------------------------------------------------------


def find_inner_select(select: exp.Select) -> exp.Select | None:
    """Return the SELECT that another one is from, if that is its only source, with the WITH before it."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins"):
        return None
    named = [] if select.args.get("with_") is None else select.args["with_"].expressions
    node = source.this
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return _with_before(node.this, named)
    if isinstance(node, exp.Table):
        for place, each in enumerate(named):
            if each.alias.casefold() == node.name.casefold() and isinstance(each.this, exp.Select):
                return _with_before(each.this, named[:place])
    return None


def _with_before(inner: exp.Select, named: Sequence[exp.Expression]) -> exp.Select:
    """Return a SELECT with what WITH named before it."""
    if not named:
        return inner
    whole = inner.copy()
    own = [] if whole.args.get("with_") is None else whole.args["with_"].expressions
    whole.set("with_", exp.With(expressions=[*(each.copy() for each in named), *own]))
    return whole


def has_inner_answer(select: exp.Select, depth: int) -> bool:
    """Return whether a SELECT is from another one at this depth."""
    inner: exp.Select | None = select
    for _ in range(depth + 1):
        inner = None if inner is None else find_inner_select(inner)
    return inner is not None


def _select_from_answer(select: exp.Select, inner: Question) -> Question:
    """Return the inner question, with one stage more that is computed from its answer."""
    refuse_other_parts(select, *_PARTS, *_AFTER)
    columns = {name.casefold(): AnswerColumn(place) for place, name in enumerate(inner.names)}
    reader = ReleasedReader(columns=columns, totals=True)
    where = None if select.args.get("where") is None else reader.read(select.args["where"].this)
    named = dict(zip(inner.names, columns.values(), strict=True))
    outputs = _read_outputs(
        replace(reader, columns=named) if _is_star(select) else reader, select.expressions, None
    )
    keys = _read_keys(reader, select, outputs)
    totals = bool(keys) or any(has_part(shown, AnswerTotal) for _, shown in outputs)
    if totals:
        for _, shown in outputs:
            _require_grouped(shown, keys)
    stage = _read_stage(reader, select, outputs, where=where, totals=totals, keys=keys)
    return replace(inner, then=(*inner.then, stage))


def _is_star(select: exp.Select) -> bool:
    return any(isinstance(item, exp.Star) for item in select.expressions)


def _read_keys(
    reader: ReleasedReader, select: exp.Select, outputs: tuple[tuple[str, Derived], ...]
) -> tuple[Derived, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    refuse_other_parts(group, "expressions", "all")
    shown = [each for _, each in outputs]
    if group.args.get("all"):
        return tuple(each for each in shown if not has_part(each, AnswerTotal))
    aliased = {name.casefold(): each for name, each in outputs}
    own = replace(reader, columns={**aliased, **reader.columns})
    return tuple(
        shown[parse_position(item, len(shown))] if isinstance(item, exp.Literal) else own.read(item)
        for item in group.expressions
    )


def _require_grouped(node: Derived, keys: tuple[Derived, ...]) -> None:
    """Refuse a column that is neither a key nor inside a total."""
    if node in keys or isinstance(node, AnswerTotal):
        return
    if isinstance(node, AnswerColumn):
        raise PolicyError(
            "SF-Q108", "A column is neither grouped by nor aggregated.", try_="GROUP BY it, or MAX of it"
        )
    for part in list_parts(node):
        _require_grouped(part, keys)
