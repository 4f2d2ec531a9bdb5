"""How a budget was spent: what was left after each charge, read off the ledger. No data is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.ledger.chain import read_body
from sfumato.privacy.account import NOTHING, Cost, caps, left

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.ledger import Ledger
    from sfumato.ledger.chain import Entry

MOST_POINTS = 40
"""Points of a curve: each is some milliseconds of arithmetic, and a chart shows no more."""


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """What was left of an account once so many charges were made."""

    charges: int
    entry: int
    """Number of the charge's entry; 0 before the first."""
    day: str
    """Day of the charge, in UTC; empty before the first."""
    left_epsilon: float
    """Largest pure-ε question that could still be asked then, under the limits that are in force now."""


def trace_budget(ledger: Ledger, account: str, most: int = MOST_POINTS) -> tuple[BudgetPoint, ...]:
    """Return what was left of an account after its charges: after each, or after `most` of them."""
    limits = caps(ledger.read_budget(account))
    totals = [(0, "", NOTHING), *_sum_charges(ledger.read_entries(), account)]
    step = max(1, -(-len(totals) // max(1, most - 1)))
    places = sorted({*range(0, len(totals), step), len(totals) - 1})
    return tuple(
        BudgetPoint(at, entry, day, float(left(limits, spent).epsilon))
        for at in places
        for entry, day, spent in [totals[at]]
    )


def _sum_charges(entries: Iterable[Entry], account: str) -> Iterator[tuple[int, str, Cost]]:
    """Yield the entry, the day and the total after each change of what an account has spent."""
    spent, runs = NOTHING, dict[int, tuple[Cost, str]]()
    for entry in entries:
        if entry.kind not in ("charge", "reserve", "return"):
            continue
        fields = read_body(entry.body)
        if entry.kind == "return":
            cost, day = runs.get(fields["charge"], (None, ""))
            if cost is None:
                continue
            spent = _subtract(spent, cost * fields["steps"])
        elif account in fields["accounts"]:
            cost, day = Cost.from_dict(fields["cost"]), _read_day(fields)
            spent += cost * fields.get("steps", 1)
            if entry.kind == "reserve":
                runs[entry.seq] = cost, day
        else:
            continue
        yield entry.seq, day, spent


def _subtract(spent: Cost, cost: Cost) -> Cost:
    # A total that includes a charge without a pure ε has none, and a refund cannot bring it back.
    pure = None if spent.pure is None or cost.pure is None else spent.pure - cost.pure
    renyi = tuple(had - less for had, less in zip(spent.renyi, cost.renyi, strict=True))
    return Cost(pure, renyi, spent.side - cost.side)


def _read_day(fields: dict[str, Any]) -> str:
    return str(fields.get("at", ""))
