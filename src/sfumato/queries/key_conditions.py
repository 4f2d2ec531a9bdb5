"""Conditions on the keys of groups: those of HAVING and of FILTER choose rows before anything is measured."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.relation import Disjunction, Filter
from sfumato.queries.expressions import parse_condition
from sfumato.queries.relations import find_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.question.relation import Relation
    from sfumato.queries.answer_clauses import GroupByKeys
    from sfumato.queries.relations import RowNames


def narrow_by_keys(
    select: exp.Select, relation: Relation, keys: GroupByKeys, names: RowNames
) -> tuple[exp.Select, Relation]:
    """Return a SELECT without the conditions of HAVING on keys, and the rows that they and FILTER leave.

    A condition on keys holds for all rows of a group or for none, so it means the same in WHERE. Where every
    aggregate has a FILTER on keys, groups that none of them lets through have nothing to be measured.
    """
    spell = _KeySpelling(select, keys, names)
    having = select.args.get("having")
    if having is not None:
        terms = [(term, spell.rewrite(term)) for term in _split_terms(having.this)]
        kept = [term for term, on_keys in terms if on_keys is None]
        if len(kept) < len(terms):
            select = select.copy()
            rest = (
                reduce(lambda one, other: exp.And(this=one, expression=other), [each.copy() for each in kept])
                if kept
                else None
            )
            select.set("having", None if rest is None else exp.Having(this=rest))
        for _, on_keys in terms:
            if on_keys is not None:
                relation = Filter(relation, parse_condition(on_keys))
    filters = [spell.rewrite(each) for each in _list_filters(select)]
    if filters and all(each is not None for each in filters):
        parts = tuple(parse_condition(each) for each in filters if each is not None)
        relation = Filter(relation, parts[0] if len(parts) == 1 else Disjunction(parts))
    return select, relation


def _split_terms(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Paren):
        yield from _split_terms(node.this)
    elif isinstance(node, exp.And):
        yield from _split_terms(node.this)
        yield from _split_terms(node.expression)
    else:
        yield node


def _list_filters(select: exp.Select) -> list[exp.Expression]:
    """Return the condition of each FILTER, if every aggregate has one; else nothing."""
    parts = [*select.expressions, select.args.get("having"), select.args.get("order")]
    aggregates = [each for part in parts if part is not None for each in part.find_all(exp.AggFunc)]
    if not all(isinstance(each.parent, exp.Filter) for each in aggregates):
        return []
    return [each.parent.expression.this for each in aggregates]


class _KeySpelling:
    """Finds conditions on keys alone, and writes them without aliases."""

    def __init__(self, select: exp.Select, keys: GroupByKeys, names: RowNames) -> None:
        self._shown, self._keys, self._names = select.expressions, keys, names

    def rewrite(self, condition: exp.Expression) -> exp.Expression | None:
        """Return a condition on keys alone as WHERE states it; None for any other."""
        if condition.find(exp.AggFunc, exp.Window, exp.Subquery, exp.Select):
            return None
        spelled: Any = condition.copy().transform(self._spell)
        uses = spelled.find(exp.Column) is not None
        return spelled if uses and self._is_on_keys(spelled) else None

    def _spell(self, node: exp.Expression) -> exp.Expression:
        meant = find_alias(node, self._shown)
        if meant is None or self._names.has(node.name) or meant.find(exp.AggFunc, exp.Window):
            return node
        # In parentheses, so that it binds as one value wherever the alias stood.
        return exp.Paren(this=meant.copy())

    def _is_on_keys(self, node: Any) -> bool:
        inner: Any = node.unnest() if isinstance(node, exp.Paren) else node
        if self._keys.find_place(inner) is not None:
            return True
        if isinstance(node, exp.Column):
            return False
        return all(map(self._is_on_keys, node.iter_expressions()))
