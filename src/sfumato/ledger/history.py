"""How budgets were spent, charge by charge. A history that is kept reads each entry of the ledger once."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from sfumato.ledger.chain import read_body
from sfumato.privacy.account import NOTHING, Cost, left

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.ledger.chain import Entry
    from sfumato.privacy.account import Allowance

MOST_POINTS = 40
"""Points of a curve: each is some milliseconds of arithmetic, and a chart shows no more."""
_MOST_KEPT = 4 * MOST_POINTS
"""Totals of an account that are kept; when there are more, every second goes."""


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """What was left of an account once so many charges were made."""

    charges: int
    entry: int
    """Number of the entry that changed the total, mostly a charge's; 0 before the first."""
    day: str
    """Day of the charge, in UTC; empty before the first."""
    left_epsilon: float
    """Largest pure-ε question that could still be asked then, under the limits that are in force now."""


@dataclass(frozen=True, slots=True)
class _Total:
    charges: int
    entry: int
    day: str
    spent: Cost


_NOTHING_YET = _Total(0, 0, "", NOTHING)


@dataclass(slots=True)
class _AccountTrace:
    """What one account had spent after its charges: after each, or after every so many."""

    newest: _Total = _NOTHING_YET
    kept: list[_Total] = field(default_factory=list)
    stride: int = 1
    known: dict[int, float] = field(default_factory=dict)
    """What was left after an entry, under the limits that it was computed for."""
    allowed: Allowance | None = None

    def add(self, entry: int, day: str, spent: Cost) -> None:
        """Keep the total after one more charge."""
        self.newest = _Total(self.newest.charges + 1, entry, day, spent)
        if self.newest.charges % self.stride == 0:
            self.kept.append(self.newest)
        if len(self.kept) > _MOST_KEPT:
            self.kept, self.stride = self.kept[1::2], 2 * self.stride

    def list_points(self, allowed: Allowance, most: int) -> tuple[BudgetPoint, ...]:
        """Return what was left at the first, the last, and some charges between them."""
        totals = [_NOTHING_YET, *self.kept]
        if totals[-1].entry != self.newest.entry:
            totals.append(self.newest)
        step = max(1, -(-len(totals) // max(1, most - 1)))
        chosen = [totals[at] for at in sorted({*range(0, len(totals), step), len(totals) - 1})]
        if allowed != self.allowed:
            self.allowed, self.known = allowed, {}
        self.known = {
            each.entry: self.known[each.entry]
            if each.entry in self.known
            else float(left(allowed.caps, each.spent).epsilon)
            for each in chosen
        }
        return tuple(
            BudgetPoint(each.charges, each.entry, each.day, self.known[each.entry]) for each in chosen
        )


class BudgetHistory:
    """How the accounts of a ledger were spent. Each look reads the entries that are new since the last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turn = Lock()
        self._begin()

    def count_entries(self) -> int:
        """Return the number of the newest entry."""
        with self._turn:
            self._read_new()
            return 0 if self._last is None else self._last.seq

    def trace(self, account: str, most: int = MOST_POINTS) -> tuple[BudgetPoint, ...]:
        """Return what was left of an account after its charges: after each, or after `most` of them."""
        allowed = self._ledger.read_allowance(account)
        with self._turn:
            self._read_new()
            return self._traces.get(account, _AccountTrace()).list_points(allowed, most)

    def _begin(self) -> None:
        self._last: Entry | None = None
        self._traces: dict[str, _AccountTrace] = {}
        self._runs: dict[int, tuple[tuple[str, ...], Cost, str]] = {}

    def _read_new(self) -> None:
        # A ledger that was restored from a copy may be another one from here on.
        if self._last is not None and self._ledger.find_entry(self._last.hash) != self._last.seq:
            self._begin()
        for entry in self._ledger.read_entries(0 if self._last is None else self._last.seq):
            self._last = entry
            if entry.kind in ("charge", "reserve"):
                self._count_charge(entry, read_body(entry.body))
            elif entry.kind == "return":
                self._count_return(entry, read_body(entry.body))

    def _count_charge(self, entry: Entry, fields: dict[str, Any]) -> None:
        cost, day = Cost.from_dict(fields["cost"]), str(fields.get("at", ""))
        accounts = tuple(fields["accounts"])
        for account in accounts:
            trace = self._traces.setdefault(account, _AccountTrace())
            trace.add(entry.seq, day, trace.newest.spent + cost * fields.get("steps", 1))
        if entry.kind == "reserve":
            self._runs[entry.seq] = accounts, cost, day

    def _count_return(self, entry: Entry, fields: dict[str, Any]) -> None:
        accounts, cost, day = self._runs.pop(fields["charge"], ((), NOTHING, ""))
        for account in accounts:
            trace = self._traces[account]
            trace.add(entry.seq, day, trace.newest.spent.take_back(cost * fields["steps"]))


def trace_budget(ledger: Ledger, account: str, most: int = MOST_POINTS) -> tuple[BudgetPoint, ...]:
    """Return what was left of an account after its charges: after each, or after `most` of them."""
    return BudgetHistory(ledger).trace(account, most)
