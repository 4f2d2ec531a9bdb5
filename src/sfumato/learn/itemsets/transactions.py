"""Transactions as arrays: one column of 0 and 1 for every declared item.

Because : docs/proofs/itemsets.md
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import ArrayInput
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import Column
from sfumato.oracle.declared import declare_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def check_items(items: Any) -> list[Any]:
    """Return the items as declared; refuse a list with none or with repetitions."""
    names = list(items)
    if not names or len(set(names)) < len(names):
        raise UsageError(
            "SF-E120",
            "items must name every possible item, each once.",
            try_='items=["tea", "jam"]',
        )
    return names


def encode_transactions(transactions: Iterable[Iterable[Any]], items: Sequence[Any]) -> NDArray[np.float64]:
    """Return one row a transaction and one column an item; what is not declared counts nowhere.

    A single transaction that is no list of items holds none and raises no error, since the error would give
    that transaction away. Only if all of them are texts is that refused as a mistake.
    """
    places = {item: place for place, item in enumerate(items)}
    given = list(transactions)
    if given and all(isinstance(each, str | bytes) for each in given):
        raise UsageError(
            "SF-E121",
            "A transaction is a list of items, not a text.",
            try_='fit([["tea", "jam"], ["tea"]])',
        )
    rows = [_find_items(each, places) for each in given]
    found = np.zeros((len(rows), len(items)))
    for row, at in enumerate(rows):
        found[row, at] = 1.0
    return found


def _find_items(transaction: Any, places: dict[Any, int]) -> list[int]:
    if isinstance(transaction, str | bytes) or not isinstance(transaction, Iterable):
        return []
    return sorted({places[item] for item in transaction if isinstance(item, Hashable) and item in places})


def give_transactions(rows: NDArray[np.float64], names: Sequence[Any]) -> ArrayInput:
    """Return arrays for the oracle: an item is held where its number is above 0; a missing number is not."""
    columns = [Column(0, f"x{place}") for place in range(rows.shape[1])]
    with np.errstate(invalid="ignore"):
        # One contiguous array an item, as the oracle reads columns.
        bits = np.ascontiguousarray((rows > 0).T).astype(np.float64)
    found = declare_items(names, columns)
    return ArrayInput(found, ArrayTable(dict(zip(columns, bits, strict=True)), found.ranges))
