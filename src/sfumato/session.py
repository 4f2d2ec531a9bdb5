"""What an analyst holds: questions, their quotes and releases, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sfumato import viz
from sfumato.curator.gate import answer
from sfumato.curator.plan import Plan, needed, plan
from sfumato.curator.quote import Quote, cheapest, checked_given
from sfumato.curator.release import Release
from sfumato.curator.spend import Pure, spend
from sfumato.ledger import Charge
from sfumato.privacy.account import Caps, Cost, Left, caps, left

if TYPE_CHECKING:
    from sfumato.curator.measurement import Question
    from sfumato.curator.spend import Spend
    from sfumato.lab import Lab
    from sfumato.privacy.exact import Number
    from sfumato.published import Published
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

    def published(self) -> tuple[Published, ...]:
        """What the steward published: every answer can be read again for nothing."""
        return self._lab.published()

    def __repr__(self) -> str:
        return f"Session({self._analyst or 'steward'!r})"


class Query:
    """One question. `quote` says what it would cost, `release` pays and answers."""

    def __init__(self, lab: Lab, analyst: str | None, question: Question, text: str) -> None:
        self._lab = lab
        self._analyst = analyst
        self._question = question
        self._text = text
        self._table = lab.table(question.relation.table)
        plan(self._table, question, Pure(Fraction(1)))  # refusals that do not depend on the price come now

    def quote(self, *, given: dict[str, Any] | None = None, **spend: Unpack[Spending]) -> Quote:
        """Price and expected error, from public facts only.

        Say what to spend in one way: epsilon, epsilon and delta, rho, share of the budget, or the error
        wished for, such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages.
        """
        guesses = checked_given(given)
        priced = self._plan(spend, guesses)
        free = self._lab.ledger.find(priced.request) is not None
        states = self._states()
        after = [(cap, spent if free else spent + priced.cost) for cap, spent in states]
        admitted = all(cap.holds(total) for cap, total in after)
        before_left, after_left = _least(states), _least(after)
        share = before_left.share - after_left.share
        return Quote(
            priced, share, before_left.epsilon, after_left.epsilon if admitted else None, free, guesses
        )

    def release(
        self, *, key: str | None = None, given: dict[str, Any] | None = None, **spend: Unpack[Spending]
    ) -> Release:
        """Charge, then answer. The same question released before comes back for free.

        Say what to spend as in `quote`. With a `key`, a retry gives the same answer for one charge, and never
        another question's.
        """
        lab, priced = self._lab, self._plan(spend, checked_given(given))
        charge = Charge(
            accounts=self._accounts,
            cost=priced.cost,
            request=priced.request,
            about=self._about(priced),
            key=key,
        )
        return Release(priced, answer(priced, charge, lab.ledger, lab.engine, lab.incidents))

    def __repr__(self) -> str:
        return f"Query({self._text!r}); .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"

    def _plan(self, typed: Spending, given: dict[str, int]) -> Plan:
        return plan(self._table, self._question, self._spend(typed, given))

    def _spend(self, typed: Spending, given: dict[str, int]) -> Spend:
        """What was typed, as a spend; shares are of the smallest account that pays."""
        amounts = {name: value for name, value in typed.items() if value is not None}
        if list(amounts) == ["error"]:
            return cheapest(self._table, self._question, typed["error"], given)
        budgets = [self._lab.ledger.budget(account) for account in self._accounts]
        sums = len(needed(self._table, self._question))
        return spend(budget=min(budgets, key=lambda each: each.epsilon), sums=sums, amounts=amounts)

    def _states(self) -> list[tuple[Caps, Cost]]:
        ledger = self._lab.ledger
        return [(caps(ledger.budget(account)), ledger.spent(account)) for account in self._accounts]

    @cached_property
    def _accounts(self) -> tuple[str, ...]:
        return self._lab.accounts(self._table.population, self._analyst)

    def _about(self, priced: Plan) -> dict[str, Any]:
        return {
            "analyst": self._analyst or "",
            "question": self._text,
            "table": self._table.name,
            "snapshot": self._table.snapshot,
            "spend": str(priced.spend),
            "event": priced.event.to_dict(),
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
