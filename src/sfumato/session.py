"""What an analyst holds: questions, their quotes and releases, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sfumato import viz
from sfumato.curator.gate import answer
from sfumato.curator.measurement import Bounds
from sfumato.curator.plan import Plan, Resolved, priced
from sfumato.curator.quote import Quote, cheapest, checked_given
from sfumato.curator.release import Release
from sfumato.curator.spend import Pure, spend
from sfumato.ledger import Charge
from sfumato.privacy.account import Caps, Cost, Left, caps, left
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from sfumato.curator.catalog import Table
    from sfumato.curator.measurement import Question
    from sfumato.curator.spend import Spend
    from sfumato.lab import Lab
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number
    from sfumato.queries.frames import Frame
    from sfumato.viz import Chart


class Spending(TypedDict, total=False):
    """The ways to say how much a question may cost."""

    epsilon: Number
    delta: Number
    rho: Number
    share: Number
    error: dict[str, Number]


class Session:
    """An analyst's way into a lab. `lab.session("ada")` spends ada's quota and the budget, both."""

    def __init__(self, lab: Lab, analyst: str | None) -> None:
        self._lab = lab
        self._analyst = analyst

    def sql(self, text: str) -> Query:
        """A question in SQL. Nothing is read or spent until it is released."""
        from sfumato.queries.sql import question

        return Query(self._lab, self._analyst, question(text), text)

    def table(self, name: str) -> Frame[Query]:
        """A table to ask about step by step: where, group_by, then agg or count."""
        from sfumato.queries.frames import Frame, named

        known = self._lab.table(named(name))
        return Frame(known.name, lambda question, text: Query(self._lab, self._analyst, question, text))

    @property
    def budget(self) -> BudgetView:
        """What is left, for every population this session may spend on."""
        return self._lab.budget_of(self._analyst)

    def __repr__(self) -> str:
        return f"Session({self._analyst or 'steward'!r})"


class Query:
    """One question. `quote` says what it would cost, `release` pays and answers."""

    def __init__(self, lab: Lab, analyst: str | None, question: Question, text: str) -> None:
        self._lab = lab
        self._analyst = analyst
        self._question = question
        self._text = text
        priced(self._resolved(), Pure(Fraction(1), Fraction(1, 10**6)))  # what no price changes is refused now

    def bounded(self, *, groups: int = 1, rows: int = 1) -> Query:
        """The same question, in which one unit counts in at most so many groups, with so many rows in each."""
        bounds = Bounds(whole(groups, "groups"), whole(rows, "rows"))
        question = replace(self._question, bounds=bounds)
        return Query(self._lab, self._analyst, question, f"{self._text} -- {bounds}")

    def quote(self, *, given: dict[str, Any] | None = None, **spend: Unpack[Spending]) -> Quote:
        """Price and expected error, from public facts only.

        Say what to spend in one way: epsilon, epsilon and delta, rho, share of the budget, or the error
        wished for, such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages.
        """
        guesses = checked_given(given)
        plan = self._plan(spend, guesses)
        free = self._lab.ledger.find(plan.request) is not None
        states = self._states(plan)
        after = [(cap, spent if free else spent + plan.cost) for cap, spent in states]
        admitted = all(cap.holds(total) for cap, total in after)
        before_left, after_left = _least(states), _least(after)
        share = before_left.share - after_left.share
        return Quote(
            plan, share, before_left.epsilon, after_left.epsilon if admitted else None, free, guesses
        )

    def release(
        self, *, key: str | None = None, given: dict[str, Any] | None = None, **spend: Unpack[Spending]
    ) -> Release:
        """Charge, then answer. The same question released before comes back for free.

        Say what to spend as in `quote`. With a `key`, a retry gives the same answer for one charge, and never
        another question's.
        """
        plan = self._plan(spend, checked_given(given))
        return Release(plan, self._answer(plan, key))

    def __repr__(self) -> str:
        return f"Query({self._text!r}); .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"

    def _answer(self, plan: Plan, key: str | None) -> Released:
        lab = self._lab
        charge = Charge(
            accounts=self._accounts(plan.table),
            cost=plan.cost,
            request=plan.request,
            about=self._about(plan),
            key=key,
        )
        return answer(plan, charge, lab.ledger, lab.engine, lab.incidents)

    def _resolved(self) -> Resolved:
        """Looked up afresh: the steward may have made a new snapshot since."""
        return Resolved(self._lab.table, self._question)

    def _plan(self, typed: Spending, given: dict[str, int]) -> Plan:
        resolved = self._resolved()
        return priced(resolved, self._spend(resolved, typed, given))

    def _spend(self, resolved: Resolved, typed: Spending, given: dict[str, int]) -> Spend:
        """What was typed, as a spend; shares are of the smallest account that pays."""
        amounts = {name: value for name, value in typed.items() if value is not None}
        if list(amounts) == ["error"]:
            return cheapest(resolved, typed["error"], given)
        budgets = [self._lab.ledger.budget(account) for account in self._accounts(resolved.table)]
        smallest = min(budgets, key=lambda each: each.epsilon)
        return spend(budget=smallest, needs=resolved.needs, amounts=amounts)

    def _states(self, plan: Plan) -> list[tuple[Caps, Cost]]:
        ledger, accounts = self._lab.ledger, self._accounts(plan.table)
        return [(caps(ledger.budget(account)), ledger.spent(account)) for account in accounts]

    def _accounts(self, table: Table) -> tuple[str, ...]:
        return self._lab.accounts(table.population, self._analyst)

    def _about(self, plan: Plan) -> dict[str, Any]:
        return {
            "analyst": self._analyst or "",
            "question": self._text,
            "table": plan.table.name,
            "snapshot": plan.table.snapshot,
            "spend": str(plan.spend),
            "event": plan.event.to_dict(),
        }


def _least(states: list[tuple[Caps, Cost]]) -> Left:
    """What the tightest account still allows."""
    return min((left(cap, spent) for cap, spent in states), key=lambda rest: rest.epsilon)


@dataclass(frozen=True, slots=True)
class AccountView:
    """One account as people see it."""

    name: str
    epsilon: float
    delta: float
    left_share: float
    left_epsilon: float

    def sentence(self) -> str:
        filled = round(self.left_share * 20)
        bar = "█" * filled + "░" * (20 - filled)
        of = f"{self.epsilon:.4g}" + (f", δ = {self.delta:.3g}" if self.delta else "")
        rest = f"{self.left_share:.0%} left: one question of up to ε = {self.left_epsilon:.4g} of {of}"
        return f"{self.name}  {bar}  {rest}"


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What is left, in words, as a bar and as numbers."""

    accounts: tuple[AccountView, ...]

    def __str__(self) -> str:
        return "\n".join(account.sentence() for account in self.accounts) or "no tables are registered yet"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table([(a.name, a.sentence()) for a in self.accounts])

    def plot(self) -> Chart:
        return viz.budget_bars({account.name: 1 - account.left_share for account in self.accounts})

    def to_dict(self) -> dict[str, Any]:
        return {
            account.name: {
                "epsilon": account.epsilon,
                "delta": account.delta,
                "left_share": account.left_share,
                "left_epsilon": account.left_epsilon,
            }
            for account in self.accounts
        }
