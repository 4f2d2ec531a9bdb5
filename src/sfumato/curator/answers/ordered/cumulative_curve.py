"""A cumulative curve: how many rows lie below each value, and every quantile, from one noisy release."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.answers.answer import arrow_type, decode_places
from sfumato.curator.answers.ordered.quantile_intervals import nearest_passed
from sfumato.curator.catalog.domains import Numbers
from sfumato.engines.arrow import build_array
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_share
from sfumato.privacy.exact import parse_exact, parse_interval_level

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.answers.results import Receipt
    from sfumato.curator.catalog.domains import Periods
    from sfumato.noise import RangeSums
    from sfumato.privacy.exact import Number
    from sfumato.viz import Chart


@dataclass(frozen=True, eq=False)
class CumulativeCurve:
    """How many rows lie up to each value of a column; any quantile of it costs nothing more."""

    column: str
    mechanism: RangeSums = field(repr=False)
    counts: Floats = field(repr=False)
    """Estimated number of rows of each value; noise may make it negative."""
    domain: Numbers | Periods = field(repr=False)
    coarse: bool
    """Whether a place stands for all values up to the next one, as on a grid coarser than the column's."""
    receipt: Receipt

    @cached_property
    def _rows(self) -> Floats:
        """Estimated rows up to each value: the nearest numbers, by squares, that only grow."""
        from scipy.optimize import isotonic_regression

        return np.maximum(np.asarray(isotonic_regression(np.cumsum(self.counts)).x), 0.0)

    @cached_property
    def _weights(self) -> Floats:
        """What each noisy sum weighs in the rows before each edge, from none of the values to all of them."""
        tree, size = self.mechanism.tree, self.mechanism.cells
        nothing = np.zeros(sum(level.size for level in tree.weight))
        return np.stack(
            [nothing, *(np.concatenate(tree.range_weights(0, edge)) for edge in range(1, size + 1))]
        )

    def quantile(self, share: Number) -> Any:
        """Return the value that about this share of the rows lies up to, the middle of a coarse step."""
        part = _parse_share(share)
        place = min(int(np.searchsorted(self._rows, part * self._rows[-1])), self.mechanism.cells - 1)
        low, high = self._starts(np.array([place]))[0], self._ends(np.array([place]))[0]
        return (low + high) / 2 if self.coarse else low

    def interval(self, share: Number, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the values between which the exact quantile lies, noise only, with this confidence."""
        part, level = _parse_share(share), parse_interval_level(confidence)
        before = np.concatenate([[0.0], np.cumsum(self.counts)])
        gaps, halves = before - part * before[-1], self._half_widths(part, level)
        # The first edge has no row before it and the last has all: both are known without noise.
        below, above = gaps < -halves, gaps > halves
        below[0] = above[-1] = True
        size = self.mechanism.cells
        low = size - int(nearest_passed(below[::-1, None])[0])
        high = int(nearest_passed(above[:, None])[0]) - 1
        first, last = min(low, high, size - 1), max(low, high, 0)
        return self._starts(np.array([first]))[0], self._ends(np.array([last]))[0]

    def share_below(self, value: Any) -> float:
        """Return about which share of the rows lies up to a value; 0 where there seem to be none."""
        place = int(np.searchsorted(self._ends(np.arange(self.mechanism.cells)), value, side="right"))
        whole = float(self._rows[-1])
        return float(self._rows[place - 1]) / whole if place and whole > 0 else 0.0

    def to_arrow(self, confidence: float = 0.95) -> pa.Table:
        """Return each value, about how many rows lie up to it, and where the exact number lies."""
        import pyarrow as pa

        halves = self._half_widths(0.0, parse_interval_level(confidence))[1:]
        exact = np.cumsum(self.counts)
        places = np.arange(self.mechanism.cells)
        values = build_array(self._ends(places), arrow_type(self.domain))
        ends = {"low": np.maximum(exact - halves, 0.0), "high": np.maximum(exact + halves, 0.0)}
        return pa.table({self.column: values, "rows": self._rows, **ends})

    def plot(self) -> Chart:
        """Return a chart of the share of the rows up to each value."""
        values, whole = self._ends(np.arange(self.mechanism.cells)), max(float(self._rows[-1]), 1.0)
        cuts = values if isinstance(self.domain, Numbers) else np.arange(values.size)
        return viz.step_curve(cuts, [0.0, *(self._rows / whole)], x=self.column, y="share of the rows")

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        table = self.to_arrow().to_pydict()
        shown = [each.isoformat() if hasattr(each, "isoformat") else each for each in table.pop(self.column)]
        return {"column": self.column, "values": shown, **table, "receipt": self.receipt.to_dict()}

    def __str__(self) -> str:
        quarters = (0.1, 0.25, 0.5, 0.75, 0.9)
        lines = [
            f"{format_share(share, 0):>5}  {self.quantile(share)}  {_between(self.interval(share))}"
            for share in quarters
        ]
        return "\n".join(
            [f"{self.column} up to which a share of the rows lies, 95 %:", *lines, self.receipt.sentence()]
        )

    __repr__ = __str__

    def _half_widths(self, share: float, confidence: float) -> Floats:
        """Return half the widths for the rows before each edge less a share of all rows."""
        return self.mechanism.half_widths(self._weights - share * self._weights[-1], confidence)

    def _starts(self, places: Any) -> Any:
        """Return the first value of each place."""
        found = decode_places(self.domain, places)
        return found if isinstance(self.domain, Numbers) else found.astype(object)

    def _ends(self, places: Any) -> Any:
        """Return the last value of each place; where it stands for several, the first of the next."""
        return self._starts(places + 1 if self.coarse else places)


def _between(ends: tuple[Any, Any]) -> str:
    return f"({ends[0]} to {ends[1]})"


def _parse_share(share: Number) -> float:
    part = parse_exact(share, "share")
    if not 0 < part < 1:
        raise UsageError("SF-N101", "A share must lie between 0 and 1.", try_="0.5")
    return float(part)
