"""Parsing of FROM, JOIN, WHERE, subqueries and WITH: the rows that a question is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.lower.relations import require_few_tables
from sfumato.curator.question.relation import (
    Alias,
    BaseTable,
    Condition,
    Conjunction,
    Disjunction,
    Exists,
    Expression,
    Extension,
    Filter,
    GroupByUnit,
    Join,
    Name,
    Negation,
    Projection,
    Relation,
)
from sfumato.errors import PolicyError
from sfumato.queries.expressions import parse_condition, parse_expression
from sfumato.queries.leaves import (
    describe_node,
    parse_identifier,
    parse_position,
    parse_sides,
    refuse_other_parts,
    spell_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Known = Mapping[str, Relation]
    """The relations that WITH named before."""
    ListNames = Callable[[Relation], frozenset[str]]
    """Returns the names, in lower case, that mean a column of a relation."""


def parse_rows(select: exp.Select, known: Known) -> Relation:
    """Return the rows that a SELECT reads: FROM, its joins, and WHERE."""
    source = select.args.get("from_")
    if source is None:
        raise PolicyError("SF-Q103", "The question names no table.", try_="… FROM visits")
    refuse_other_parts(source, "this")
    relation = _parse_source(source.this, known)
    for join in select.args.get("joins") or ():
        relation = _parse_join(relation, join, known)
        # As it grows, so that no relation is ever much larger than what is allowed.
        require_few_tables(relation)
    where = select.args.get("where")
    if where is not None:
        refuse_other_parts(where, "this")
        relation = Filter(relation, parse_where(where.this, known))
    return relation


def parse_where(node: exp.Expression, known: Known) -> Condition:
    """Return the condition of a WHERE, in which EXISTS and IN may have subqueries."""
    match node:
        case exp.Paren():
            refuse_other_parts(node, "this")
            return parse_where(node.this, known)
        case exp.Not():
            refuse_other_parts(node, "this")
            return Negation(parse_where(node.this, known))
        case exp.And():
            return Conjunction(tuple(parse_where(part, known) for part in parse_sides(node)))
        case exp.Or():
            return Disjunction(tuple(parse_where(part, known) for part in parse_sides(node)))
        case exp.Exists():
            refuse_other_parts(node, "this")
            return _parse_exists(node.this, known)
        case exp.In() if node.args.get("query") is not None:
            refuse_other_parts(node, "this", "query")
            return _parse_in_subquery(node, known)
    return parse_condition(node)


def _parse_exists(select: Any, known: Known) -> Exists:
    """What an EXISTS selects does not matter: a row is there or not."""
    if not isinstance(select, exp.Select) or select.args.get("group") is not None:
        return Exists(parse_subquery(select, known), Conjunction())
    refuse_other_parts(select, "with_", "expressions", "from_", "joins", "where")
    where = select.args.get("where")
    inner = select.copy()
    inner.set("where", None)
    held = Conjunction() if where is None else parse_where(where.this, known)
    return Exists(parse_rows(inner, parse_with(select, known)), held)


def _parse_in_subquery(node: exp.In, known: Known) -> Exists:
    select = node.args["query"].this if isinstance(node.args["query"], exp.Subquery) else node.args["query"]
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise PolicyError(
            "SF-Q103", "IN takes a SELECT of one column.", try_="ward IN (SELECT ward FROM wards)"
        )
    one = parse_expression(node.this)
    # SELECT DISTINCT says what IN means anyway.
    plain = select.copy()
    plain.set("distinct", None)
    other = parse_expression(_strip_alias(plain.expressions[0]))
    if select.args.get("group") is not None:
        return Exists(parse_subquery(plain, known), Conjunction(), ((one, other),))
    refuse_other_parts(plain, "with_", "expressions", "from_", "joins", "where")
    return Exists(parse_rows(plain, parse_with(plain, known)), Conjunction(), ((one, other),))


def parse_with(select: exp.Select, known: Known) -> Known:
    """Return the relations known by name inside a SELECT: those from outside and those of its WITH."""
    with_ = select.args.get("with_")
    if with_ is None:
        return known
    refuse_other_parts(with_, "expressions")
    found = dict(known)
    for each in with_.expressions:
        refuse_other_parts(each, "this", "alias")
        refuse_other_parts(each.args["alias"], "this")
        found[parse_identifier(each.args["alias"].this).casefold()] = parse_subquery(each.this, found)
    return found


# ---- sources -----------------------------------------------------------------------------------------------


def _parse_source(node: Any, known: Known) -> Relation:
    if isinstance(node, exp.Table):
        refuse_other_parts(node, "this", "alias")
        name = parse_identifier(node.this)
        return Alias(known.get(name.casefold(), BaseTable(name)), _parse_alias(node) or name)
    if isinstance(node, exp.Subquery):
        refuse_other_parts(node, "this", "alias")
        inner, alias = parse_subquery(node.this, known), _parse_alias(node)
        return inner if alias is None else Alias(inner, alias)
    raise PolicyError(
        "SF-Q103",
        "Only registered tables and subqueries are supported after FROM and JOIN.",
        got=describe_node(node),
        try_="… FROM visits",
    )


def _parse_alias(node: exp.Expression) -> str | None:
    alias = node.args.get("alias")
    if alias is None:
        return None
    refuse_other_parts(alias, "this")
    return parse_identifier(alias.this)


def _parse_join(left: Relation, join: exp.Expression, known: Known) -> Relation:
    refuse_other_parts(join, "this", "on", "using", "side", "kind")
    side, kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or (kind == "OUTER" and side != "LEFT"):
        raise PolicyError(
            "SF-Q103",
            f"A {side} {kind} JOIN is not supported.".replace("  ", " "),
            try_="JOIN or LEFT JOIN",
        )
    right = _parse_source(join.this, known)
    using = tuple(parse_identifier(_plain_name(each)) for each in join.args.get("using") or ())
    on = Conjunction() if join.args.get("on") is None else parse_condition(join.args["on"])
    return Join(left, right, on, using, optional=side == "LEFT")


def optional_names(select: exp.Select) -> frozenset[str]:
    """Return the names after USING in a LEFT JOIN, where the column of the right side may be missing."""
    sides = (join for join in select.args.get("joins") or () if join.args.get("side") == "LEFT")
    named = (_plain_name(each) for join in sides for each in join.args.get("using") or ())
    return frozenset(parse_identifier(each).casefold() for each in named)


def _plain_name(node: Any) -> Any:
    return node.this if isinstance(node, exp.Column) else node


# ---- subqueries --------------------------------------------------------------------------------------------


def parse_subquery(node: Any, known: Known) -> Relation:
    """Return the rows of a subquery: unchanged, projected, or one for each unit."""
    if not isinstance(node, exp.Select):
        raise PolicyError("SF-Q103", "A subquery must be a single SELECT.", got=describe_node(node))
    refuse_other_parts(node, "with_", "expressions", "from_", "joins", "where", "group", "having")
    inner = parse_rows(node, parse_with(node, known))
    if node.args.get("group") is not None:
        return _parse_group_by_unit(inner, node)
    if node.args.get("having") is not None:
        raise PolicyError("SF-Q120", "HAVING needs a GROUP BY.", try_="WHERE")
    if node.expressions and isinstance(node.expressions[0], exp.Star):
        refuse_other_parts(node.expressions[0])
        more = _parse_columns(node.expressions[1:])
        return Extension(inner, more) if more else inner
    return Projection(inner, _parse_columns(node.expressions))


def _parse_group_by_unit(inner: Relation, node: exp.Select) -> Relation:
    refuse_other_parts(node.args["group"], "expressions")
    keys = tuple(parse_group_key(item, node.expressions) for item in node.args["group"].expressions)
    having = None
    if node.args.get("having") is not None:
        refuse_other_parts(node.args["having"], "this")
        having = parse_condition(_expand_aliases(node.args["having"].this, node.expressions))
    return GroupByUnit(inner, keys, _parse_columns(node.expressions), having)


def _expand_aliases(having: exp.Expression, shown: Sequence[exp.Expression]) -> exp.Expression:
    """Return a HAVING condition with the aliases of the SELECT list replaced by what they stand for."""
    aliased = {each.alias.casefold(): each.this for each in shown if isinstance(each, exp.Alias)}

    def spell(node: exp.Expression) -> exp.Expression:
        plain = isinstance(node, exp.Column) and node.args.get("table") is None
        meant = aliased.get(node.name.casefold()) if plain else None
        # In parentheses, so that it binds as one value wherever the alias stood.
        return node if meant is None else exp.Paren(this=meant.copy())

    spelled: exp.Expression = having.transform(spell)
    return spelled


def _parse_columns(items: Sequence[exp.Expression]) -> tuple[tuple[str, Expression], ...]:
    columns = tuple(_parse_output_column(item) for item in items)
    names = [name.casefold() for name, _ in columns]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q133", "Two columns of a subquery have the same name.", try_="AS another_name")
    return columns


def _parse_output_column(item: exp.Expression) -> tuple[str, Expression]:
    if isinstance(item, exp.Alias):
        refuse_other_parts(item, "this", "alias")
        return parse_identifier(item.args["alias"]), parse_expression(item.this)
    computed = parse_expression(item)
    return computed.column if isinstance(computed, Name) else spell_name(item), computed


def _strip_alias(item: Any) -> Any:
    return item.unalias()


@dataclass(frozen=True)
class RowNames:
    """The names of columns that rows have, looked up when a name may be an alias too."""

    relation: Relation
    list_names: ListNames | None = None

    def has(self, name: str) -> bool:
        """Return whether a name without a table means a column."""
        return name.casefold() in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset() if self.list_names is None else self.list_names(self.relation)


def parse_group_key(
    item: exp.Expression, shown: Sequence[exp.Expression], names: RowNames | None = None
) -> Expression:
    """Return a key of GROUP BY: an expression, a position in the SELECT list, or an alias of it.

    As in standard SQL a name means a column of the rows first.
    """
    if isinstance(item, exp.Literal):
        return parse_expression(_strip_alias(shown[parse_position(item, len(shown))]))
    meant = find_alias(item, shown)
    if meant is None:
        return parse_expression(item)
    name = item.name
    if isinstance(meant, exp.Column) and meant.name.casefold() == name.casefold():
        return parse_expression(meant)
    if names is None or not names.has(name):
        return parse_expression(meant)
    if not meant.find(exp.AggFunc):
        raise PolicyError(
            "SF-Q133",
            f"GROUP BY {name[:80]} means the column '{name[:80]}', and not the alias in SELECT.",
            why="a column comes before an alias of the same name",
            try_="GROUP BY 1 for the first column of SELECT, or AS another_name",
        )
    return parse_expression(item)


def find_alias(node: exp.Expression, shown: Sequence[exp.Expression]) -> exp.Expression | None:
    """Return what a name stands for if it is an alias of the SELECT list, else None."""
    # With a table before it, a name is never an alias.
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return None
    name = node.name.casefold()
    found = (each.this for each in shown if isinstance(each, exp.Alias) and each.alias.casefold() == name)
    return next(found, None)
