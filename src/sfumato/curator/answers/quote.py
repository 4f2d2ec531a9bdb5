"""What people get before paying: the price, the expected error, and what would be left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from sfumato import viz
from sfumato.errors.numbers import format_number, format_remaining
from sfumato.privacy.account import NOTHING
from sfumato.privacy.risk import describe_weak_query

if TYPE_CHECKING:
    from sfumato.curator.payer import Standing
    from sfumato.curator.plan.priced import Plan

_POINTER = "Errors cover the noise. Truncation and clipping can add bias: see quote.caveats"


class ExpectedError(Protocol):
    """How far off an answer is likely to be."""

    def half_widths(self, confidence: float) -> dict[str, float | None]: ...

    def error_rows(self) -> list[tuple[str, str, str]]: ...

    def facts(self) -> list[tuple[str, str]]: ...

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
        """Whether it costs nothing: it was answered before, or the answer follows from what is declared."""
        return self.standing.free or self.plan.cost == NOTHING

    @property
    def free_because(self) -> str:
        """Why it costs nothing, in words; empty if it does not."""
        if self.plan.is_empty:
            return "by the declared bounds no row satisfies its conditions"
        if self.plan.cost == NOTHING:
            return "the number of rows is public"
        return "it was answered before" if self.free else ""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the expected errors do not cover, such as truncation and clipping."""
        return self.plan.bias

    @property
    def warning(self) -> str:
        """What is wrong with a price that promises almost no privacy; empty for others."""
        return "" if self.free else describe_weak_query(self.plan.event)

    @property
    def slot(self) -> float | None:
        """Seconds until the reply leaves; none where it leaves when it is ready."""
        return self.standing.slot

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
            **({"free_because": self.free_because} if self.free else {}),
            "share": self.share,
            "left": float(self.left),
            "left_after": None if self.left_after is None else float(self.left_after),
            "expected_error": self.error(),
            "errors": [list(row) for row in self.expected.error_rows()],
            "notes": [f"{name}: {text}" for name, text in self.expected.facts()],
            "bias": list(self.plan.bias),
            "slot": self.slot,
            **({"warning": self.warning} if self.warning else {}),
        }

    def __str__(self) -> str:
        facts = self._facts()
        width = max((len(name) for name, _ in facts), default=0)
        lines = [self._headline(), *(f"  {name:<{width}}  {text}" for name, text in facts)]
        rows = [("column", "error (95 %)", ""), *self.expected.error_rows()]
        if len(rows) > 1:
            widths = [max(len(row[at]) for row in rows) for at in range(3)]
            aligned = ("  ".join(map(str.ljust, row, widths)) for row in rows)
            lines += ["", *(f"  {line.rstrip()}" for line in aligned)]
        notes = [*([_POINTER] if self.caveats else []), *([self.warning] if self.warning else [])]
        return "\n".join([*lines, *([""] if notes else []), *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        after = () if self.free else (("remaining after", self.describe_after()),)
        price = "free" if self.free else f"{self.plan.charged}, charged to {self.plan.table.population}"
        lines = [
            ("price", price),
            ("remaining before", f"ε = {format_remaining(self.left)}"),
            *after,
            *self._facts(),
            *(
                (f"error of {name} (95 %)", f"{error} {note}")
                for name, error, note in self.expected.error_rows()
            ),
        ]
        notes = [("note", _POINTER)] if self.caveats else []
        notes += [("warning", self.warning)] if self.warning else []
        return viz.definition_table([*lines, *notes])

    def describe_after(self) -> str:
        """Return what is left after it, in words."""
        return (
            "not enough, it would be refused"
            if self.left_after is None
            else f"ε = {format_remaining(self.left_after)}"
        )

    def _headline(self) -> str:
        left = format_remaining(self.left)
        if self.free:
            return f"Quote: free, because {self.free_because} (remaining: {left})"
        after = "" if self.left_after is None else f" before, {format_remaining(self.left_after)} after"
        refused = f"; {self.describe_after()}" if self.left_after is None else ""
        payer = self.plan.table.population
        return f"Quote: {self.plan.charged}, charged to {payer} (remaining: {left}{after}{refused})"

    def _facts(self) -> list[tuple[str, str]]:
        uses = "" if self.free else self.expected.shared_by()
        return [
            *((("shared by", uses),) if uses else ()),
            *(() if self.slot is None else (("replies", f"after {format_number(self.slot, 6)} s"),)),
            *self.expected.facts(),
        ]
