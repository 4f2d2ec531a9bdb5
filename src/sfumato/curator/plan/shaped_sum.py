"""Several sums with one noise: what one unit can do to them, what that costs, and where noise is added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.shapes import Shape
from sfumato.errors.checked import checked, require_field
from sfumato.noise import LaplaceNoise
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from sfumato.curator.plan.summands import Summand
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event


@tagged("ShapedSum", "shape", "sensitivity", "noise")
@dataclass(frozen=True, slots=True)
@checked
class ShapedSum:
    """Sums that are measured together, in the coordinates of a shape.

    Privacy
    -------
    Protects : one unit, add/remove, whose rows add at most `sensitivity` to all coordinates together.
    Costs    : the noise's event at that sensitivity.
    Because  : docs/proofs/shaped-noise.md
    Assumes  : the input is an exact integer vector.
    """

    shape: Shape
    sensitivity: SumSensitivity
    noise: LaplaceNoise

    counts_public_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_field(self.sensitivity.l1 >= self.shape.width, self, "sensitivity", "a row's width or more")
        require_field(not self.shape.columns, self, "shape", "one whose coordinates add up")

    @property
    def sums(self) -> tuple[Summand, ...]:
        """The exact sums that it is computed from."""
        return self.shape.sums

    def event(self) -> Event:
        """Return what releasing the coordinates costs."""
        return self.noise.event_for(self.sensitivity)

    def release(self, exact: IntArray) -> IntArray:
        """Return noisy coordinates, one row each, from the exact sums: one row a sum, one column a cell."""
        return self.noise.release_for(self.shape.compute(exact), self.sensitivity)
