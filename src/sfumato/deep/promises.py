"""The guarantee of a trained module: what it cost by both ways of accounting, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.deep.prices import find_charged_epsilon, find_group_epsilon, find_run_epsilon
from sfumato.errors.numbers import format_number
from sfumato.oracle.guarantee import Guarantee
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from sfumato.privacy.events import Event


_GROUPS = (2, 4)
"""Sizes of groups that are shown."""


@dataclass(frozen=True, slots=True, repr=False)
class TrainingGuarantee(Guarantee):
    """Who is protected by a training run, and how much it can reveal. Figures are computed when shown."""

    event: Event | None = None
    """The whole run, as it is priced."""
    as_one: bool = False
    """Whether an account was charged ε and δ for the run as a whole, and not the curve of its event."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, and the figures of both ways of accounting."""
        found = {name: getattr(self, name) for name in Guarantee.__dataclass_fields__}
        groups = {k: self.for_group(k) for k in _GROUPS} if self.neighbours == "add-remove" else {}
        return found | {"alone": self.alone, "in_an_account": self.in_an_account, "groups": groups}

    @property
    def alone(self) -> float:
        """The ε of the run by itself, by the tightest proven way for runs that are fixed in advance."""
        return find_run_epsilon(self._event, parse_exact(self.delta, "delta"))

    @property
    def in_an_account(self) -> float:
        """The ε that a ledger charges: that of one run, or of the smallest account whose filters hold it."""
        if self.as_one:
            return self.epsilon
        return find_charged_epsilon(self._event, parse_exact(self.delta, "delta"))

    def for_group(self, k: int) -> float:
        """Return the ε, at the same δ, for k units that are added or removed together.

        It is by the tightest proven way, for runs that are fixed in advance, and infinite where nothing is
        promised. For units that are replaced no figure is proven.
        """
        return find_group_epsilon(self._event, k, parse_exact(self.delta, "delta"))

    @property
    def _event(self) -> Event:
        if self.event is None:
            raise AssertionError("a guarantee of a run has its event")
        return self.event

    def _lines(self) -> list[tuple[str, str]]:
        lines = Guarantee._lines(self)
        way = "charged as one run" if self.as_one else "by the filters of a ledger"
        figures = f"ε = {format_number(self.alone)} by itself; ε = {format_number(self.in_an_account)} {way}"
        more = [("accounting", f"{figures}, at the same δ")]
        if self.neighbours == "add-remove":
            sizes = (f"ε = {format_number(self.for_group(k))} for {k} units together" for k in _GROUPS)
            more.append(("groups", f"{'; '.join(sizes)}, at the same δ"))
        return [*lines[:2], *more, *lines[2:]]
