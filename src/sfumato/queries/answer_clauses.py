"""Parsing of GROUP BY keys, ORDER BY, LIMIT and OFFSET: which groups are shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.curator.question.measurement import Figure, GroupKey, SortKey
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.queries.aggregates import is_aggregate
from sfumato.queries.expressions import parse_expression
from sfumato.queries.figures import parse_figure
from sfumato.queries.leaves import describe_node, parse_position, refuse_other_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.question.measurement import Output
    from sfumato.curator.question.relation import Expression


@dataclass(frozen=True, slots=True)
class GroupByKeys:
    """The expressions after GROUP BY."""

    expressions: tuple[Expression, ...]
    merged: frozenset[str]
    """Names of USING in a LEFT JOIN: they stand for two columns, of which the right one may be missing."""

    def find_place(self, node: exp.Expression) -> int | None:
        """Return the index of the key that an expression repeats, or None."""
        if not self.expressions or is_aggregate(node):
            return None
        try:
            again = parse_expression(node)
        except PolicyError:  # what is no value of a row may still be a number of the answer
            return None
        alike = (
            place for place, key in enumerate(self.expressions) if key == again or self._same(key, again)
        )
        return next(alike, None)

    def _same(self, key: Expression, again: Expression) -> bool:
        """Return whether two names mean one key, in any case and with or without the table's name."""
        if not isinstance(key, Name) or not isinstance(again, Name):
            return False
        name, tables = key.column.casefold(), {_fold_name(each.table) for each in (key, again)}
        # A name without a table means any; after a LEFT JOIN … USING it means the merged column alone.
        if name not in self.merged:
            tables.discard(None)
        return name == again.column.casefold() and len(tables) < 2


def _fold_name(table: str | None) -> str | None:
    return None if table is None else table.casefold()


def name_numbers(outputs: Sequence[Output]) -> dict[str, Figure]:
    """Return the numbers of the answer by the names that HAVING and ORDER BY may use."""
    return {each.name.casefold(): each.shows for each in outputs if not isinstance(each.shows, GroupKey)}


# ---- ORDER BY, LIMIT, OFFSET -------------------------------------------------------------------------------


def parse_order_by(node: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> tuple[SortKey, ...]:
    """Return what the groups are sorted by, the most important first."""
    refuse_other_parts(node, "expressions")
    found: list[SortKey] = []
    for item in node.expressions:
        if isinstance(item.this, exp.Var) and str(item.this.this).upper() == "ALL":
            found += [SortKey(each.shows, bool(item.args.get("desc"))) for each in outputs]
        else:
            found.append(_parse_sort_key(item, keys, outputs))
    return tuple(found)


def _parse_sort_key(item: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> SortKey:
    refuse_other_parts(item, "this", "desc")  # NULLS FIRST is one part more, and refused
    return SortKey(_parse_sorter(item.this, keys, outputs), bool(item.args.get("desc")))


def _parse_sorter(node: exp.Expression, keys: GroupByKeys, outputs: Sequence[Output]) -> GroupKey | Figure:
    """Return a column of the answer by position or name, a key, or a number computed from aggregates."""
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
            "SF-Q120",
            f"The answer has no column '{node.name[:80]}' to sort by.",
            columns=", ".join(each.name for each in outputs),
        )
    by = parse_figure(node, name_numbers(outputs))
    if isinstance(by, Fraction):
        raise PolicyError("SF-Q120", "ORDER BY a constant sorts nothing.", try_="ORDER BY n")
    return by


def parse_limit(node: exp.Expression) -> int:
    """Return the number after LIMIT or OFFSET."""
    if not isinstance(node, exp.Limit | exp.Offset):
        raise PolicyError("SF-Q103", f"{describe_node(node)} is not supported.", try_="LIMIT 10")
    refuse_other_parts(node, "expression")
    text = str(node.expression.this) if isinstance(node.expression, exp.Literal) else ""
    if node.expression.is_string or not text.isdecimal() or len(text) > 15:
        raise PolicyError(
            "SF-Q120", f"{describe_node(node)} takes a whole number.", try_="LIMIT 10 OFFSET 20"
        )
    if isinstance(node, exp.Limit) and int(text) == 0:
        raise PolicyError("SF-Q120", "LIMIT 0 would be charged for an empty answer.", try_="LIMIT 10")
    return int(text)
