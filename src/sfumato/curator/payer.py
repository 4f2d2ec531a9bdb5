"""Where questions are priced and paid: the accounts of one analyst, and the way through the gate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from sfumato import viz
from sfumato.curator.gate import answer
from sfumato.curator.plan.priced import charged
from sfumato.curator.plan.spend import Needs, Spend, spend
from sfumato.engines.rows import list_scans
from sfumato.errors import PolicyError
from sfumato.ledger import Charge
from sfumato.privacy.account import Caps, Cost, Left, caps, left
from sfumato.privacy.exact import format_short

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.priced import Payable
    from sfumato.lab.lab import Lab
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number

Answer = TypeVar("Answer")


class Spending(TypedDict, total=False):
    """The ways to say how much a question may cost."""

    epsilon: Number
    delta: Number
    rho: Number
    share: Number
    error: dict[str, Number]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a price does to the accounts that pay it."""

    share: float
    """Of the budget, that it takes."""
    left: Fraction
    """The largest pure-ε question still possible before it."""
    left_after: Fraction | None
    """The same after it; none when it would be refused."""
    free: bool
    """Whether the same was answered before, so that it costs nothing."""


@dataclass(frozen=True, slots=True)
class Payer:
    """A lab's ledger and engine, for one analyst; without a name, for the steward."""

    lab: Lab
    analyst: str | None

    def accounts(self, table: Table) -> tuple[str, ...]:
        return self.lab.accounts(table.population, self.analyst)

    def spend(self, table: Table, needs: Needs, typed: Spending) -> Spend:
        """What was typed, as a spend; shares are of the smallest account that pays."""
        amounts = {name: value for name, value in typed.items() if value is not None}
        budgets = [self.lab.ledger.read_budget(account) for account in self.accounts(table)]
        return spend(budget=min(budgets, key=lambda each: each.epsilon), needs=needs, amounts=amounts)

    def standing(self, plan: Payable) -> Standing:
        free = self.lab.ledger.find_release(plan.request) is not None
        states = self._states(plan.table)
        after = [(cap, spent if free else spent + plan.cost) for cap, spent in states]
        admitted = all(cap.holds(total) for cap, total in after)
        before_left, after_left = _least(states), _least(after)
        share = before_left.share - after_left.share
        return Standing(share, before_left.epsilon, after_left.epsilon if admitted else None, free)

    def pay(self, plan: Payable, text: str, key: str | None = None) -> Released:
        """Charge, then answer; what was answered before is given again for nothing."""
        charge = Charge(
            accounts=self.accounts(plan.table),
            cost=plan.cost,
            request=plan.request,
            about=self._about(plan, text),
            key=key,
        )
        with self.lab.reading():
            self._require_current(plan)
            return answer(plan, charge, self.lab.ledger, self.lab.engine, self.lab.incidents)

    def _require_current(self, plan: Payable) -> None:
        """A price is for one snapshot; if that is gone, the charge would buy nothing."""
        asked = {scan.snapshot for step in plan.steps for scan in list_scans(step.program.rows)}
        if not asked <= {table.snapshot_name for table in self.lab.tables()}:
            raise PolicyError(
                "SF-C135",
                "The table moved on while this was being asked; nothing was charged.",
                try_="ask again",
            )

    def _states(self, table: Table) -> list[tuple[Caps, Cost]]:
        ledger = self.lab.ledger
        return [(caps(ledger.read_budget(name)), ledger.read_spent(name)) for name in self.accounts(table)]

    def _about(self, plan: Payable, text: str) -> dict[str, Any]:
        return {
            "analyst": self.analyst or "",
            "question": text,
            "table": plan.table.name,
            "snapshot": plan.table.snapshot,
            "spend": charged(plan),
            "event": plan.event.to_dict(),
        }


def _least(states: list[tuple[Caps, Cost]]) -> Left:
    """What the tightest account still allows."""
    return min((left(cap, spent) for cap, spent in states), key=lambda rest: rest.epsilon)


# ---- what is asked besides SELECT --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Price:
    """What something would cost, and what would be left."""

    plan: Payable
    standing: Standing
    error: str

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε it would cost; none where there is none."""
        return Fraction(0) if self.standing.free else self.plan.event.pure()

    @property
    def admitted(self) -> bool:
        return self.standing.left_after is not None

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        rest = self.standing.left_after
        cost = (
            f"{charged(self.plan)} for {self.plan.table.population} ({self.standing.share:.1%} of the budget)"
        )
        return [
            ("price", "nothing: it was answered before" if self.standing.free else cost),
            ("left before", f"ε = {format_short(self.standing.left)}"),
            ("left after", "refused: not enough is left" if rest is None else f"ε = {format_short(rest)}"),
            ("expected error", self.error),
            *(("not in it", text) for text in self.plan.bias),
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Measure(Generic[Answer]):
    """Something to be measured. `quote` says what it would cost, `release` pays and answers."""

    payer: Payer
    text: str
    plan: Callable[[Callable[[Table, Needs], Spend]], Any]
    """The priced steps, given how to make a spend for a table and its needs."""
    read: Callable[[Any, Released], Answer]
    error: Callable[[Any], str]

    def quote(self, **spending: Unpack[Spending]) -> Price:
        """Price and expected error, from public facts only."""
        plan = self._plan(spending)
        return Price(plan, self.payer.standing(plan), self.error(plan))

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> Answer:
        """Charge, then answer. The same released before comes back for free."""
        plan = self._plan(spending)
        return self.read(plan, self.payer.pay(plan, self.text, key))

    def __repr__(self) -> str:
        return f"{self.text}; .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"

    def _plan(self, spending: Spending) -> Payable:
        plan: Payable = self.plan(lambda table, needs: self.payer.spend(table, needs, spending))
        return plan
