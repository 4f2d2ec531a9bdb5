"""Transactions for itemset mining: one row for each unit, with the items that are in any of its rows.

Because : docs/proofs/itemsets.md#behind-the-curator
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Listed, Numbers
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.question.relation import Name
from sfumato.engines.rows import Largest, PerUnit
from sfumato.engines.values import Among, AtLeast, Choose, Column, Constant, Every
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.catalog.domains import Shown
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.engines.values import Predicate

MOST_ITEMS = 5000
"""Limit on the work that one question may cause; no promise of privacy rests on it."""


def build_transactions(
    source: RowSource, features: Sequence[str]
) -> tuple[RowSource, list[Shown], list[Column]]:
    """Return one row for each unit, the names of the items, and a column of 0 and 1 for each item.

    `features` is one column that lists the items by name, or several that each say whether an item is there.
    """
    found = _items_by_name(source, features[0]) if len(features) == 1 else None
    items = found or [(name, _item_present(source, name)) for name in features]
    if not 2 <= len(items) <= MOST_ITEMS:
        raise PolicyError(
            "SF-E112", "Itemsets need 2 to 5,000 items.", items=f"{len(items):,}", try_="fewer items"
        )
    # A maximum of 0 and 1 over a unit's rows: 1 if any of them has the item.
    figures = tuple(Largest(Choose(held, Constant(1), Constant(0))) for _, held in items)
    at = source.next_at
    rows = PerUnit(source.rows, source.where, (), figures, at)
    united = replace(source, rows=rows, where=Every(), max_rows=1, next_at=at + 1, apart=None)
    return united, [name for name, _ in items], [Column(at, f"f{place}") for place in range(len(items))]


def _items_by_name(source: RowSource, name: str) -> list[tuple[Shown, Predicate]] | None:
    """Return the items that a column lists, each with the predicate that it is there."""
    part = lower_expression(Name(name), source.scope)
    if not isinstance(part.domain, Listed):
        raise _unlisted_items(name)
    return [(item, Among(part.value, (place,))) for place, item in enumerate(part.domain.show_values())]


def _item_present(source: RowSource, name: str) -> Predicate:
    """Return the predicate that an item is there: its column is above 0, or true."""
    part = lower_expression(Name(name), source.scope)
    if isinstance(part.domain, Numbers):
        return AtLeast(part.value, 1)
    if isinstance(part.domain, Listed) and not any(isinstance(each, str) for each in part.domain.values):
        present = (
            place
            for place, each in enumerate(part.domain.values)
            if isinstance(each, bool | Fraction) and each > 0
        )
        return Among(part.value, tuple(present))
    raise _unlisted_items(name)


def _unlisted_items(name: str) -> PolicyError:
    return PolicyError(
        "SF-E112",
        f"'{name}' does not list items.",
        try_='a column declared by sf.one_of("tea", "jam"), or several declared by sf.one_of(0, 1)',
    )
