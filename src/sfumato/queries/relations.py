"""FROM, JOIN, WHERE, subqueries and WITH: which rows a question is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.relation import (
    Aliased,
    AllOf,
    Expression,
    Filtered,
    Joined,
    Name,
    PerUnit,
    Relation,
    Selected,
    Table,
)
from sfumato.errors import PolicyError
from sfumato.queries.expressions import condition, expression
from sfumato.queries.leaves import column, identifier, only, position, shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Known = Mapping[str, Relation]
    """What WITH named before."""


MOST_TABLES = 16


def rows(select: exp.Select, known: Known) -> Relation:
    """The rows that a SELECT is asked of: FROM, its joins, and WHERE."""
    source = select.args.get("from_")
    if source is None:
        raise PolicyError("SF-Q103", "A question is asked of a registered table.", try_="… FROM visits")
    only(source, "this")
    relation = _source(source.this, known)
    joins = select.args.get("joins") or ()
    if len(joins) >= MOST_TABLES:
        raise PolicyError(
            "SF-Q113", f"A question joins at most {MOST_TABLES} tables.", got=f"{len(joins) + 1:,}"
        )
    for join in joins:
        relation = _joined(relation, join, known)
    where = select.args.get("where")
    if where is not None:
        only(where, "this")
        relation = Filtered(relation, condition(where.this))
    return relation


def named(select: exp.Select, known: Known) -> Known:
    """What is known by name inside a SELECT: what was before, and what its WITH adds."""
    with_ = select.args.get("with_")
    if with_ is None:
        return known
    only(with_, "expressions")
    found = dict(known)
    for each in with_.expressions:
        only(each, "this", "alias")
        only(each.args["alias"], "this")
        found[identifier(each.args["alias"].this).casefold()] = subquery(each.this, found)
    return found


# ---- sources -----------------------------------------------------------------------------------------------


def _source(node: Any, known: Known) -> Relation:
    if isinstance(node, exp.Table):
        only(node, "this", "alias")
        name = identifier(node.this)
        return Aliased(known.get(name.casefold(), Table(name)), _alias(node) or name)
    if isinstance(node, exp.Subquery):
        only(node, "this", "alias")
        inner, alias = subquery(node.this, known), _alias(node)
        return inner if alias is None else Aliased(inner, alias)
    raise PolicyError(
        "SF-Q103", "A question is asked of a registered table.", got=shape(node), try_="… FROM visits"
    )


def _alias(node: exp.Expression) -> str | None:
    alias = node.args.get("alias")
    if alias is None:
        return None
    only(alias, "this")
    return identifier(alias.this)


def _joined(left: Relation, join: exp.Expression, known: Known) -> Relation:
    only(join, "this", "on", "using", "side", "kind")
    side, kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or (kind == "OUTER" and side != "LEFT"):
        raise PolicyError(
            "SF-Q103",
            f"A {side} {kind} JOIN cannot be asked here.".replace("  ", " "),
            try_="JOIN or LEFT JOIN",
        )
    right = _source(join.this, known)
    using = tuple(identifier(_plain(each)) for each in join.args.get("using") or ())
    on = AllOf() if join.args.get("on") is None else condition(join.args["on"])
    return Joined(left, right, on, using, optional=side == "LEFT")


def optional_names(select: exp.Select) -> frozenset[str]:
    """The columns that a LEFT JOIN takes for one, of which that on the right may be missing."""
    sides = (join for join in select.args.get("joins") or () if join.args.get("side") == "LEFT")
    named = (_plain(each) for join in sides for each in join.args.get("using") or ())
    return frozenset(identifier(each).casefold() for each in named)


def _plain(node: Any) -> Any:
    return node.this if isinstance(node, exp.Column) else node


# ---- subqueries --------------------------------------------------------------------------------------------


def subquery(node: Any, known: Known) -> Relation:
    """Rows again: as they are, computed one by one, or one for each unit."""
    if not isinstance(node, exp.Select):
        raise PolicyError("SF-Q102", "A subquery is one SELECT.", got=shape(node))
    only(node, "with_", "expressions", "from_", "joins", "where", "group", "having")
    inner = rows(node, named(node, known))
    if node.args.get("group") is not None:
        return _by_unit(inner, node)
    if node.args.get("having") is not None:
        raise PolicyError("SF-Q120", "HAVING follows GROUP BY.", try_="WHERE")
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Star):
        only(node.expressions[0])
        return inner
    return Selected(inner, _columns(node.expressions))


def _by_unit(inner: Relation, node: exp.Select) -> Relation:
    only(node.args["group"], "expressions")
    keys = tuple(grouped(item, node.expressions) for item in node.args["group"].expressions)
    having = None
    if node.args.get("having") is not None:
        only(node.args["having"], "this")
        having = condition(_spelled_out(node.args["having"].this, node.expressions))
    return PerUnit(inner, keys, _columns(node.expressions), having)


def _spelled_out(having: exp.Expression, shown: Sequence[exp.Expression]) -> exp.Expression:
    """The same condition, with what is shown in the place of the names it is shown by."""
    aliased = {each.alias.casefold(): each.this for each in shown if isinstance(each, exp.Alias)}

    def spell(node: exp.Expression) -> exp.Expression:
        plain = isinstance(node, exp.Column) and node.args.get("table") is None
        meant = aliased.get(node.name.casefold()) if plain else None
        return node if meant is None else exp.Paren(this=meant.copy())

    spelled: exp.Expression = having.transform(spell)
    return spelled


def _columns(items: Sequence[exp.Expression]) -> tuple[tuple[str, Expression], ...]:
    columns = tuple(_column(item) for item in items)
    names = [name.casefold() for name, _ in columns]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q115", "Two columns of a subquery have the same name.", try_="AS another_name")
    return columns


def _column(item: exp.Expression) -> tuple[str, Expression]:
    if isinstance(item, exp.Alias):
        only(item, "this", "alias")
        return identifier(item.args["alias"]), expression(item.this)
    computed = expression(item)
    if isinstance(computed, Name):
        return computed.column, computed
    raise PolicyError("SF-Q118", "A computed column needs a name.", try_="cost * 2 AS double")


def _unaliased(item: Any) -> Any:
    return item.unalias()


def grouped(item: exp.Expression, shown: Sequence[exp.Expression]) -> Expression:
    """What GROUP BY names: an expression, the name one is shown by, or its position among what is shown."""
    if isinstance(item, exp.Literal):
        return expression(_unaliased(shown[position(item, len(shown))]))
    aliased = {each.alias.casefold(): each.this for each in shown if isinstance(each, exp.Alias)}
    if isinstance(item, exp.Column) and item.args.get("table") is None:
        return expression(aliased.get(column(item).column.casefold(), item))
    return expression(item)
