"""Rows that a fit keeps in memory from one round to the next, so that no round computes again what an earlier
one did.

They are read after the first round was charged, every later round is charged before it looks at them, and
they are let go of with the fit. The sums are the same as without.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.engines.values import Column, Value

    Doubles = NDArray[np.float64]
    Masks = NDArray[np.bool_] | None
    """Which rows, or none of them."""
    Stored = tuple[NDArray[Any], Masks]
    """Whole numbers of some type, and where one is missing."""

HELD_BYTES = 2**28
"""Bytes of rows that one fit holds at most; what is larger is read again in every round. Privacy does not
depend on it."""


@dataclass(slots=True)
class RowBatch:
    """Columns of some rows as an engine read them, and what was computed of them, by the value's identity."""

    rows: int
    columns: Mapping[Column, Stored]
    computed: dict[int, Stored] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of all numbers."""
        stored = [*self.columns.values(), *self.computed.values()]
        return sum(numbers.nbytes + (0 if missing is None else missing.nbytes) for numbers, missing in stored)


class BatchColumns:
    """The columns of a batch as one program names them, in doubles: 0 where one is missing."""

    def __init__(self, batch: RowBatch, ready: Mapping[Column, Value]) -> None:
        self._columns = {
            **batch.columns,
            **{column: batch.computed[id(value)] for column, value in ready.items()},
        }

    def read(self, column: Column, rows: slice) -> Doubles:
        """Return a column of some rows."""
        numbers, missing = self._columns[column]
        found = numbers[rows].astype(np.float64)
        if missing is not None:
            found[missing[rows]] = 0.0
        return found

    def find_missing(self, column: Column, rows: slice) -> Masks:
        """Return in which of these rows a column is missing."""
        missing = self._columns[column][1]
        return None if missing is None else missing[rows]

    def stack(self, columns: Sequence[Column], rows: slice) -> Doubles:
        """Return several columns of some rows, one row a column."""
        return np.array([self.read(column, rows) for column in columns])


class HeldRows:
    """The rows of one fit, while it lasts."""

    def __init__(self, most: int = HELD_BYTES) -> None:
        self.most = most
        """Bytes that are held at most."""
        self._about: object = None
        self._batches: list[RowBatch] | None = None
        self.columns: tuple[Column, ...] = ()
        """The columns of each batch."""
        self.computed: dict[int, Value] = {}
        """Values that every batch holds, by identity; each is held itself, so no identity is used again."""

    def serves(self, about: object, columns: Iterable[Column]) -> bool:
        """Return whether these columns of these rows are held."""
        return self._batches is not None and self._about == about and set(columns) <= set(self.columns)

    def begin(self, about: object, columns: Iterable[Column]) -> None:
        """Let go of what is held, for these columns of these rows and those that were held of the same."""
        again = self.columns if self._about == about and self._batches is not None else ()
        self._about, self._batches = about, None
        self.columns = tuple(dict.fromkeys((*again, *columns)))
        self.computed.clear()

    def list_batches(self, read: Iterable[RowBatch]) -> Iterator[RowBatch]:
        """Yield the batches that are held, or those that are read, which are held if they are few enough."""
        if self._batches is not None:
            yield from self._batches
            return
        found: list[RowBatch] | None = []
        size = 0
        for batch in read:
            size += batch.bytes
            found = None if found is None or size > self.most else [*found, batch]
            yield batch
        self._batches = found

    def keep_computed(self, values: Sequence[Value]) -> None:
        """Hold what batches hold of these values and nothing else, as far as there is room."""
        batches = self._batches or []
        self.computed = {id(value): value for value in values} if batches else {}
        for batch in batches:
            batch.computed = {known: each for known, each in batch.computed.items() if known in self.computed}
        if sum(batch.bytes for batch in batches) > self.most:
            self.computed = {}
            for batch in batches:
                batch.computed.clear()


_HELD: ContextVar[HeldRows | None] = ContextVar("held", default=None)


@contextmanager
def hold_rows() -> Iterator[None]:
    """Let the programs that are run inside share rows in memory."""
    before = _HELD.set(HeldRows())
    try:
        yield
    finally:
        _HELD.reset(before)


def current_held_rows() -> HeldRows:
    """Return the rows that programs of this context share; outside of a fit nothing is held."""
    return _HELD.get() or HeldRows(0)
