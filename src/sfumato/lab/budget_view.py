"""What is left of a budget, as people see it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.catalog.catalog import name_newcomers
from sfumato.curator.payer import list_accounts, population_account
from sfumato.errors.numbers import format_bound, format_number, format_remaining, pad_decimals
from sfumato.lab.surveys.charging import is_of_survey
from sfumato.ledger.api import parse_account
from sfumato.privacy.account import NOTHING, SIDE, Cost, find_dearest, find_epsilon, left
from sfumato.privacy.tools.odometer import Odometer, read_odometer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import LabAccess
    from sfumato.ledger import Ledger
    from sfumato.viz import Chart

_BAR = 22
"""Characters of the bar that shows the remaining budget."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """One account as people see it."""

    name: str
    epsilon: float
    delta: float
    left_share: float
    left_epsilon: float
    spent: Odometer
    """What the account's filters prove of all that was spent so far."""
    side_delta: float = 0.0
    """The part of δ for discovered keys and for runs that are priced as (ε, δ)."""
    left_side_delta: float = 0.0

    def title(self) -> str:
        """Return whose budget or quota this is."""
        population, analyst = parse_account(self.name)
        delta = f" (δ = {format_number(self.delta, 3)})" if self.delta else ""
        if analyst is None:
            return f"Privacy budget of {population}{delta}"
        return f"Quota of {analyst!r} on {population}{delta}"

    def lines(self) -> list[str]:
        """Return a bar of the remaining budget, and what was spent."""
        side = (
            f"side δ: {format_bound(self.left_side_delta, 3, up=False)} "
            f"of {format_number(self.side_delta, 3)} remaining"
        )
        used = self.left_side_delta < self.side_delta or 2 * self.side_delta != self.delta
        return [
            f"ε  {self._bar()}  {self._remaining()}",
            *([side] if used else []),
            self.spent.brief(),
        ]

    def sentence(self) -> str:
        """Return the remaining ε in one line."""
        return f"{self.title()}: ε = {self._remaining()}"

    def _remaining(self) -> str:
        whole = pad_decimals(format_number(self.epsilon), 2)
        return f"{format_remaining(self.left_epsilon, 2)} of {whole} remaining"

    def _bar(self) -> str:
        share = self.left_epsilon / self.epsilon if self.epsilon else 0.0
        filled = min(_BAR, max(0, int(share * _BAR)))
        return "█" * filled + "░" * (_BAR - filled)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "left_share": self.left_share,
            "left_epsilon": self.left_epsilon,
            "side_delta": self.side_delta,
            "left_side_delta": self.left_side_delta,
            "spent": self.spent.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class SpentView:
    """The odometers of several accounts: what is proven of all that was spent so far."""

    readings: Mapping[str, Odometer]

    def __getitem__(self, account: str) -> Odometer:
        return self.readings[account]

    def __str__(self) -> str:
        return "\n".join(f"{name}  {reading}" for name, reading in self.readings.items()) or "nothing yet"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the reading of each account, ready for JSON."""
        return {name: reading.to_dict() for name, reading in self.readings.items()}


@dataclass(frozen=True, slots=True)
class LifetimeView:
    """What one unit was charged so far at most, where blocks of time have budgets of their own."""

    population: str
    epsilon: float
    delta: float
    streams: int
    """Number of streams that are paid for block by block."""

    def sentence(self) -> str:
        """Return the total in words."""
        of = f"{self.streams} stream{'s' * (self.streams != 1)}"
        most = f"ε = {format_bound(self.epsilon, up=True)} (δ = {format_bound(self.delta, 3, up=True)})"
        return (
            f"lifetime of one {self.population}  charged at most {most} so far: "
            f"all that everyone pays for, and one block of {of}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {"lifetime_epsilon": self.epsilon, "delta": self.delta, "streams": self.streams}


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What is left, in words, as a bar and as numbers."""

    accounts: tuple[AccountView, ...]
    lifetimes: tuple[LifetimeView, ...] = ()
    """Totals over all blocks of time, where there are blocks: no new block makes them smaller."""

    def __str__(self) -> str:
        lines = ["\n  ".join((each.title(), *each.lines())) for each in self.accounts]
        lines += [each.sentence() for each in self.lifetimes]
        return "\n".join(lines) or "no tables are registered yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lifetimes = [(f"lifetime of a {each.population}", each.sentence()) for each in self.lifetimes]
        accounts = ((each.title(), "; ".join(each.lines())) for each in self.accounts)
        return viz.definition_table([*accounts, *lifetimes])

    @property
    def spent(self) -> SpentView:
        """What the filters of each account prove of all that was spent so far: its odometer."""
        return SpentView({each.name: each.spent for each in self.accounts})

    def plot(self) -> Chart:
        """Return a chart of what was spent of each account."""
        return viz.budget_bars({account.name: 1 - account.left_share for account in self.accounts})

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of each account, ready for JSON."""
        lifetimes = {f"lifetime:{each.population}": each.to_dict() for each in self.lifetimes}
        return {account.name: account.to_dict() for account in self.accounts} | lifetimes


def view_budget(lab: LabAccess, holder: str | None) -> BudgetView:
    """Return what is left of every population, and of the quotas on them if their holder is named."""
    # A quota is granted on the populations there were, so a newer population may have none.
    known = lab.ledger.list_accounts()
    names, lifetimes = [], []
    for population in list_populations(lab.tables()):
        blocks = list_blocks(lab.ledger, [population])
        names += [name for each in (population, *blocks) for name in list_accounts(each, holder)]
        lifetimes += [find_lifetime(lab.ledger, population, blocks)] if blocks else []
    # Surveys are the steward's: nobody else is charged for them.
    names += [] if holder is not None else [each for each in known if is_of_survey(parse_account(each)[0])]
    shown = tuple(view_account(lab.ledger, name) for name in dict.fromkeys(names) if name in known)
    return BudgetView(shown, tuple(lifetimes))


def list_blocks(ledger: Ledger, populations: Iterable[str]) -> list[str]:
    """Return the populations of blocks that have begun, of those who come to these populations in them."""
    begins = tuple(population_account(name_newcomers(each, "")) for each in populations)
    return [parse_account(name)[0] for name in ledger.list_accounts() if name.startswith(begins)]


def find_lifetime(ledger: Ledger, population: str, blocks: list[str]) -> LifetimeView:
    """Return what one unit was charged at most: what all pay for, and the dearest block of each stream."""
    accounts = {population_account(each) for each in blocks}
    dearest: dict[str, Cost] = {}
    for entry in ledger.read_entries():
        body = json.loads(entry.body) if entry.kind == "charge" else {}
        if body and not accounts.isdisjoint(body["accounts"]) and "series" in body["about"]:
            series, cost = body["about"]["series"], Cost.from_dict(body["cost"])
            dearest[series] = find_dearest([dearest.get(series, NOTHING), cost])
    everyone, newcomers = population_account(population), ledger.read_budget(min(accounts))
    total = sum(dearest.values(), ledger.read_spent(population_account(population)))
    delta = ledger.read_budget(everyone).delta + newcomers.delta
    return LifetimeView(population, float(find_epsilon(total, delta)), float(delta), len(dearest))


def list_populations(tables: Iterable[Table]) -> tuple[str, ...]:
    """Return the populations that tables are about, each once."""
    return tuple(dict.fromkeys(table.population for table in tables if not table.is_public))


def view_account(ledger: Ledger, account: str) -> AccountView:
    """Return an account as people see it."""
    allowed, spent = ledger.read_allowance(account), ledger.read_spent(account)
    budget, limits = allowed.budget, allowed.caps
    rest, reading = left(limits, spent), read_odometer(budget, limits, spent)
    sizes = float(budget.epsilon), float(budget.delta)
    left_side = max(Fraction(0), budget.side_delta - Fraction(spent.side, SIDE))
    side = float(budget.side_delta), float(left_side)
    return AccountView(account, *sizes, rest.share, float(rest.epsilon), reading, *side)
