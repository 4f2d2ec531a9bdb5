"""Numbers of subqueries that rows are compared with: found in a SELECT, and put back as they were released.

WHERE salary > (SELECT AVG(salary) FROM employees) asks two questions. The first is asked by itself; its noisy
answer then stands in the second as a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.queries.leaves import COMPARISONS
from sfumato.queries.sql import parse_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPARING = (*COMPARISONS, exp.NEQ, exp.Between)
MOST_NUMBERS = 4
"""The largest number of subqueries whose numbers one question compares with."""


@dataclass(frozen=True)
class NestedSelect:
    """A SELECT that compares with the numbers of others."""

    select: exp.Select

    @property
    def numbers(self) -> tuple[str, ...]:
        """The SELECTs that are asked first, from left to right, each by itself."""
        return tuple(self._write_inner(node) for node in _find_numbers(self.select))

    def fill(self, numbers: Sequence[float]) -> str:
        """Return the SELECT with these numbers in the places of the subqueries."""
        filled = self.select.copy()
        for node, number in zip(_find_numbers(filled), numbers, strict=True):
            size = exp.Literal.number(repr(abs(number)))
            node.replace(exp.Neg(this=size) if number < 0 else size)
        return filled.sql(dialect="duckdb")

    def _write_inner(self, node: exp.Subquery) -> str:
        inner, with_ = node.this.copy(), self.select.args.get("with_")
        if with_ is not None and inner.args.get("with_") is None:
            inner.set("with_", with_.copy())
        return str(inner.sql(dialect="duckdb"))


def find_nested(text: str) -> NestedSelect | None:
    """Return the SELECT if rows are compared with numbers of subqueries, else None."""
    if "select" not in text.lower().partition("select")[2]:  # most questions have one SELECT
        return None
    select = parse_statement(text)
    return NestedSelect(select) if 0 < len(_find_numbers(select)) <= MOST_NUMBERS else None


def _find_numbers(select: exp.Select) -> list[exp.Subquery]:
    """Return the subqueries with one column that are compared with something in a WHERE."""
    return [
        node
        for node in select.find_all(exp.Subquery, bfs=False)
        if isinstance(node.parent, _COMPARING)
        and node.find_ancestor(exp.Where) is not None
        and isinstance(node.this, exp.Select)
        and len(node.this.expressions) == 1
    ]
