"""A cumulative curve of one column: sums over a tree of its values, with noise (docs/proofs/ranges.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import MISSING, add_integer, coarsen_grid, require_number
from sfumato.curator.plan.caveats import describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import Needs, PureSpend
from sfumato.engines.program import CellHistogram
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked, require_positive
from sfumato.noise import GaussianNoise, LaplaceNoise, RangeSums
from sfumato.noise.ordered.ranges import best_branching
from sfumato.noise.ordered.trees import build_tree
from sfumato.privacy.canonical import tagged
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.relation import Expression
    from sfumato.engines.program import HistogramCounts
    from sfumato.privacy.events import Event

MOST_POINTS = 1024
"""Most values of a curve: every sum of its tree is kept in the ledger."""


@tagged("Curve", "program", "mechanism", "rows")
@dataclass(frozen=True, slots=True)
@checked
class Curve:
    """Noisy sums over a tree of the values; a unit has at most `rows` rows, or replaces that many."""

    program: CellHistogram
    mechanism: RangeSums
    rows: int

    def __post_init__(self) -> None:
        require_positive(self, "rows")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.mechanism.event(self.rows)

    def release(self, exact: HistogramCounts) -> list[list[int]]:
        """Return the noisy sums of each level of the tree, from the values on."""
        _, places, counts = exact.triplets()
        whole = np.zeros(self.program.size, dtype=np.int64)
        whole[places] = counts
        return [level.tolist() for level in self.mechanism.release_sums(whole, rows=self.rows)]


CurvePlan = Plan[Curve, tuple[Numbers | Periods, bool]]
"""Its subject is the grid, and whether that is coarser than the column's own."""


def curve_needs(source: RowSource, column: Expression, points: int) -> Needs:
    """Return what the spend of a curve is for: one row is in one sum of each level of its tree."""
    return Needs((_sensitivity(source, _fit(source, column, points)[1].size, gaussian=False),))


def plan_curve(source: RowSource, column: Expression, points: int, spend: Spend) -> CurvePlan:
    """Return the plan of a curve over at most so many values."""
    part, domain, coarse = _fit(source, column, points)
    gaussian = not isinstance(spend, PureSpend)
    noise = spend.noise(_sensitivity(source, domain.size, gaussian=gaussian))
    if not isinstance(noise, LaplaceNoise | GaussianNoise):
        raise AssertionError(noise)
    mechanism = RangeSums(domain.size, best_branching(domain.size, gaussian=gaussian), noise)
    value: Any = add_integer(part.value, -domain.low)
    program = CellHistogram(source.rows, source.where, (), value, domain.size)
    step = Curve(program, mechanism, _moved_rows(source))
    bias = describe_truncation(source.table)
    return Plan(source.table, spend, (step,), (domain, coarse), bias, reads=source.tables)


def _moved_rows(source: RowSource) -> int:
    """Return by how many rows neighbours differ: those of one unit, or of the two that replace each other."""
    return source.max_rows * (1 if source.table.neighbours is Neighbours.ADD_REMOVE else 2)


def _sensitivity(source: RowSource, size: int, *, gaussian: bool) -> SumSensitivity:
    height = build_tree(size, best_branching(size, gaussian=gaussian)).height
    return SumSensitivity.of(((_moved_rows(source), height),))


def _fit(source: RowSource, column: Expression, points: int) -> tuple[LoweredValue, Numbers | Periods, bool]:
    """Return the column on a grid of at most so many values, the grid, and whether it is coarser."""
    part = lower_expression(column, source.scope)
    if part is MISSING:
        raise PolicyError("SF-Q134", "The column of a curve is always NULL.", try_="a column")
    if isinstance(part.domain, Periods):
        if part.domain.size > points:
            raise PolicyError(
                "SF-Q158", f"A curve of dates has at most {points:,} of them.", try_="DATE_TRUNC('month', …)"
            )
        return part, part.domain, False
    part, domain = require_number(part, "The column of a curve")
    bits = max(0, (-(-domain.size // points) - 1).bit_length())
    part = coarsen_grid(part, domain, bits)
    return part, require_number(part, "The column of a curve")[1], bits > 0
