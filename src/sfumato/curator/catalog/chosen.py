"""Bounds that were chosen privately: what was bought, and in which words people are told."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.privacy.graph_units import Protected


@dataclass(frozen=True, slots=True)
class ChosenBound:
    """One bound that was bought. All of it follows from a released answer, so it is as public as that is."""

    column: str | None
    """The column whose bounds were chosen; None for the rows of a unit."""
    bound: tuple[Fraction, ...]
    """The lower and the upper bound of a column, or the number of rows."""
    epsilon: Fraction
    entry: int
    """The entry of the ledger that charged for it."""
    beyond: str
    """How many units lie beyond, by noisy counts, in words."""

    def describe(self, unit: str | None) -> str:
        """Return the choice in a sentence."""
        shown = [format_number(each, 12) for each in self.bound]
        whom = "rows" if unit is None else f"{unit}s"
        if self.column is None:
            what, lies = f"max_rows = {shown[0]}", f"with more rows: {self.beyond}"
        else:
            what, lies = f"The bounds {shown[0]} and {shown[1]} of '{self.column}'", f"outside: {self.beyond}"
        verb = "was" if self.column is None else "were"
        price = f"ε = {format_number(self.epsilon)}, entry {self.entry}"
        return f"{what} {verb} chosen privately ({price}); {whom} {lies}."

    def holds_in(self, protects: Protected, columns: Mapping[str, DeclaredColumn]) -> bool:
        """Return whether a declaration still has this bound."""
        if self.column is None:
            return getattr(protects, "max_rows", None) == self.bound[0]
        now = columns.get(self.column)
        return (getattr(now, "low", None), getattr(now, "high", None)) == self.bound

    def to_dict(self) -> dict[str, Any]:
        """Return the form that is kept in the catalog."""
        return {
            "column": self.column,
            "bound": list(map(str, self.bound)),
            "epsilon": str(self.epsilon),
            "entry": self.entry,
            "beyond": self.beyond,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ChosenBound:
        """Return the choice that `to_dict` wrote."""
        bound = tuple(map(Fraction, fields["bound"]))
        return cls(fields["column"], bound, Fraction(fields["epsilon"]), fields["entry"], fields["beyond"])


def keep_valid(
    chosen: Iterable[ChosenBound], protects: Protected, columns: Mapping[str, DeclaredColumn]
) -> tuple[ChosenBound, ...]:
    """Return those choices whose bounds a declaration still has."""
    return tuple(each for each in chosen if each.holds_in(protects, columns))
