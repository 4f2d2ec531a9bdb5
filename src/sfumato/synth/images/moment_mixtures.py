"""The mechanism behind `Moments(components=…)`: moments of classes, and then moments of their parts.

A first release has few coefficients. It says along which directions the rows of a class vary most, and every
class is cut through its mean across one or two of them. A second release has moments of the parts.

Because : docs/proofs/synth-images.md#mixtures
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Gaussian
from sfumato.synth.images.class_gaussians import ClassGaussians
from sfumato.synth.images.class_moments import MomentsKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.synth.images.public_basis import PublicBasis

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

COMPONENTS = (1, 2, 4)
"""How many Gaussians a class may have."""
_FIRST, _SECOND = Fraction(13, 5), Fraction(13, 12)
"""Multipliers of both releases, in that of the whole. Privacy needs 1/first² + 1/second² to be at most 1."""
_FEW = 16
"""Coefficients of the first release. Privacy does not depend on it."""
_FINE = 2**12
"""The integer that stands for 1 in a direction."""


@tagged("MomentsMixture", "basis", "bounds", "classes", "multiplier", "replaced", "size", "components")
@dataclass(frozen=True, slots=True)
class MixtureKernel:
    """Releases moments of classes, and then of the parts that they are cut into.

    Privacy
    -------
    Protects : one unit with one row, added or removed, or replaced where `replaced` says so.
    Costs    : Gaussian(multiplier).
    Because  : docs/proofs/synth-images.md#mixtures
    Assumes  : the basis and the classes are public; a row is in one class at most.
    """

    basis: PublicBasis
    bounds: tuple[int, ...]
    classes: int
    multiplier: Fraction
    replaced: bool
    size: int
    components: int

    @property
    def first(self) -> MomentsKernel:
        """What is released of classes."""
        size = min(_FEW, self.basis.size)
        return MomentsKernel(
            self.basis, self.bounds, self.classes, self.multiplier * _FIRST, self.replaced, size
        )

    @property
    def second(self) -> MomentsKernel:
        """What is released of the parts of classes."""
        parts = self.classes * self.components
        return MomentsKernel(
            self.basis, self.bounds, parts, self.multiplier * _SECOND, self.replaced, self.size
        )

    @property
    def passes(self) -> int:
        """About how often rows are gone over."""
        return self.first.passes + self.second.passes

    def event(self) -> Gaussian:
        """Return the price of all that is released."""
        return Gaussian(self.multiplier)

    def require_drawable(self) -> None:
        """Refuse a price whose noise is too wide to be drawn: before anything is charged."""
        self.first.require_drawable()
        self.second.require_drawable()

    def list_parts(self) -> list[tuple[str, Fraction, str]]:
        """Return what the budget is spent on: a name, its share, and what that buys."""
        parts = [(name, share / _SECOND**2, buys) for name, share, buys in self.second.list_parts()]
        return [("where classes are cut", 1 / _FIRST**2, f"{self.components} parts a class"), *parts]

    def release(self, exact: Ints) -> dict[str, Any]:
        """Release moments of rows given as columns, the class last; −1 is no class."""
        return self.measure(self.second.project(exact), exact[-1])

    def measure(self, coefficients: Floats, labels: Ints) -> dict[str, Any]:
        """Release moments of coefficients that lie within REACH, as the ledger keeps them."""
        first = self.first.measure(coefficients, labels)
        parts = self._find_parts(ClassGaussians(self.first, first), coefficients, labels)
        return {"first": first, "second": self.second.measure(coefficients, parts)}

    def _find_parts(self, released: ClassGaussians, coefficients: Floats, labels: Ints) -> Ints:
        """Return the part that each row is in, from that row and what was released; −1 stays."""
        found = np.full(len(labels), -1)
        for at in range(self.classes):
            cuts = np.rint(_widest(released.factors[at], self.components.bit_length() - 1) * _FINE)
            places = np.flatnonzero(labels == at)
            # Whole numbers, whose sums are exact: a row's side does not depend on the rows beside it.
            sides = (coefficients[places, : released.size] - released.first.centres[at]) @ cuts.T > 0
            found[places] = at * self.components + sides @ (2 ** np.arange(len(cuts)))
        return found


@dataclass(frozen=True, slots=True)
class ClassMixture:
    """Draws rows of classes that have several Gaussians each. All of it is post-processing."""

    parts: ClassGaussians
    components: int

    @classmethod
    def of(cls, kernel: MixtureKernel, written: Mapping[str, Any]) -> ClassMixture:
        """Return what was released of the parts."""
        return cls(ClassGaussians(kernel.second, written["second"]), kernel.components)

    @property
    def counts(self) -> Ints:
        """The number of rows of each class, with noise."""
        found: Ints = self.parts.first.counts.reshape(-1, self.components).sum(axis=1)
        return found

    @property
    def size(self) -> int:
        """The number of coefficients that vary together."""
        return self.parts.size

    @property
    def weights(self) -> Floats:
        """The share of each class."""
        found: Floats = self._by_part.sum(axis=1)
        return found

    @property
    def _by_part(self) -> Floats:
        return self.parts.weights.reshape(-1, self.components)

    def draw_of(self, labels: Ints, random: np.random.Generator) -> tuple[Floats, tuple[Ints, ...]]:
        """Return numbers from −1 to 1, a row for each of these classes, and no listed values."""
        ends = np.cumsum(self._by_part / self.weights[:, None], axis=1)[labels, :-1]
        which = (random.random(len(labels))[:, None] > ends).sum(axis=1)
        return self.parts.draw_of(labels * self.components + which, random)


def _widest(factor: Floats, count: int) -> Floats:
    """Return the directions along which rows vary most, of a root of their covariance."""
    values, vectors = np.linalg.eigh(factor.T @ factor)
    found: Floats = vectors[:, np.argsort(values)[::-1][:count]].T
    return found
