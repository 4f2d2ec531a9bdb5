"""What tuning a question costs: quoted, charged, and refused where the question could not be paid for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.quote import Quote
from sfumato.curator.payer import find_kept
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import BudgetError, UsageError
from sfumato.errors.numbers import format_bound
from sfumato.lab.bounds.choosing import MOST_UNITS, count_noise
from sfumato.lab.bounds.tuning import PickedBounds, TuningPlan
from sfumato.privacy.bound_choice import QUESTIONS_EACH
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.steps import Sums
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number

    PricedTuning = Plan[Sums, TuningPlan]


@dataclass(frozen=True, slots=True, repr=False)
class TuningQuote(Quote):
    """What tuning costs. It is not admitted either where too little would be left for the question."""

    unpaid: str = ""
    """The price of the question, where it could not be paid after tuning; empty where it could."""

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return Quote.to_dict(self) | ({"unpaid": self.unpaid} if self.unpaid else {})

    def describe_after(self) -> str:
        """Return what is left after it, in words."""
        if self.unpaid:
            return f"refused, too little would remain for the query at {self.unpaid}"
        return Quote.describe_after(self)


class Tuning(Measure[PickedBounds]):
    """The counts of units that a question's bounds follow from, to be priced and charged.

    `price_question` prices the question that is to be asked with the bounds, where it is known what will be
    spent on it. What tuning leaves must pay for it, or tuning is refused for nothing.
    """

    def __init__(
        self,
        payer: Payer,
        text: str,
        resolve: Callable[[], ResolvedQuestion],
        for_epsilon: Number | None,
        price_question: Callable[[], QuestionPlan] | None,
    ) -> None:
        super().__init__(payer, f"tune {text}", self._price, self._pick, _expect_error)
        self._resolve, self._price_question = resolve, price_question
        self._served = None if for_epsilon is None else parse_positive(for_epsilon, "for_epsilon")

    def quote(self, **spending: Unpack[Spending]) -> TuningQuote:
        """Return the price, from public facts only."""
        plan = self._make_plan(spending)
        standing = self._payer.standing(plan)
        unpaid = self._find_unpaid(plan)
        if unpaid is not None:
            standing = replace(standing, left_after=None)
        return TuningQuote(
            plan, standing, self._error(plan, spending), "" if unpaid is None else unpaid.charged
        )

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> PickedBounds:
        """Charge, then pick the bounds. Refused for nothing if the question could not be paid for then."""
        plan = self._make_plan(spending)
        unpaid = self._find_unpaid(plan, key)
        if unpaid is not None:
            raise self._too_little_error(plan, unpaid)
        return self._pay(key, spending)

    def find_answer(self, **spending: Unpack[Spending]) -> PickedBounds | None:
        """Return the bounds that were picked at this spend before, if any; this never charges."""
        plan = self._make_plan(spending)
        kept = find_kept(self._payer.lab.ledger, plan) if self._payer.was_answered(plan) else None
        return None if kept is None else self._pick(plan, kept)

    def _price(self, spending: Spending) -> PricedTuning:
        plan = TuningPlan.of(self._payer.lab.table, self._resolve()).price(_read_epsilon(spending))
        _require_servable(plan)
        return plan

    def _pick(self, plan: PricedTuning, released: Released) -> PickedBounds:
        asked = QUESTIONS_EACH * _spent(plan) if self._served is None else self._served
        return plan.subject.pick(plan, released, asked)

    def _find_unpaid(self, plan: PricedTuning, key: str | None = None) -> QuestionPlan | None:
        """Return the question if it could not be paid for after tuning.

        What was tuned before costs nothing, and so does what was charged before and never read. Tuning that
        alone costs too much is the ledger's to refuse.
        """
        if self._price_question is None or self._payer.was_answered(plan):
            return None
        if self._payer.lab.ledger.was_given_up(self._payer.make_charge(plan, self._text, key)):
            return None
        asked = self._price_question()
        affordable = self._payer.can_afford(asked, plan.cost + asked.cost)
        return None if affordable or not self._payer.can_afford(plan, plan.cost) else asked

    def _too_little_error(self, plan: PricedTuning, asked: QuestionPlan) -> BudgetError:
        standing = self._payer.standing(plan)
        rest = format_bound(float(standing.left_after or 0), up=False).replace(",", "")
        return BudgetError(
            "SF-B105",
            "Tuning would leave too little for the question itself, so nothing was charged.",
            asked=f"{plan.charged} for tuning, then {asked.charged}",
            left=f"ε = {format_bound(float(standing.left), up=False)} now, ε = {rest} after tuning",
            try_=f"epsilon={rest} or less for the question" if standing.left_after else "leave tuning out",
        )


def _read_epsilon(spending: Spending) -> Fraction:
    typed = {name: value for name, value in spending.items() if value is not None}
    if set(typed) != {"epsilon"}:
        raise UsageError("SF-N316", "Tuning is paid for with epsilon alone.", try_="tune(epsilon=0.05)")
    return parse_positive(typed["epsilon"], "epsilon")


def _spent(plan: PricedTuning) -> Fraction:
    if not isinstance(plan.spend, PureSpend):
        raise AssertionError(plan.spend)
    return plan.spend.epsilon


def _require_servable(plan: PricedTuning) -> None:
    """Refuse noise that would hide any table there could be: this follows from public facts."""
    radius = max(count_noise(step).half_width(0.95) for step in plan.steps)
    if radius < MOST_UNITS:
        return
    raise UsageError(
        "SF-Q218",
        "No bound can be picked at this ε; nothing was charged.",
        why=f"each count of units would be off by {radius:,}, and there are at most {MOST_UNITS:,}",
        try_="a larger epsilon",
    )


def _expect_error(plan: PricedTuning, _: Spending) -> SentenceError:
    off = max(count_noise(step).half_width(0.95) for step in plan.steps)
    return SentenceError(f"each count of units is off by {off:,} at 95 %; refused where all are smaller")
