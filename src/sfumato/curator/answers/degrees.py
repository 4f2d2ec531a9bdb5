"""The answer to how many nodes have each degree: made consistent, with intervals that hold together."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.answers.results import point_to_caveats
from sfumato.engines.arrow import build_array
from sfumato.privacy.exact import parse_exact, parse_interval_level

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.curator.answers.results import Receipt
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.noise.additive import Noise
    from sfumato.viz import Chart

    Counts = NDArray[np.int64]

_SHOWN = 20
"""Number of degrees that are printed."""


def make_consistent(noisy: list[int]) -> Counts:
    """Return the nearest whole numbers that never rise and never fall below zero, as the exact ones do.

    The largest error does not grow by this (docs/proofs/graphs.md), and most errors become much smaller.
    """
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(np.asarray(noisy, dtype=np.float64), increasing=False).x
    return np.maximum(np.rint(fitted), 0).astype(np.int64)


def joint_half_width(noise: Noise, numbers: int, confidence: float) -> int:
    """Return a half width that holds for so many noisy numbers at once, by a bound on each of them."""
    parse_interval_level(confidence)
    share = parse_exact(confidence, "confidence")
    # A union bound: each number may be off with an equal part of the risk.
    return noise.half_width(1 - (1 - share) / numbers)


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many nodes have each degree, and how many at least that."""

    at_least: Counts
    """Number of nodes with at least 1, 2, … edges."""
    noise: Noise
    """Noise in each of these numbers before they were made consistent."""
    bias: tuple[Caveat, ...]
    receipt: Receipt

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the intervals do not cover, such as truncation."""
        return self.bias

    @property
    def nodes(self) -> Counts:
        """Number of nodes with 1, 2, … edges; the last includes those with more."""
        return np.asarray(self.at_least - np.append(self.at_least[1:], 0))

    @property
    def mean_degree(self) -> float | None:
        """Mean degree of nodes with any edge; none where the answer shows no such node."""
        return float(self.at_least.sum() / self.at_least[0]) if self.at_least[0] else None

    # ---- tables ----

    def to_arrow(self) -> pa.Table:
        """Return one row a degree: `nodes` of that degree, and `at_least` that degree."""
        return self._table({"nodes": self.nodes, "at_least": self.at_least})

    def interval(self, confidence: float = 0.95) -> pa.Table:
        """Return where the exact numbers lie, noise only: all of them together at this confidence."""
        columns = {}
        for name, numbers, half in self._figures(confidence):
            columns[f"{name}_low"], columns[f"{name}_high"] = np.maximum(numbers - half, 0), numbers + half
        return self._table(columns)

    def plot(self, *, at_least: bool = False, confidence: float = 0.95) -> Chart:
        """Return a chart of the nodes of each degree, or of at least that, with joint intervals."""
        name, numbers, half = self._figures(confidence)[at_least]
        return viz.bars(
            self._degrees().tolist(),
            numbers.tolist(),
            np.maximum(numbers - half, 0).tolist(),
            (numbers + half).tolist(),
            title=f"Nodes with at least so many edges of {self._graph}"
            if at_least
            else f"Degrees of {self._graph}",
            x="degree",
            y="nodes with at least" if name == "at_least" else "nodes",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return columns, 95 % intervals, what they do not cover, and the receipt, ready for JSON."""
        return {
            "columns": self.to_arrow().to_pydict(),
            "interval": self.interval().to_pydict(),
            "bias": list(self.bias),
            "receipt": self.receipt.to_dict(),
        }

    # ---- what people see ----

    def __str__(self) -> str:
        header, rows = self._shown()
        widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in (header, *rows)
        ]
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows = self._shown()
        return viz.html_table(header, rows) + "".join(f"<p>{escape(note)}</p>" for note in self._notes())

    # ---- parts ----

    @property
    def _graph(self) -> str:
        return self.receipt.table

    def _degrees(self) -> Counts:
        return np.arange(1, len(self.at_least) + 1)

    def _figures(self, confidence: float) -> list[tuple[str, Counts, int]]:
        """Return each number with what it may be off by: a difference of two is off by both."""
        half = joint_half_width(self.noise, len(self.at_least), confidence)
        return [("nodes", self.nodes, 2 * half), ("at_least", self.at_least, half)]

    def _table(self, columns: dict[str, Counts]) -> pa.Table:
        import pyarrow as pa

        every = {"degree": self._degrees(), **columns}
        return pa.table({name: build_array(cells, pa.int64()) for name, cells in every.items()})

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        header, columns = ["degree"], [self._degrees()[:_SHOWN].tolist()]
        for name, numbers, half in self._figures(0.95):
            header += [name, f"± {name}"]
            columns += [numbers[:_SHOWN].tolist(), [half] * len(columns[0])]
        return header, [[f"{cell:,}" for cell in row] for row in zip(*columns, strict=True)]

    def _notes(self) -> list[str]:
        hidden = len(self.at_least) - _SHOWN
        more = [f"… and {hidden:,} more degrees"] if hidden > 0 else []
        return [
            *more,
            "± holds for all of them together at 95 %",
            self.receipt.sentence(),
            *point_to_caveats(self.bias),
        ]
