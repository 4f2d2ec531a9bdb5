"""One question in SQL or of a frame: what it would cost, and its answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from sfumato.curator.answers.expected_error import QuestionError, check_given, find_cheapest_spend
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.post_processing import require_numbers
from sfumato.curator.answers.release import Release
from sfumato.curator.catalog.unbounded import no_single_question_error
from sfumato.curator.payer import find_kept
from sfumato.curator.plan.caveats import clipped_units, estimated_bias
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend, prefers_shape
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_typed
from sfumato.lab.bounds.advice import AdvisedError, Repricing
from sfumato.lab.bounds.row_ranks import ranks_all_rows, unbounded_ranks_error
from sfumato.lab.bounds.tuned_error import TunedError
from sfumato.privacy.exact import parse_exact, parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.answers.quote import Quote
    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.measurement import Question
    from sfumato.lab.bounds.clipping import AutoClip
    from sfumato.lab.bounds.paying import Tuning
    from sfumato.lab.bounds.tuning import PickedBounds
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number


class Query(Measure[Release]):
    """One question. `quote` says what it would cost, `release` pays and answers."""

    def __init__(self, payer: Payer, question: Question, text: str, notes: tuple[Caveat, ...] = ()) -> None:
        self._notes = notes
        super().__init__(payer, text, self.plan, self._answer, self.expect_error)
        self.question = question
        self._known: tuple[CatalogContents, ResolvedQuestion] | None = None
        # What no price could answer is refused now, while the text is before its author's eyes.
        resolved = self._resolve()
        require_numbers(resolved)
        resolved.require_answerable()

    def quote(self, **spending: Unpack[Spending]) -> Quote:
        """Return price and expected error, from public facts only.

        Name the price in one way: epsilon, epsilon and delta, rho, a share of the budget, or a target error
        such as {"n": 25}. `given` guesses n, the rows of a group, for the error of averages. With
        clip="auto", a tenth of ε pays for the ends that summed values are clipped to.
        """
        auto, spending = self._read_clip(spending)
        return self._quote(spending) if auto is None else auto.quote()

    def release(
        self, *, key: str | None = None, include_empty: bool = False, **spending: Unpack[Spending]
    ) -> Release:
        """Charge, then answer. The same question released before comes back for free.

        Say what to spend as in `quote`. With a `key`, a retry gives the same answer for one charge, and never
        another question's. With `include_empty`, groups are shown whether they are significant or not. With
        clip="auto", summed values are clipped to ends that are chosen privately for a tenth of ε.
        """
        auto, spending = self._read_clip(spending)
        found = self._pay(key, spending) if auto is None else auto.release(key)
        return found.all_groups() if include_empty else found

    def bounded(self, *, groups: int = 1, rows: int = 1) -> Query:
        """Return the same question, of which one unit counts in so many groups with so many rows in each."""
        bounds = ContributionLimits(parse_whole(groups, "groups"), parse_whole(rows, "rows"))
        text = f"{self._text} bounded(groups={groups}, rows={rows})"
        return Query(self._payer, replace(self.question, bounds=bounds), text, self._notes)

    def clipped(self, limit: Number, *, groups: int = 1) -> Query:
        """Return the same question for a sum, to which a unit adds at most `limit` in each of so many groups.

        A unit's rows are added up first and the total is clipped, so that noise follows from `limit` and not
        from how many rows a unit may have.
        """
        from sfumato.lab.bounds.contributions import UnitTotals, require_only_sum

        most, summed = parse_positive(limit, "limit"), require_only_sum(self.question)
        resolved = self._resolve()
        question = UnitTotals(resolved).clip_sum(summed, most, parse_whole(groups, "groups"))
        text = f"{self._text} clipped({format_typed(most, 12)}, groups={groups})"
        note = clipped_units(resolved.table.unit.column, most, grouped=bool(self.question.keys))
        return Query(self._payer, question, text, (*self._notes, note))

    def tune(
        self, *, epsilon: Number, for_epsilon: Number | None = None, key: str | None = None
    ) -> TunedQuery:
        """Charge ε for counts of units, and return this question with the bounds that suit it best.

        Picked are the groups of a unit, and its rows in each, or for a single SUM what it adds in each: those
        with the least expected error, noise and what is left out together, for a release at `for_epsilon`,
        ten times the ε of tuning unless said otherwise. Tuning the same question again costs nothing.
        If it is said, and tuning would leave too little for it, nothing is charged and tuning is refused.
        """
        return self.with_bounds(self.tuning(for_epsilon).release(epsilon=epsilon, key=key))

    def tuning(self, for_epsilon: Number | None = None, then: Spending | None = None) -> Tuning:
        """Return what `tune` asks, as a question of its own: `.quote(epsilon=…)` says what it would cost.

        `then` is what will be spent on this question, if it is not `for_epsilon` alone. An error that is
        wished for costs less with bounds than without, so nothing is refused for it.
        """
        from sfumato.lab.bounds.paying import Tuning

        spent = {"epsilon": for_epsilon} if then is None and for_epsilon is not None else then
        known = spent is not None and spent.get("error") is None
        price = partial(self._price, cast("Spending", spent)) if known else None
        return Tuning(self._payer, self._text, self._resolve, for_epsilon, price)

    def with_bounds(self, picked: PickedBounds) -> TunedQuery:
        """Return this question with bounds that were picked for it before."""
        if picked.clip is not None:
            return TunedQuery(self.clipped(picked.clip, groups=picked.groups), picked)
        return TunedQuery(self.bounded(groups=picked.groups, rows=picked.rows or 1), picked)

    @property
    def payer(self) -> Payer:
        """Who pays for the question."""
        return self._payer

    @property
    def text(self) -> str:
        """The question as it was typed, with what was done to it."""
        return self._text

    @property
    def notes(self) -> tuple[Caveat, ...]:
        """What else its interval does not cover."""
        return self._notes

    @property
    def resolved(self) -> ResolvedQuestion:
        """The question with its names looked up."""
        return self._resolve()

    def find_answer(self, **spending: Unpack[Spending]) -> Release | None:
        """Return the answer that was kept for this question at this spend, if any; this never charges."""
        auto, spending = self._read_clip(spending)
        if auto is not None:
            return auto.find_answer()
        plan = self.plan(spending)
        kept = find_kept(self._payer.lab.ledger, plan) if self._payer.was_answered(plan) else None
        return None if kept is None else self._answer(plan, kept)

    def plan(self, spending: Spending) -> QuestionPlan:
        """Return the priced question, from public facts only."""
        plan = self._price(spending)
        if ranks_all_rows(self.question) and not self._payer.was_answered(plan):
            raise unbounded_ranks_error()
        return replace(plan, bias=(*plan.bias, *self._notes)) if self._notes else plan

    def ask_instead(self, question: Question, text: str, *notes: Caveat) -> Query:
        """Return a query for another question, with these caveats besides those of this one."""
        return Query(self._payer, question, text, (*self._notes, *notes))

    def __repr__(self) -> str:
        return f"Query({self._text!r}); .quote(epsilon=…) prices it, .release(epsilon=…) pays and answers"

    def _read_clip(self, spending: Spending) -> tuple[AutoClip | None, Spending]:
        """Return the choice of ends if the spend has clip="auto", and the spend without it."""
        rest = cast("Spending", {name: value for name, value in spending.items() if name != "clip"})
        said = spending.get("clip")
        if said is None:
            return None, rest
        if said != "auto":
            raise UsageError(
                "SF-Q210",
                'clip is "auto" or left out.',
                got=repr(said),
                try_='clip="auto", or q.clipped(100)',
            )
        from sfumato.lab.bounds.clipping import AutoClip

        return AutoClip(self, rest), rest

    def _price(self, spending: Spending) -> QuestionPlan:
        resolved = self._resolve()
        return price_question(resolved, choose_spend(self._payer, resolved, spending))

    def _answer(self, plan: QuestionPlan, released: Released) -> Release:
        return Release(plan, released, again=self.ask_again)

    def ask_again(
        self, spending: Mapping[str, Any], rounds: tuple[str, ...], earlier: QuestionPlan
    ) -> tuple[QuestionPlan, Released]:
        """Ask the same question once more by itself, with fresh noise, after these rounds."""
        resolved = self._resolve()
        typed = dict(spending)
        key = typed.pop("key", None)
        again = self._payer.spend(resolved.table, resolved.needs, cast("Spending", typed))
        plan = price_question(resolved, again, refines=rounds)
        if plan.snapshots != earlier.snapshots:
            raise PolicyError(
                "SF-C135",
                "The table has a new snapshot since this was answered; nothing was charged.",
                why="the rows are other ones now, and two answers about different rows are not one",
                try_="ask the question again",
            )
        return plan, self._payer.pay(plan, f"{self._text} (refined)", key)

    def expect_error(self, plan: QuestionPlan, spending: Spending) -> AdvisedError:
        """Return the expected error at this spend, with advice on bounds and prices."""
        from sfumato.lab.bounds.clipping import AutoClip

        noise = QuestionError(plan, check_given(spending.get("given")))
        repricing, auto = self._reprice(plan, spending), AutoClip.of(self, spending)
        return AdvisedError(noise, self._text, self._payer.lab.table, repricing, auto)

    def _reprice(self, plan: QuestionPlan, spending: Spending) -> Repricing | None:
        """Return how the same question is priced at another amount of what was typed."""
        name = next((each for each in ("rho", "share") if spending.get(each) is not None), "epsilon")
        typed, amount = dict(spending), spending.get(name)
        if amount is None and isinstance(plan.spend, PureSpend):  # a risk or an error, which an ε stands for
            typed, amount = {}, plan.spend.epsilon
        if amount is None:
            return None

        def price(at: Fraction) -> QuestionPlan:
            return self._price(cast("Spending", {**typed, name: at}))

        symbol = {"rho": "ρ", "share": "share"}.get(name, "ε")
        return Repricing(symbol, parse_exact(amount, name), price)

    def _resolve(self) -> ResolvedQuestion:
        """Look names up afresh when the catalog changed: the steward may have made a new snapshot since."""
        contents = self._payer.lab.contents
        if self._known is None or self._known[0] is not contents:
            self._known = contents, ResolvedQuestion(self._payer.lab.table, self.question)
        return self._known[1]


class TunedQuery(Query):
    """A question with bounds that were picked for it privately; `picked` says which, and what they lose."""

    def __init__(self, query: Query, picked: PickedBounds) -> None:
        notes = *query.notes, estimated_bias(picked.bias)
        super().__init__(query.payer, query.question, query.text, notes)
        self.picked = picked
        self._error = self._expect_tuned_error

    def __repr__(self) -> str:
        return f"{self.picked} ({self.picked.bias})\n{super().__repr__()}"

    def _expect_tuned_error(self, plan: QuestionPlan, spending: Spending) -> TunedError:
        said = ("bounds", str(self.picked)), ("bias", self.picked.bias)
        return TunedError(self.expect_error(plan, spending), said)


def require_query(found: object, done: str = "tuned") -> Query:
    """Return a single question; refuse others, which cannot be `done` so."""
    if isinstance(found, Query):
        return found
    raise no_single_question_error(done)


def choose_spend(payer: Payer, resolved: ResolvedQuestion, spending: Spending) -> Spend:
    """Return what was typed as a spend. An error is a wish and not a price: the least ε that meets it."""
    given = check_given(spending.get("given"))
    typed = {name: value for name, value in spending.items() if name != "given" and value is not None}
    if list(typed) == ["error"]:
        one = PureSpend(Fraction(1), shaped=prefers_shape(resolved.needs))
        return find_cheapest_spend(resolved, typed["error"], given, one)
    return payer.spend(resolved.table, resolved.needs, cast("Spending", typed))
