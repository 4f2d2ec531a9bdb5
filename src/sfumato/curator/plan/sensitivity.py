"""How far one unit can move exact answers, from how many rows it can have and where they can fall.

Because : docs/proofs/contribution-bounds.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.engines.program import CountedUnits
from sfumato.privacy.canonical import tagged
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from sfumato.curator.plan.summands import Summand


@tagged("Moves", "l1", "l2_squared")
@dataclass(frozen=True, slots=True)
class SumSensitivity:
    """How far one unit can move the cells of a sum: by the l1 norm, and by the square of the l2 norm."""

    l1: int
    l2_squared: int

    @property
    def l2(self) -> Fraction:
        """The l2 norm, rounded up."""
        return root_up(Fraction(self.l2_squared))


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """One unit has at most `rows` rows, in at most `cells` cells with at most `each` rows in any of them."""

    rows: int
    cells: int
    each: int
    replaced: bool = False
    """Whether neighbours replace a unit: one unit's rows are removed and another's are added."""
    alone: bool = False
    """Whether there is one cell only, so that rows removed and rows added meet there."""

    @property
    def counted(self) -> int:
        """Number of rows that can differ between neighbours, in all cells together."""
        return min(self.rows, self.cells * self.each) * (2 if self.replaced else 1)

    @property
    def keys(self) -> int:
        """Number of cells that can have one unit more or less, between neighbours."""
        return min(self.rows, self.cells) * (2 if self.replaced else 1)

    def sensitivity(self, summand: Summand) -> SumSensitivity:
        """Return the norms of what one unit adds to the cells of a sum, or of what replacing it changes."""
        if isinstance(summand.term, CountedUnits):
            cells = min(self.rows, self.cells)
            return self._replaced(SumSensitivity(cells, cells), signed=False)
        # The l2 norm is largest where the rows are packed into as few cells as may hold them.
        bound = summand.bound
        rows = min(self.rows, self.cells * self.each)
        full = min(self.cells, self.rows // self.each)
        rest = min(self.each, rows - full * self.each)
        added = SumSensitivity(rows * bound, (full * self.each**2 + rest**2) * bound**2)
        return self._replaced(added, summand.signed)

    def _replaced(self, added: SumSensitivity, signed: bool) -> SumSensitivity:
        """Return the sensitivity to replacing a unit, from that to adding one.

        Where both units' rows add to one cell, the change is at most the larger of the two.
        """
        if not self.replaced:
            return added
        if not signed:
            return added if self.alone else SumSensitivity(2 * added.l1, 2 * added.l2_squared)
        return SumSensitivity(2 * added.l1, 4 * added.l2_squared)
