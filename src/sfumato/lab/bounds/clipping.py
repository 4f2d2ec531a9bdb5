"""Ends that the values of one question are clipped to, chosen privately as the first part of its release.

A tenth of the ε pays for counts of units over public cells, from which the ends follow; the rest pays for the
question with its values clipped: docs/proofs/bounds.md.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

from sfumato.curator.answers.noisy_tail import CHANCE
from sfumato.curator.answers.quote import Quote
from sfumato.curator.catalog.candidates import list_sizes
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.per_unit import rebuild_node
from sfumato.curator.plan.aggregates import aggregate_range
from sfumato.curator.plan.caveats import clipped_values, hidden_values, show_ends
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.summands import list_summands
from sfumato.curator.question.cells import cut_around_zero
from sfumato.curator.question.measurement import (
    ContributionLimits,
    CountOf,
    GroupKey,
    MeanOf,
    Output,
    Question,
    SumOf,
    VarianceOf,
    list_aggregates,
)
from sfumato.errors import BudgetError, UsageError
from sfumato.errors.numbers import format_bound, format_number
from sfumato.lab.bounds.choosing import count_noise, pick_ends
from sfumato.lab.bounds.derived_bounds import clip_expression, propose_ends
from sfumato.lab.bounds.tuned_error import TunedError
from sfumato.privacy.bound_choice import QUESTIONS_EACH
from sfumato.privacy.events import Sequential
from sfumato.privacy.exact import parse_exact, parse_positive

if TYPE_CHECKING:
    from sfumato.curator.answers.quote import ExpectedError
    from sfumato.curator.answers.release import Release
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.relation import Expression

_CLIPPED = SumOf | MeanOf | VarianceOf
_DECADES = 10**4
"""Ratio of the largest to the smallest candidate for an end."""


class SingleQuery(Protocol):
    """One query of a session, and others of the same session that differ in what they ask."""

    question: Question

    @property
    def payer(self) -> Payer: ...

    @property
    def text(self) -> str: ...

    @property
    def resolved(self) -> ResolvedQuestion: ...

    def plan(self, spending: Spending) -> QuestionPlan: ...

    def expect_error(self, plan: QuestionPlan, spending: Spending) -> ExpectedError: ...

    def quote(self, **spending: Unpack[Spending]) -> Quote: ...

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> Release: ...

    def find_answer(self, **spending: Unpack[Spending]) -> Release | None: ...

    def ask_instead(self, question: Question, text: str, *notes: Caveat) -> SingleQuery:
        """Return a query for another question, with these caveats besides those of this one."""


class AutoClip:
    """A question whose values are clipped to ends that are chosen when it is released."""

    def __init__(self, query: SingleQuery, spending: Spending) -> None:
        refusal = _explain_refusal(query.question, spending)
        if refusal:
            raise UsageError(
                "SF-Q210",
                'clip="auto" cannot be used for this query; nothing was charged.',
                why=refusal,
                try_='release(epsilon=1, clip="auto") of SELECT AVG(a - b) …, or a clip in SQL: '
                "LEAST(GREATEST(a - b, 0), 100)",
            )
        self._query, self._spending = query, spending
        (self._of,) = _list_arguments(query.question)
        self._part = parse_positive(spending.get("epsilon"), "epsilon") / QUESTIONS_EACH
        rest = self._part * (QUESTIONS_EACH - 1)
        self._rest = cast("Spending", {**spending, "epsilon": rest})

    @classmethod
    def of(cls, query: SingleQuery, spending: Spending) -> AutoClip | None:
        """Return the choice for a question that can be clipped automatically, and None for others."""
        return None if _explain_refusal(query.question, spending) else cls(query, spending)

    # ---- price and answer ----

    def quote(self) -> Quote:
        """Return the price of both parts and the error of the clipped question, from public facts only.

        As long as the ends are not chosen, the error assumes round ends around a tenth of the bounds.
        """
        kept = self._counts.find_answer(epsilon=self._part)
        if kept is not None:
            return self._clip(kept).quote(**self._rest)
        low, high = propose_ends(*self._bounds)
        assumed = self._query.ask_instead(*self._clip_to(low, high))
        counted, asked = self._counts.plan({"epsilon": self._part}), assumed.plan(self._rest)
        whole = Plan(
            asked.table,
            self._query.plan(self._spending).spend,
            (*counted.steps, *asked.steps),
            None,
            asked.bias,
            ("clip",),
            Sequential((counted.event, asked.event)),
            reads=asked.reads,
        )
        ends = show_ends(low, high)
        said = f"chosen privately, for ε = {format_number(self._part, 6)} of the price. Errors assume {ends}"
        error = TunedError(assumed.expect_error(asked, self._rest), (("clip", said),))
        return Quote(whole, self._query.payer.standing(whole), error)

    def release(self, key: str | None) -> Release:
        """Charge for the ends, then for the clipped question, and answer it.

        If what remains does not pay for both, neither is charged.
        """
        self._require_affordable()
        own = None if key is None else f"{key} (clip)"
        counts = self._counts.release(epsilon=self._part, key=own)
        return self._clip(counts).release(key=key, **self._rest)

    def find_answer(self) -> Release | None:
        """Return the answer that was kept for this question at this spend, if any; this never charges."""
        counts = self._counts.find_answer(epsilon=self._part)
        return None if counts is None else self._clip(counts).find_answer(**self._rest)

    def count_least_seen(self) -> float:
        """Return how many units must have values in one cell so that they stand out of the noise."""
        [step] = self._counts.plan({"epsilon": self._part}).steps
        return count_noise(cast("Any", step)).half_width(1 - CHANCE / len(self._ends))

    # ---- parts ----

    @cached_property
    def _bounds(self) -> tuple[Fraction, Fraction]:
        """The bounds that values have by public facts."""
        figure = MeanOf(self._of)
        low, high = aggregate_range(figure, list_summands(figure, self._query.resolved.source)[:1])
        return parse_exact(low, "low"), parse_exact(high, "high")

    @cached_property
    def _ends(self) -> tuple[Fraction, ...]:
        """Candidates for both ends: zero, and 1, 2, 5, 10, 20, … with both signs."""
        largest = max(map(abs, self._bounds))
        sizes = list_sizes(largest, largest / _DECADES)
        return (*(-size for size in reversed(sizes)), Fraction(0), *sizes)

    @cached_property
    def _counts(self) -> SingleQuery:
        """How many units have a value in which cell, of one row each."""
        cells = cut_around_zero(self._of, self._ends)
        shown = Output("cell", GroupKey(0)), Output("units", CountOf())
        one = ContributionLimits(groups=1, rows=1)
        question = Question(self._query.question.relation, (cells,), shown, bounds=one)
        return self._query.ask_instead(question, f"ends of {self._query.text}")

    def _clip(self, counts: Release) -> SingleQuery:
        """Return the question with the ends that noisy counts imply; unclipped if noise hides all values."""
        seen = counts.all_groups().to_arrow().to_pydict()
        cells = {
            int(cell): n for cell, n in zip(seen["cell"], seen["units"], strict=True) if cell is not None
        }
        # Cells that no value can be in by public facts are not counted.
        units = tuple(cells.get(place, 0) for place in range(len(self._ends)))
        [step] = self._counts.plan({"epsilon": self._part}).steps
        allowed = float(1 / parse_exact(self._rest["epsilon"], "epsilon"))
        found = pick_ends(
            self._ends, units, count_noise(cast("Any", step)), lambda all_: min(allowed, max(all_, 0) / 4)
        )
        entry, (least, most) = counts.receipt.entry, self._bounds
        low, high = (least, most) if found is None else _round_to_zero(found.low, found.high)
        low, high = max(low, least), min(high, most)
        if found is None or low >= high:
            note = hidden_values(self._part, entry)
            return self._query.ask_instead(self._query.question, self._query.text, note)
        note = clipped_values(self._name, low, high, found.beyond, self._part, entry)
        return self._query.ask_instead(*self._clip_to(low, high), note)

    @property
    def _name(self) -> str:
        """The columns of the answer whose values are clipped."""
        figures = self._query.question.figures.items()
        clipped = [
            name for name, each in figures if any(isinstance(of, _CLIPPED) for of in list_aggregates(each))
        ]
        return " and ".join(clipped) or "the sum"

    def _clip_to(self, low: Fraction, high: Fraction) -> tuple[Question, str]:
        """Return the question over values between two ends, and its text."""
        present = lower_expression(self._of, self._query.resolved.source.scope).present
        of = clip_expression(self._of, low, high, present)

        def change(node: Any) -> Any:
            if isinstance(node, _CLIPPED) and node.of == self._of:
                return replace(node, of=of)
            return rebuild_node(node, change)

        question = self._query.question
        shown = {name: change(getattr(question, name)) for name in ("outputs", "having", "order")}
        text = f"clip from {format_number(low)} to {format_number(high)}: {self._query.text}"
        return replace(question, **shown), text

    def _require_affordable(self) -> None:
        """Refuse, before anything is charged, if the question could not be paid for after the ends."""
        payer, counted = self._query.payer, self._counts.plan({"epsilon": self._part})
        asked: QuestionPlan = self._query.plan(self._rest)
        if payer.was_answered(counted) or payer.can_afford(asked, counted.cost + asked.cost):
            return
        whole = self._query.plan(self._spending)
        raise BudgetError(
            "SF-B105",
            'Too little remains for the query and its clip="auto", so nothing was charged.',
            asked=f"{whole.charged} for both",
            left=f"ε = {format_bound(float(payer.find_left(whole)), up=False)}",
            try_="a smaller epsilon",
        )


def _round_to_zero(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Return two ends, zero in place of one that is within a tenth of the other: that costs little noise."""
    if 0 < low <= high / 10:
        return Fraction(0), high
    if low / 10 <= high < 0:
        return low, Fraction(0)
    return low, high


def _explain_refusal(question: Question, spending: Spending) -> str:
    """Return why the values of a question cannot be clipped automatically; empty if they can."""
    typed = {name for name, value in spending.items() if value is not None} - {"given"}
    if "epsilon" not in typed or typed - {"epsilon", "delta"}:
        return "it is paid for with epsilon, or with epsilon and delta"
    found = _list_arguments(question)
    if len(found) == 1:
        return ""
    return f"it clips the values of one expression in SUM, AVG, STDDEV or VARIANCE, and here are {len(found)}"


def _list_arguments(question: Question) -> list[Expression]:
    """Return the expressions whose values are summed, each once."""
    found = [each.of for each in question.aggregates if isinstance(each, _CLIPPED)]
    return list(dict.fromkeys(found))
