"""Measured marginals as products of their own: noisy counts with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from sfumato.synth.column_cells import ColumnCells
    from sfumato.synth.kernel import ReleasedMarginals
    from sfumato.synth.measuring import Measurement


@dataclass(frozen=True)
class ContingencyTables:
    """The marginals that were measured, in the order of their release; each is read by its columns."""

    columns: tuple[ColumnCells, ...]
    released: ReleasedMarginals

    def __len__(self) -> int:
        return len(self.released.measured)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield the columns of each marginal."""
        return iter([self._names(each) for each in self.released.measured])

    def __getitem__(self, columns: str | Sequence[str]) -> pa.Table:
        return self.table(columns)

    def table(self, columns: str | Sequence[str], *, confidence: float = 0.95) -> pa.Table:
        """Return a measured marginal: a row a cell with its noisy count and an interval for the exact one.

        The interval covers the count of each cell by itself, and noise alone. A marginal that was measured
        more than once is given with the least noise.
        """
        wanted = (columns,) if isinstance(columns, str) else tuple(columns)
        found = [each for each in self.released.measured if set(self._names(each)) == set(wanted)]
        if not found:
            raise UsageError(
                "SF-E209",
                "This marginal was not measured.",
                measured=", ".join("·".join(each) for each in dict.fromkeys(self))[:300],
                try_="one that was, or a workload with this marginal and a larger epsilon",
            )
        return self._tabulate(min(found, key=lambda each: each.deviation), confidence)

    def _tabulate(self, measured: Measurement, confidence: float) -> pa.Table:
        import pyarrow as pa

        labels = [self._labels(column, len(measured.columns) > 1) for column in measured.columns]
        cells = list(product(*labels))
        width = measured.noise.half_width(confidence)
        named = {name: [cell[at] for cell in cells] for at, name in enumerate(self._names(measured))}
        low = np.maximum(measured.counts - width, 0)
        high = np.maximum(measured.counts + width, 0)
        return pa.table({**named, "count": measured.counts, "low": low, "high": high})

    def _labels(self, column: int, merged: bool) -> list[str]:
        """Return what each bin or merged cell holds, in words."""
        shown = [str(each) for each in _name_cells(self.columns[column])]
        into = self.released.bins[column]
        if merged:
            into = self.released.merged[column][into]
        found = []
        for cell in range(int(into.max()) + 1):
            held = [shown[at] for at in np.flatnonzero(into == cell)]
            found.append(
                held[0] if len(held) == 1 else f"{held[0]} … {held[-1]}" if not merged else _list_few(held)
            )
        return found

    def _names(self, measured: Measurement) -> tuple[str, ...]:
        return tuple(self.columns[at].name for at in measured.columns)


def _name_cells(column: ColumnCells) -> list[Any]:
    named = column.show_cells()
    return [
        "missing" if each is None else " to ".join(map(_show, each)) if isinstance(each, tuple) else each
        for each in named
    ]


def _show(value: Any) -> str:
    """Return an end of a bin; numbers with many digits after the point are shortened."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _list_few(held: list[str]) -> str:
    """Return the first of several values, and how many others there are."""
    return f"{', '.join(held[:2])} and {len(held) - 2} more" if len(held) > 3 else ", ".join(held)
