"""How far one unit can move exact answers, from how many rows it can have and where they can fall.

Because : docs/proofs/contribution-bounds.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.engines.program import CountedUnits, CountedValues
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.privacy.canonical import written_by
from sfumato.privacy.events import Moves, pack_moves, scale_moves, sum_moves, sum_squares
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from sfumato.curator.plan.summands import Summand


# The moves are not written: requests were hashed before prices knew them, and they change no noise.
def _write(norms: SumSensitivity) -> dict[str, Any]:
    return {"": "Moves", "l1": norms.l1, "l2_squared": norms.l2_squared}


@written_by(_write)
@dataclass(frozen=True, slots=True)
@checked
class SumSensitivity:
    """How far one unit can move the cells of a sum: by the l1 norm, and by the square of the l2 norm."""

    l1: int
    l2_squared: int
    moves: Moves = ()
    """The largest moves of single cells, which add up to the l1 norm: one cell moves that far if empty."""

    def __post_init__(self) -> None:
        require_field(self.l1 >= 0, self, "l1", "0 or more")
        fits = bool(self.l1) == bool(self.l2_squared) and 0 <= self.l2_squared <= self.l1**2
        require_field(fits, self, "l2_squared", "at most the square of l1, and 0 with it alone")
        if not self.moves:
            object.__setattr__(self, "moves", ((self.l1, 1),) if self.l1 else ())
        add_up = all(min(move) >= 1 for move in self.moves) and sum_moves(self.moves) == self.l1
        require_field(add_up, self, "moves", "moves that add up to l1")

    @classmethod
    def of(cls, moves: Moves) -> SumSensitivity:
        """Return the norms of these moves."""
        return cls(sum_moves(moves), sum_squares(moves), moves)

    @property
    def l2(self) -> Fraction:
        """The l2 norm, rounded up."""
        return root_up(Fraction(self.l2_squared))


@dataclass(frozen=True, slots=True)
@checked
class ContributionBounds:
    """One unit has at most `rows` rows, in at most `cells` cells with at most `each` rows in any of them."""

    rows: int
    cells: int
    each: int
    replaced: bool = False
    """Whether neighbours replace a unit: one unit's rows are removed and another's are added."""
    alone: bool = False
    """Whether there is one cell only, so that rows removed and rows added meet there."""

    def __post_init__(self) -> None:
        # A unit that is said to add nothing would be given no noise.
        require_positive(self, "rows", "cells", "each")

    @property
    def counted(self) -> int:
        """Number of rows that can differ between neighbours, in all cells together."""
        return min(self.rows, self.cells * self.each) * (2 if self.replaced else 1)

    @property
    def keys(self) -> int:
        """Number of cells that can have one unit more or less, between neighbours."""
        return min(self.rows, self.cells) * (2 if self.replaced else 1)

    @property
    def row_moves(self) -> Moves:
        """Number of rows that can differ between neighbours in each cell, at worst."""
        # Where a unit is replaced, rows removed and rows added can be in the same cells.
        return scale_moves(self._added, 2 if self.replaced else 1)

    @property
    def _added(self) -> Moves:
        """The rows of one unit, packed into as few cells as may hold them."""
        return pack_moves(min(self.rows, self.cells * self.each), self.each)

    def sensitivity(self, summand: Summand) -> SumSensitivity:
        """Return the norms of what one unit adds to the cells of a sum, or of what replacing it changes."""
        if isinstance(summand.term, CountedUnits):
            return self._replaced(pack_moves(min(self.rows, self.cells), 1), signed=False)
        if isinstance(summand.term, CountedValues):
            # A row brings one value at most into its cell, and a cell has no more than there are.
            each = self.each if summand.term.size is None else min(self.each, summand.term.size)
            return self._replaced(pack_moves(min(self.rows, self.cells * each), each), signed=False)
        return self._replaced(scale_moves(self._added, summand.bound), summand.signed)

    def shape_sensitivity(self, width: int) -> SumSensitivity:
        """Return the norms of what one unit adds to coordinates of which a row adds `width` at most in all.

        Worst is a unit all of whose rows in a cell add to the same coordinate: docs/proofs/shaped-noise.md.
        """
        if self.replaced:
            raise AssertionError("shapes are for units that are added or removed")
        return SumSensitivity.of(scale_moves(self._added, width))

    def _replaced(self, added: Moves, signed: bool) -> SumSensitivity:
        """Return the sensitivity to replacing a unit, from what adding one moves.

        Where both units' rows add to one cell, the change is at most the larger of the two.
        """
        if not self.replaced or (self.alone and not signed):
            return SumSensitivity.of(added)
        if not signed:
            return SumSensitivity.of(tuple((distance, 2 * cells) for distance, cells in added))
        return SumSensitivity.of(scale_moves(added, 2))
