"""What people get before paying: the price, the expected error, and what would be left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from sfumato import viz
from sfumato.privacy.exact import format_short

if TYPE_CHECKING:
    from sfumato.curator.payer import Standing
    from sfumato.curator.plan.priced import Plan


class ExpectedError(Protocol):
    """How far off an answer is likely to be."""

    def half_widths(self, confidence: float) -> dict[str, float | None]: ...

    def lines(self) -> list[tuple[str, str]]: ...

    def shared_by(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Quote:
    """Price and expected error of a question. Making one reads no data and spends nothing."""

    plan: Plan[Any, Any]
    standing: Standing
    expected: ExpectedError

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε it would cost; none where the noise is Gaussian."""
        return Fraction(0) if self.free else self.plan.event.pure()

    @property
    def admitted(self) -> bool:
        """Whether enough is left to pay for it."""
        return self.standing.left_after is not None

    @property
    def share(self) -> float:
        """Share of the budget that it would take."""
        return self.standing.share

    @property
    def left(self) -> Fraction:
        """Largest pure-ε question that is possible before it."""
        return self.standing.left

    @property
    def left_after(self) -> Fraction | None:
        """Largest pure-ε question that is possible after it; none when it would be refused."""
        return self.standing.left_after

    @property
    def free(self) -> bool:
        """Whether the same question was answered before, so that it costs nothing."""
        return self.standing.free

    @property
    def slot(self) -> float | None:
        """Seconds until the reply leaves; none where it leaves when it is ready."""
        return self.standing.slot

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions of the population that are charged; none where everyone is."""
        return self.standing.regions

    def error(self, confidence: float = 0.95) -> dict[str, float | None]:
        """Return half the width of the interval of each number of the answer, where it is known beforehand.

        For quantiles it is in rows: how far off in rank. For means, variances and correlations it is for a
        given n; for products and quotients it is known with the answer.
        """
        return self.expected.half_widths(confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {
            "table": self.plan.table.name,
            "unit": self.plan.table.population,
            "price": "nothing" if self.free else self.plan.charged,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "free": self.free,
            "share": self.share,
            "left": float(self.left),
            "left_after": None if self.left_after is None else float(self.left_after),
            "expected_error": self.error(),
            "bias": list(self.plan.bias),
            "slot": self.slot,
            **({"regions": list(self.regions)} if self.regions else {}),
        }

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def describe_after(self) -> str:
        """Return what is left after it, in words."""
        return (
            "refused: not enough is left"
            if self.left_after is None
            else f"ε = {format_short(self.left_after)}"
        )

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("price", self._price()),
            *((("charged to", "; ".join(self.regions)),) if self.regions else ()),
            ("left before", f"ε = {format_short(self.left)}"),
            ("left after", self.describe_after()),
            *(() if self.slot is None else (("replies", f"after {self.slot:g} s"),)),
            *self.expected.lines(),
            *(("not covered", text) for text in self.plan.bias),
        ]

    def _price(self) -> str:
        if self.free:
            return "nothing: it was answered before"
        uses = self.expected.shared_by()
        return f"{self.plan.charged} for {self.plan.table.population}" + (
            f", shared by {uses}" if uses else ""
        )
