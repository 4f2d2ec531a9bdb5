"""What an analyst holds: questions, their quotes and releases, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.gate import answer
from sfumato.curator.plan import Plan, plan
from sfumato.curator.quote import Quote, checked_given
from sfumato.curator.release import Release
from sfumato.errors import UsageError
from sfumato.ledger import Charge
from sfumato.privacy.account import caps, left
from sfumato.privacy.exact import Number, positive

if TYPE_CHECKING:
    from sfumato.curator.measurement import Question
    from sfumato.lab import Lab
    from sfumato.queries.frames import Frame
    from sfumato.viz import Chart


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
        self._table = lab.table(question.relation.table)
        self._plan(epsilon=1)  # every refusal that does not depend on the price comes now

    def quote(self, *, epsilon: Number | None = None, given: dict[str, Any] | None = None) -> Quote:
        """Price and expected error, from public facts only."""
        priced = self._plan(epsilon)
        guesses = checked_given(given)
        ledger = self._lab.ledger
        free = ledger.find(priced.request) is not None
        states = [(caps(ledger.budget(account)), ledger.spent(account)) for account in self._accounts]
        admitted = free or all(cap.admits(spent, priced.cost) for cap, spent in states)
        before = min(left(cap, spent).epsilon for cap, spent in states)
        after = min(left(cap, spent if free else spent + priced.cost).epsilon for cap, spent in states)
        share = 0.0 if free else float(priced.epsilon / ledger.budget(self._accounts[0]).epsilon)
        return Quote(priced, share, before, after if admitted else None, free, guesses)

    def release(self, *, epsilon: Number | None = None, key: str | None = None) -> Release:
        """Charge, then answer. The same question released before comes back for free.

        With a `key`, a retry gives the same answer for one charge, and never another question's.
        """
        lab, priced = self._lab, self._plan(epsilon)
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

    def _plan(self, epsilon: Number | None) -> Plan:
        if epsilon is None:
            raise UsageError("SF-N109", "Say how much to spend.", try_="epsilon=0.1")
        return plan(self._table, self._question, positive(epsilon, "epsilon"))

    @cached_property
    def _accounts(self) -> tuple[str, ...]:
        return self._lab.accounts(self._table.population, self._analyst)

    def _about(self, priced: Plan) -> dict[str, Any]:
        return {
            "analyst": self._analyst or "",
            "question": self._text,
            "table": self._table.name,
            "snapshot": self._table.snapshot,
            "epsilon": str(priced.epsilon),
            "event": priced.event.to_dict(),
        }


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
