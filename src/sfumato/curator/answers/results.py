"""Answers that are one number or a few choices, each with its receipt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.priced import NO_CHARGE
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_cell, format_decimal, format_share
from sfumato.privacy.risk import event_success

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from sfumato.curator.catalog.columns import DateColumn, NumberColumn
    from sfumato.curator.plan.priced import Plan
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class Receipt:
    """The ledger's word that an answer was charged: keep it to notice a ledger that was set back."""

    entry: int
    head: str
    table: str
    unit: str
    charged: str
    """What the answer cost when it was released first."""
    replayed: bool
    """Whether it was released before, so that this call was free of charge."""
    guess: float | None = None
    """Largest chance that a guess about one unit is right by this answer alone, from 50:50; None where the
    price does not tell."""
    signed: dict[str, Any] | None = None
    """What others can verify, where the ledger has a key and the `receipts` extra is installed."""

    @classmethod
    def of(cls, plan: Plan[Any, Any], released: Released) -> Receipt:
        """Return the receipt of what the ledger released for a plan."""
        table = plan.table
        signed = None if released.signed is None else released.signed.to_dict()
        whose = (table.name, table.population)
        guess = event_success(plan.event)
        return cls(released.seq, released.head, *whose, plan.charged, released.replayed, guess, signed)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {
            "entry": self.entry,
            "head": self.head,
            "table": self.table,
            "unit": self.unit,
            "charged": self.charged,
            "replayed": self.replayed,
            # As a text, like every number of a receipt that is not whole, and rounded up.
            **(
                {}
                if self.guess is None
                else {"guess": format_decimal(math.ceil(self.guess * 10_000) / 10_000, 4)}
            ),
            **({} if self.signed is None else {"signed": self.signed}),
        }

    def risk(self) -> str:
        """Return how often someone can be right who guesses by this answer whether a unit is in the data."""
        if self.guess is None:
            return "how often a guess by this answer alone can be right does not follow from its price"
        return (
            f"by this answer alone, a 50:50 guess about one {self.unit} "
            f"is right at most {format_share(self.guess)}"
        )

    def sentence(self) -> str:
        """Return what was charged, and where it is written."""
        if self.replayed:
            return f"Free: the same answer as in ledger entry {self.entry}, which was charged {self.charged}"
        if self.charged == NO_CHARGE:
            return f"Free: the answer follows from what is declared (ledger entry {self.entry})"
        return f"Charged {self.charged} to {self.unit} (ledger entry {self.entry})"

    __str__ = __repr__ = sentence


@dataclass(frozen=True, slots=True)
class NoisyFigure:
    """A noisy number, and where the exact one lies at 95 %, noise only; no ends where that is not known."""

    value: Any
    low: Any
    high: Any
    receipt: Receipt

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        span = "" if self.low is None else f"  ({format_cell(self.low)} to {format_cell(self.high)} at 95 %)"
        return f"{format_cell(self.value)}{span}\n{self.receipt.sentence()}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "receipt": self.receipt.to_dict()}


@dataclass(frozen=True, slots=True)
class ChosenRange:
    """Bounds that were chosen by noisy ranks."""

    low: Any
    high: Any
    receipt: Receipt

    def promise(self, step: Number | None = None) -> NumberColumn | DateColumn:
        """Return what the steward may declare, as in lab.advance(…, columns={"cost": chosen.promise()})."""
        from sfumato.curator.catalog.columns import between

        promise: NumberColumn | DateColumn = between(self.low, self.high, step)
        return promise

    def __str__(self) -> str:
        return f"{format_cell(self.low)} to {format_cell(self.high)}\n{self.receipt.sentence()}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"low": self.low, "high": self.high, "receipt": self.receipt.to_dict()}


@dataclass(frozen=True, slots=True)
class ChosenValues:
    """Values in the order they were chosen."""

    values: tuple[Any, ...]
    receipt: Receipt

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.values))}\n{self.receipt.sentence()}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"values": list(self.values), "receipt": self.receipt.to_dict()}


def point_to_caveats(caveats: tuple[str, ...]) -> list[str]:
    """Return the estimated bias and the line that says where the caveats are, if there are any."""
    line = "Intervals cover the noise. Truncation and clipping can add bias: see r.caveats"
    estimates = [text for text in caveats if text.startswith("Estimated bias")]
    return [*estimates, line] if caveats else []


def only_item(table: pa.Table) -> Any:
    """Return the only number of an answer, or refuse one with more or fewer."""
    if table.num_rows == 1 and table.num_columns == 1:
        return table.column(0)[0].as_py()
    raise UsageError(
        "SF-N112",
        "item() is for an answer with one row and one column.",
        got=f"{table.num_rows:,} rows, {table.num_columns} columns",
        try_="r.to_arrow()",
    )
