"""What people get before they pay for a run: its price by both ways of accounting, and what would be left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import viz
from sfumato.errors.numbers import format_number, format_remaining

if TYPE_CHECKING:
    from sfumato.curator.payer import Standing
    from sfumato.deep.promises import TrainingGuarantee


@dataclass(frozen=True, slots=True, repr=False)
class TrainingQuote(viz.NamedLines):
    """The price of a run behind the curator. Making one reads no data and spends nothing."""

    guarantee: TrainingGuarantee
    steps: int
    units: int
    """The declared number of units."""
    multiplier: float
    """The noise on every sum, in clipping norms."""
    standing: Standing

    @property
    def charged(self) -> float:
        """The ε that is charged: by the filters of the account, or for the run as a whole."""
        return self.guarantee.in_an_account

    @property
    def alone(self) -> float:
        """The ε of the run by itself, as own arrays would be priced for the same noise."""
        return self.guarantee.alone

    @property
    def as_one(self) -> bool:
        """Whether ε and δ are charged for the run as a whole, because its curve would not be admitted."""
        return self.guarantee.as_one

    @property
    def admitted(self) -> bool:
        """Whether enough is left to pay for it."""
        return self.standing.left_after is not None

    @property
    def free(self) -> bool:
        """Whether the same run was released before, so that it costs nothing."""
        return self.standing.free

    @property
    def paid(self) -> bool:
        """Whether the run was charged before, so that it goes on and costs nothing more."""
        return self.standing.paid

    def _say_free(self) -> str:
        """Return why nothing is charged; nothing if something is."""
        if self.free:
            return "nothing: the same was released before"
        return "nothing more: the run is paid for, and goes on" if self.paid else ""

    def _lines(self) -> list[tuple[str, str]]:
        standing, promised = self.standing, self.guarantee
        after = standing.left_after
        left = "not enough, it would be refused" if after is None else f"ε = {format_remaining(after)}"
        way = (
            "as one run, all of δ from the part for side δ"
            if self.as_one
            else "by the filters of the account"
        )
        price = f"ε = {format_number(self.charged)}, δ = {format_number(promised.delta, 3)}, {way}"
        return [
            ("price", self._say_free() or price),
            (
                "by itself",
                f"ε = {format_number(self.alone)} at the same δ, as a run that is fixed in advance",
            ),
            ("protects", promised.unit),
            ("run", f"{self.steps:,} steps for {self.units:,} declared units"),
            ("noise", f"{format_number(self.multiplier)} clipping norms on every sum"),
            ("remaining before", f"ε = {format_remaining(standing.left)}"),
            ("remaining after", left),
        ]
