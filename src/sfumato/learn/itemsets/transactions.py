"""Transactions as arrays: one column of 0 and 1 for every declared item, laid out or not.

Because : docs/proofs/itemsets.md
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import ArrayInput
from sfumato.oracle.arrays.item_sets import HeldItems, ItemSetTable
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
            "SF-E101",
            "items must name every possible item, each once.",
            try_='items=["tea", "jam"]',
        )
    return names


def encode_transactions(transactions: Iterable[Iterable[Any]], items: Sequence[Any]) -> HeldItems:
    """Return which transactions hold which items; what is not declared counts nowhere.

    A single transaction that is no list of items holds none and raises no error, since the error would give
    that transaction away. Only if all of them are texts is that refused as a mistake.
    """
    places = {item: place for place, item in enumerate(items)}
    given = list(transactions)
    if given and all(isinstance(each, str | bytes) for each in given):
        raise UsageError(
            "SF-E176",
            "A transaction is a list of items, not a text.",
            try_='fit([["tea", "jam"], ["tea"]])',
        )
    rows = [_find_items(each, places) for each in given]
    at_row = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    at_item = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)
    return HeldItems.of(len(rows), len(items), at_row, at_item)


def read_sparse(matrix: Any) -> HeldItems:
    """Return which transactions hold which items, from one of SciPy's sparse matrices."""
    places = matrix.tocsr().tocoo()
    with np.errstate(invalid="ignore"):
        held = places.data > 0
    sets, items = places.shape
    return HeldItems.of(sets, items, places.row[held], places.col[held])


def refuse_baskets(transactions: Any) -> None:
    """Refuse lists of items that come without the list of all items. Only types and shape are looked at."""
    listed = isinstance(transactions, list | tuple) and transactions
    if listed and all(isinstance(each, list | tuple | set | frozenset) for each in transactions):
        lengths = {len(each) for each in transactions}
        texts = all(isinstance(item, str) for each in transactions for item in each)
        if len(lengths) > 1 or texts or isinstance(transactions[0], set | frozenset):
            raise UsageError(
                "SF-E101",
                "Lists of items need the list of all possible items.",
                why="items collected from the data would reveal anyone who is the only one with an item",
                try_='FrequentItemsets(items=["tea", "jam", …], …).fit(baskets)',
            )


def _find_items(transaction: Any, places: dict[Any, int]) -> list[int]:
    if isinstance(transaction, str | bytes) or not isinstance(transaction, Iterable):
        return []
    return sorted({places[item] for item in transaction if isinstance(item, Hashable) and item in places})


def give_transactions(rows: NDArray[np.float64] | HeldItems, names: Sequence[Any]) -> ArrayInput:
    """Return arrays for the oracle: an item is held where its number is above 0; a missing number is not."""
    columns = [Column(0, f"x{place}") for place in range(len(names))]
    found = declare_items(names, columns)
    if isinstance(rows, HeldItems):
        return ArrayInput(found, ItemSetTable(rows, columns, {}, found.ranges))
    with np.errstate(invalid="ignore"):
        # One contiguous array an item, as the oracle reads columns.
        bits = np.ascontiguousarray((rows > 0).T).astype(np.float64)
    return ArrayInput(found, ArrayTable(dict(zip(columns, bits, strict=True)), found.ranges))
