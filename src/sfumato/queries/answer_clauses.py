"""What becomes of the answer: HAVING, ORDER BY, LIMIT and OFFSET. All of it is done after the noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.curator.question.measurement import (
    Figure,
    GroupKey,
    Having,
    HavingAnd,
    HavingComparison,
    HavingNot,
    HavingOr,
    SortKey,
)
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.queries.aggregates import is_aggregate
from sfumato.queries.expressions import parse_expression
from sfumato.queries.figures import parse_figure
from sfumato.queries.leaves import (
    COMPARISONS,
    describe_node,
    parse_column_name,
    parse_position,
    parse_sides,
    refuse_other_parts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.question.measurement import Output
    from sfumato.curator.question.relation import Expression

_SIGNS: dict[type[exp.Expression], str] = {
    exp.NEQ: "<>",
    **COMPARISONS,
}


@dataclass(frozen=True, slots=True)
class GroupByKeys:
    """What GROUP BY says."""

    expressions: tuple[Expression, ...]
    merged: frozenset[str]
    """Names that stand for two columns of a LEFT JOIN, of which one may be missing."""

    def find_place(self, node: exp.Expression) -> int | None:
        """Which key an expression says again, if one."""
        if not self.expressions or is_aggregate(node):
            return None
        try:
            again = parse_expression(node)
        except PolicyError:
            return None
        alike = (
            place for place, key in enumerate(self.expressions) if key == again or self._same(key, again)
        )
        return next(alike, None)

    def _same(self, key: Expression, again: Expression) -> bool:
        """Names are the same whatever their case, and with the table's name before them or without."""
        if not isinstance(key, Name) or not isinstance(again, Name):
            return False
        name, tables = key.column.casefold(), {_folded(each.table) for each in (key, again)}
        if name not in self.merged:
            tables.discard(None)
        return name == again.column.casefold() and len(tables) < 2


def _folded(table: str | None) -> str | None:
    return None if table is None else table.casefold()


def name_numbers(outputs: Sequence[Output]) -> dict[str, Figure]:
    """The numbers of the answer, by the names that HAVING and ORDER BY may use."""
    return {each.name.casefold(): each.shows for each in outputs if not isinstance(each.shows, GroupKey)}


# ---- which groups ------------------------------------------------------------------------------------------


def parse_having(node: exp.Expression, known: Mapping[str, Figure]) -> Having:
    """A condition on the noisy numbers of a group."""
    if isinstance(node, exp.Paren):
        refuse_other_parts(node, "this")
        return parse_having(node.this, known)
    if isinstance(node, exp.Not):
        refuse_other_parts(node, "this")
        return HavingNot(parse_having(node.this, known))
    if isinstance(node, exp.And | exp.Or):
        left, right = (parse_having(part, known) for part in parse_sides(node))
        return HavingAnd(left, right) if isinstance(node, exp.And) else HavingOr(left, right)
    if type(node) in _SIGNS:
        return _compares(node, known)
    raise PolicyError(
        "SF-Q120",
        "HAVING takes comparisons of aggregates with numbers, AND, OR and NOT.",
        got=describe_node(node),
        try_="HAVING COUNT(*) >= 100",
    )


def _compares(node: exp.Expression, known: Mapping[str, Figure]) -> HavingComparison:
    left, right = (_side(part, known) for part in parse_sides(node))
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        raise PolicyError("SF-Q120", "HAVING compares two numbers typed in.", try_="HAVING COUNT(*) >= 100")
    return HavingComparison(left, _SIGNS[type(node)], right)


def _side(node: exp.Expression, known: Mapping[str, Figure]) -> Figure:
    name = parse_column_name(node).column if isinstance(node, exp.Column) else None
    if name is not None and name.casefold() not in known:
        raise PolicyError(
            "SF-Q120",
            f"HAVING is about the numbers of a group, and '{name[:80]}' is none of them.",
            numbers=", ".join(known),
            try_="WHERE, for a condition on a column",
        )
    return parse_figure(node, known)


# ---- in which order, and how many --------------------------------------------------------------------------


def parse_order_by(node: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> tuple[SortKey, ...]:
    """What the groups are sorted by, the first before the next."""
    refuse_other_parts(node, "expressions")
    return tuple(_order(item, keys, outputs) for item in node.expressions)


def _order(item: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> SortKey:
    refuse_other_parts(item, "this", "desc")  # NULLS FIRST is one part more, and refused
    return SortKey(_sorter(item.this, keys, outputs), bool(item.args.get("desc")))


def _sorter(node: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> GroupKey | Figure:
    """A column of the answer by position or name, a key, or a number computed from aggregates."""
    if isinstance(node, exp.Literal):
        return outputs[parse_position(node, len(outputs))].shows
    shown = {each.name.casefold(): each.shows for each in outputs}
    if isinstance(node, exp.Column) and node.args.get("table") is None and node.name.casefold() in shown:
        return shown[node.name.casefold()]
    place = keys.find_place(node)
    if place is not None:
        return GroupKey(place)
    if isinstance(node, exp.Column):
        raise PolicyError(
            "SF-Q121",
            f"The answer has no column '{node.name[:80]}' to sort by.",
            columns=", ".join(each.name for each in outputs),
        )
    by = parse_figure(node, name_numbers(outputs))
    if isinstance(by, Fraction):
        raise PolicyError(
            "SF-Q121", "ORDER BY a number computed from numbers sorts nothing.", try_="ORDER BY n"
        )
    return by


def parse_limit(node: exp.Expression) -> int:
    """The number after LIMIT or OFFSET."""
    if not isinstance(node, exp.Limit | exp.Offset):
        raise PolicyError("SF-Q103", f"{describe_node(node)} cannot be asked here.", try_="LIMIT 10")
    refuse_other_parts(node, "expression")
    text = str(node.expression.this) if isinstance(node.expression, exp.Literal) else ""
    if node.expression.is_string or not text.isdecimal() or len(text) > 15:
        raise PolicyError(
            "SF-Q122", f"{describe_node(node)} takes a whole number.", try_="LIMIT 10 OFFSET 20"
        )
    if isinstance(node, exp.Limit) and int(text) == 0:
        raise PolicyError("SF-Q122", "LIMIT 0 would pay for an empty answer.", try_="LIMIT 10")
    return int(text)
