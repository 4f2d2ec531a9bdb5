"""Values that columns can have by declaration: what SELECT DISTINCT of listed columns gives, at no charge."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.intervals import column_type
from sfumato.curator.answers.post_processing import sort_groups
from sfumato.curator.catalog.description import PublicFacts
from sfumato.curator.catalog.domains import FreeTexts
from sfumato.curator.question.measurement import GroupKey
from sfumato.curator.question.relation import Alias, BaseTable
from sfumato.engines.arrow import build_array
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.curator.plan.resolved import ResolvedQuestion


class DeclaredValues(PublicFacts):
    """Combinations of declared values, column by column. Which of them occur is not said."""

    __slots__ = ("_columns",)

    def __init__(self, columns: dict[str, tuple[pa.DataType, Sequence[Any]]]) -> None:
        self._columns = columns

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        rows = zip(*(values for _, values in self._columns.values()), strict=True)
        return [tuple(format_label(cell) for cell in row) for row in rows]

    def sentences(self) -> list[str]:
        """Return what the list is."""
        return ["These values are declared; which of them occur is not said. This costs nothing."]

    def to_arrow(self) -> pa.Table:
        """Return the values in their own types."""
        import pyarrow as pa

        return pa.table({name: build_array(cells, kind) for name, (kind, cells) in self._columns.items()})


def find_declared_values(resolved: ResolvedQuestion) -> DeclaredValues | None:
    """Return the declared values that SELECT DISTINCT asks for, if nothing but declarations says them."""
    question, relation = resolved.question, resolved.question.relation
    while isinstance(relation, Alias):
        relation = relation.of
    if not question.distinct or resolved.discovers_keys:
        return None
    if not isinstance(relation, BaseTable):
        raise PolicyError(
            "SF-Q103",
            "SELECT DISTINCT of listed columns gives declared values, so it takes no WHERE and no JOIN.",
            try_="SELECT status, COUNT(*) AS n … GROUP BY status HAVING COUNT(*) > 20",
        )
    return DeclaredValues(_list_values(resolved))


def _list_values(resolved: ResolvedQuestion) -> dict[str, tuple[pa.DataType, Sequence[Any]]]:
    """Return all declared combinations, sorted and cut off as the question says."""
    question = resolved.question
    values = [key.domain.show_values() for key in resolved.keys if not isinstance(key.domain, FreeTexts)]
    keys = list(zip(*itertools.product(*values), strict=True))
    rows = list(range(len(keys[0])))
    for each in reversed(question.order):
        if isinstance(each.by, GroupKey):
            rows = sort_groups(rows, keys[each.by.place], each.descending)
    rows = rows[question.offset :][: question.limit]
    return {
        name: (column_type(resolved, GroupKey(place)), [keys[place][row] for row in rows])
        for name, place in question.labels.items()
    }
