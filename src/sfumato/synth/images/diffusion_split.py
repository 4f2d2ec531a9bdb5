"""How the budget of a diffusion model is split: what is bought first, and the noise of training.

Because : docs/proofs/synth-images.md#diffusion
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato import viz
from sfumato.errors.numbers import format_number
from sfumato.privacy import composition
from sfumato.privacy.account import caps, price
from sfumato.privacy.bisection import find_smallest
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import COARSE
from sfumato.privacy.events import Sequential

if TYPE_CHECKING:
    from sfumato.deep.batches import Batches
    from sfumato.privacy.events import Event, Gaussian

_PRECISION = 1e-4
"""Relative width of the grid on which noise is searched for; it is rounded up."""


def solve_after(first: Event, batches: Batches, steps: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return the least noise of a run after another event, for which both together are (ε, δ)-private."""

    def holds(multiplier: float) -> bool:
        both = Sequential((first, batches.event(multiplier, steps)))
        return composition.epsilon(both, delta, step=COARSE) <= epsilon

    return find_smallest(holds, 0.25, 0.5, precision=_PRECISION)


def solve_charged_after(
    first: Event, batches: Batches, steps: int, epsilon: Fraction, delta: Fraction
) -> float:
    """Return the least noise of a run after another event, for which an account of (ε, δ) just holds both."""
    limits = caps(Budget.of(epsilon, delta))

    def holds(multiplier: float) -> bool:
        return limits.holds(price(Sequential((first, batches.event(multiplier, steps)))))

    return find_smallest(holds, 0.25, 0.5, precision=_PRECISION)


@dataclass(frozen=True, slots=True, repr=False)
class DiffusionSplit(viz.NamedLines):
    """What a fit spends on what, as figures. Making one reads no rows and spends nothing."""

    epsilon: Fraction
    delta: Fraction
    bought: str
    """What is released before training, in words."""
    first: Gaussian
    training: Event
    multiplier: float
    """The noise on every sum of gradients, in clipping norms."""
    steps: int
    batch_size: int
    rows: int
    """The declared number of rows."""
    as_one: bool = False
    """Whether ε and δ are charged for the whole fit, because its curve would not be admitted."""

    @property
    def event(self) -> Event:
        """The price of the whole fit."""
        return Sequential((self.first, self.training))

    @property
    def first_epsilon(self) -> float:
        """The ε that what is bought first would cost alone, at the δ of the whole."""
        return composition.epsilon(self.first, self.delta)

    @property
    def training_epsilon(self) -> float:
        """The ε that training would cost alone, at the δ of the whole."""
        return composition.epsilon(self.training, self.delta, step=COARSE)

    def list_parts(self) -> list[tuple[str, Fraction, str]]:
        """Return what is paid for, the ε that it would cost alone as a share of all, and what that buys."""
        noise = f"{self.steps:,} steps with noise of {format_number(self.multiplier, 3)} clipping norms"
        shares = (Fraction(each) / self.epsilon for each in (self.first_epsilon, self.training_epsilon))
        return list(zip(("before training", "training"), shares, (self.bought, noise), strict=True))

    def _lines(self) -> list[tuple[str, str]]:
        run = f"{self.steps:,} steps, batches of {self.batch_size:,} out of {self.rows:,}"
        way = "as one run, all of δ from the part for side δ" if self.as_one else "for all of it"
        return [
            (
                "price",
                f"ε = {format_number(float(self.epsilon))}, δ = {format_number(float(self.delta), 3)} {way}",
            ),
            (self.bought, f"ε = {format_number(self.first_epsilon)} by itself, at the same δ"),
            ("training", f"ε = {format_number(self.training_epsilon)} by itself, at the same δ: {run}"),
            ("noise", f"{format_number(self.multiplier)} clipping norms on every sum of gradients"),
        ]
