"""Several sums with one noise: what one unit can do to them, what that costs, and where noise is added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.shaped.shapes import GaussianShape, Shape
from sfumato.errors.checked import checked, require_field
from sfumato.noise import GaussianNoise, LaplaceNoise, SimplicesNoise
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.curator.plan.spend import Spend
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
    Protects : one unit, add/remove, whose rows move all coordinates together by at most `sensitivity`.
    Costs    : the noise's event at that sensitivity.
    Because  : docs/proofs/shaped-noise.md
    Assumes  : the input is an exact integer vector.
    """

    shape: Shape | GaussianShape
    sensitivity: SumSensitivity
    noise: LaplaceNoise | SimplicesNoise | GaussianNoise

    counts_public_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_field(self.sensitivity.l1 >= self.shape.width, self, "sensitivity", "a row's width or more")
        columns = self.noise.columns if isinstance(self.noise, SimplicesNoise) else ()
        # A shape bounds what a row does in one norm, and each noise is priced by a norm of its own.
        own = isinstance(self.noise, GaussianNoise) == isinstance(self.shape, GaussianShape)
        require_field(own and columns == self.shape.columns, self, "noise", "noise of the shape's columns")

    @classmethod
    def calibrated(
        cls, shape: Shape | GaussianShape, sensitivity: SumSensitivity, spend: Spend, part: Fraction
    ) -> ShapedSum:
        """Return the sums with the noise that costs this part of a spend."""
        # Independent noise, as one column has it, is priced lower at Rényi orders than noise of any shape.
        if not shape.columns:
            return cls(shape, sensitivity, spend.noise(sensitivity, part))
        return cls(shape, sensitivity, SimplicesNoise(shape.columns, spend.scale(sensitivity, part)))

    @property
    def sums(self) -> tuple[Summand, ...]:
        """The exact sums that it is computed from."""
        return self.shape.sums

    def event(self) -> Event:
        """Return what releasing the coordinates costs."""
        if not isinstance(self.noise, SimplicesNoise):
            return self.noise.event_for(self.sensitivity)
        # The norm of one row is its width, and norms of rows and of cells add up, as those of the l1 norm do.
        return self.noise.event(self.sensitivity.l1)

    def release(self, exact: IntArray) -> IntArray:
        """Return noisy coordinates, one row each, from the exact sums: one row a sum, one column a cell."""
        coordinates = self.shape.compute(exact)
        if not isinstance(self.noise, SimplicesNoise):
            return self.noise.release_for(coordinates, self.sensitivity)
        # Where no key was discovered there is nothing to add noise to.
        return self.noise.release(coordinates, norm=self.sensitivity.l1) if coordinates.size else coordinates
