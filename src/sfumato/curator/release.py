"""What people get: the quote before paying, the answer with its error and its receipt after."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.columns import OneOf
from sfumato.curator.estimate import interval, values
from sfumato.curator.gate import decode
from sfumato.curator.measurement import Mean, Variance
from sfumato.errors import UsageError
from sfumato.privacy.exact import exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfumato.curator.plan import Plan
    from sfumato.ledger import Released
    from sfumato.viz import Chart

SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """The ledger's word that an answer was charged: keep it to notice a ledger that was set back."""

    entry: int
    head: str
    table: str
    unit: str
    charged: str
    replayed: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "entry": self.entry,
            "head": self.head,
            "table": self.table,
            "unit": self.unit,
            "charged": self.charged,
            "replayed": self.replayed,
        }


class Release:
    """An answer: noisy numbers, where the exact ones lie, and the receipt."""

    def __init__(self, plan: Plan, released: Released) -> None:
        self._plan = plan
        self._noisy = decode(released.answer)
        charged = "nothing" if released.replayed else str(plan.spend)
        self.receipt = Receipt(
            released.seq, released.head, plan.table.name, plan.table.population, charged, released.replayed
        )

    # ---- tables ----

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        return pa.table(self._columns)

    def to_pandas(self) -> pd.DataFrame:
        with _installed("pandas"):
            return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        with _installed("polars"):
            import polars as pl
        return pl.DataFrame(self.to_arrow())

    def interval(self, confidence: float = 0.95) -> pa.Table:
        """For each number of the answer `name_low` and `name_high`: where the exact one lies, noise only."""
        import pyarrow as pa

        columns: dict[str, Any] = dict(self._labels)
        for name, (low, high) in self._intervals(_checked(confidence)).items():
            columns |= {f"{name}_low": low, f"{name}_high": high}
        return pa.table(columns)

    def plot(self, column: str | None = None, *, confidence: float = 0.95) -> Chart:
        """A chart of one number of the answer, the first if none is named, with its error bars."""
        intervals = self._intervals(_checked(confidence))
        name = next(iter(intervals)) if column is None else column
        if name not in intervals:
            raise UsageError("SF-N112", f"The answer has no number '{name}'.", numbers=", ".join(intervals))
        low, high = intervals[name]
        keys = [key.column for key in self._plan.program.keys]
        return viz.bars(
            [" · ".join(map(str, cell)) for cell in self._cells] if keys else [name],
            self._columns[name].tolist(),
            low.tolist(),
            high.tolist(),
            title=f"{name} by {', '.join(keys)}" if keys else name,
            x=", ".join(keys),
            y=name,
        )

    # ---- what people see ----

    def __str__(self) -> str:
        header, rows = self._shown()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [header, *rows]
        ]
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows = self._shown()
        return viz.html_table(header, rows) + "".join(f"<p>{escape(note)}</p>" for note in self._notes())

    def to_dict(self) -> dict[str, Any]:
        """Columns, 95 % intervals, what they do not cover, and the receipt, ready for JSON."""
        return {
            "columns": self.to_arrow().to_pydict(),
            "interval": self.interval().to_pydict(),
            "bias": list(self._plan.bias),
            "receipt": self.receipt.to_dict(),
        }

    # ---- parts ----

    @cached_property
    def _cells(self) -> list[tuple[Any, ...]]:
        """The declared keys of every group, in declared order."""
        promises = [self._plan.table.columns[key.column] for key in self._plan.program.keys]
        return list(product(*(promise.shown() for promise in promises if isinstance(promise, OneOf))))

    @cached_property
    def _labels(self) -> dict[str, list[Any]]:
        """The keys that were asked for, under the names asked for."""
        keys = [key.column for key in self._plan.program.keys]
        places = {
            name: keys.index(self._plan.table.column(key)) for name, key in self._plan.question.labels.items()
        }
        return {name: [cell[place] for cell in self._cells] for name, place in places.items()}

    def _intervals(self, confidence: float) -> dict[str, tuple[Any, Any]]:
        asked = self._plan.question.aggregates
        return {name: interval(self._plan, each, self._noisy, confidence) for name, each in asked.items()}

    @cached_property
    def _columns(self) -> dict[str, Any]:
        asked = self._plan.question.aggregates
        numbers = {name: values(self._plan, each, self._noisy) for name, each in asked.items()}
        parts = {**self._labels, **numbers}
        return {output.name: parts[output.name] for output in self._plan.question.outputs}

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        columns = {
            name: [_cell(cell) for cell in cells[:SHOWN_ROWS]] for name, cells in self._columns.items()
        }
        for name, (low, high) in self._intervals(0.95).items():
            if isinstance(self._plan.question.aggregates[name], Mean | Variance):
                ends = zip(low[:SHOWN_ROWS], high[:SHOWN_ROWS], strict=True)
                columns[f"{name}, 95 %"] = [f"{bottom:,.4g} to {top:,.4g}" for bottom, top in ends]
            else:
                columns[f"± {name}"] = [f"{half:,.4g}" for half in (high - low)[:SHOWN_ROWS] / 2]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def _notes(self) -> list[str]:
        hidden = self._plan.program.cells - SHOWN_ROWS
        more = [f"… and {hidden:,} more groups"] if hidden > 0 else []
        return [*more, *(f"not in ±: {text}" for text in self._plan.bias), self._price()]

    def _price(self) -> str:
        if self.receipt.replayed:
            return f"free: the same answer as in entry {self.receipt.entry}"
        return f"charged {self.receipt.charged} to {self.receipt.unit}, entry {self.receipt.entry}"


def _checked(confidence: float) -> float:
    if not 0 < exact(confidence, "confidence") < 1:
        raise UsageError("SF-N107", "A confidence lies between 0 and 1.", got=str(confidence), try_="0.95")
    return float(confidence)


@contextmanager
def _installed(library: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise UsageError(
            "SF-N113", f"{library} is not installed.", try_=f"pip install {library}, or use to_arrow()"
        ) from None


def _cell(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,}" if isinstance(value, int | np.integer) else f"{value:,.6g}"
