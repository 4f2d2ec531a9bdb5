"""One question in SQL or of a frame: what it would cost, and its answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack, cast

from sfumato.curator.answers.post_processing import require_numbers
from sfumato.curator.answers.quote import Quote, cheapest, checked_given
from sfumato.curator.answers.release import Release
from sfumato.curator.plan.plan import Plan, ResolvedQuestion, priced
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.errors import PolicyError
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.measurement import Question
    from sfumato.ledger import Released


class Query:
    """One question. `quote` says what it would cost, `release` pays and answers."""

    def __init__(self, payer: Payer, question: Question, text: str) -> None:
        self.question = question
        self._payer = payer
        self._text = text
        self._known: tuple[CatalogContents, ResolvedQuestion] | None = None
        self._refuse_what_no_price_changes()

    def bounded(self, *, groups: int = 1, rows: int = 1) -> Query:
        """The same question; one unit counts in at most so many groups, with so many rows in each."""
        bounds = ContributionLimits(whole(groups, "groups"), whole(rows, "rows"))
        text = f"{self._text} bounded(groups={groups}, rows={rows})"
        return Query(self._payer, replace(self.question, bounds=bounds), text)

    def quote(self, *, given: dict[str, Any] | None = None, **spend: Unpack[Spending]) -> Quote:
        """Price and expected error, from public facts only.

        Say what to spend in one way: epsilon, epsilon and delta, rho, share of the budget, or the error
        wished for, such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages.
        """
        guesses = checked_given(given)
        plan = self._plan(spend, guesses)
        standing = self._payer.standing(plan)
        return Quote(plan, standing.share, standing.left, standing.left_after, standing.free, guesses)

    def release(
        self, *, key: str | None = None, given: dict[str, Any] | None = None, **spend: Unpack[Spending]
    ) -> Release:
        """Charge, then answer. The same question released before comes back for free.

        Say what to spend as in `quote`. With a `key`, a retry gives the same answer for one charge, and never
        another question's.
        """
        plan = self._plan(spend, checked_given(given))
        return Release(plan, self._payer.pay(plan, self._text, key), self._again)

    def __repr__(self) -> str:
        return f"Query({self._text!r}); .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"

    def _refuse_what_no_price_changes(self) -> None:
        resolved = self._resolved()
        require_numbers(resolved)
        priced(resolved, PureSpend(Fraction(1), Fraction(1, 10**6)))

    def _again(
        self, spend: Mapping[str, Any], rounds: tuple[str, ...], earlier: Plan
    ) -> tuple[Plan, Released]:
        """The same question once more, with fresh noise, after these rounds."""
        resolved = self._resolved()
        again = self._payer.spend(resolved.table, resolved.needs, cast("Spending", dict(spend)))
        plan = replace(priced(resolved, again), round=rounds)
        if plan.snapshots != earlier.snapshots:
            raise PolicyError(
                "SF-C136",
                "The table moved on since this was answered; nothing was charged.",
                why="the rows are other ones now, and two answers about different rows are not one",
                try_="ask the question again",
            )
        return plan, self._payer.pay(plan, f"{self._text} (refined)")

    def _resolved(self) -> ResolvedQuestion:
        """Looked up afresh when the catalog changed: the steward may have made a new snapshot since."""
        contents = self._payer.lab.contents
        if self._known is None or self._known[0] is not contents:
            self._known = contents, ResolvedQuestion(self._payer.lab.table, self.question)
        return self._known[1]

    def _plan(self, typed: Spending, given: dict[str, int]) -> Plan:
        resolved = self._resolved()
        return priced(resolved, self._spend(resolved, typed, given))

    def _spend(self, resolved: ResolvedQuestion, typed: Spending, given: dict[str, int]) -> Spend:
        if [name for name, value in typed.items() if value is not None] == ["error"]:
            return cheapest(resolved, typed["error"], given)
        return self._payer.spend(resolved.table, resolved.needs, typed)
