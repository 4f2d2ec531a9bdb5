"""The answers of questions that were asked together, and how far off they are likely to be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.answer import NoisyAnswer, read_choices
from sfumato.curator.answers.expected_error import QuestionError
from sfumato.curator.answers.release import Release
from sfumato.curator.answers.results import Receipt
from sfumato.curator.answers.together.estimates import PoolEstimates, is_pooled, read_strategies
from sfumato.curator.gate import decode_answer, encode_answer
from sfumato.curator.plan.steps import ChoiceStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.curator.answers.quote import ExpectedError
    from sfumato.curator.answers.release import Again
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.together.plan import TogetherPlan
    from sfumato.ledger import Released


def read_together(
    plan: TogetherPlan, released: Released, again: Sequence[Again | None] = ()
) -> tuple[Release, ...]:
    """Return the answer of each question, all with receipts of the one charge.

    `again` asks each question once more by itself, to refine its answer.
    """
    answers, subject = decode_answer(released.answer), plan.subject
    kept = read_strategies(answers)
    estimates = [
        PoolEstimates(
            pool,
            kept[at],
            plan.spend,
            [each for each in answers if is_pooled(each) and each[1][0] == at],
        )
        for at, pool in enumerate(subject.pools)
    ]
    beside = iter([each for each in answers if not is_pooled(each)])
    own = {request: [next(beside) for _ in subject.steps_beside(request)] for request in subject.unique}
    whole = Receipt.of(plan, released)
    asks = again or (None,) * len(subject.plans)
    found = []
    for each, request, ask in zip(subject.plans, subject.requests, asks, strict=True):
        noisy, alone = None, released
        if request in subject.pool_of:
            noisy = _read_pooled(each, estimates[subject.pool_of[request]], own[request])
        else:
            alone = replace(released, answer=encode_answer(own[request]))
        receipt = replace(whole, table=each.table.name)
        found.append(Release(each, alone, again=ask, receipt=receipt, answer=noisy, request=plan.request))
    return tuple(found)


def _read_pooled(plan: QuestionPlan, estimates: PoolEstimates, answers: list[Any]) -> NoisyAnswer:
    sums, laws = estimates.sum_question(plan.resolved), estimates.join_laws(plan.resolved)
    steps = [step for step in plan.steps if isinstance(step, ChoiceStep)]
    chosen = read_choices(plan, steps, answers)
    return NoisyAnswer(sums, laws, chosen, None, plan.resolved.cells, dependent=True)


@dataclass(frozen=True, slots=True)
class TogetherError:
    """The expected errors of several questions."""

    questions: tuple[QuestionError, ...]
    picked: Mapping[int, str] = field(default_factory=dict)
    """What was picked for the questions that were tuned, by their places from 1 on."""
    advised: tuple[ExpectedError, ...] = ()
    """The same errors, each with what should be known before it is paid for."""

    @classmethod
    def of(cls, plan: TogetherPlan, given: dict[str, int]) -> TogetherError:
        """Return what is known of the errors before the answer."""
        subject = plan.subject
        pairs = zip(subject.pools, subject.strategies, strict=True)
        estimates = [PoolEstimates(pool, items, plan.spend) for pool, items in pairs]
        return cls(
            tuple(
                QuestionError(
                    each, given, tuple(estimates[subject.pool_of[request]].list_laws(each.resolved))
                )
                if request in subject.pool_of
                else QuestionError(each, given)
                for each, request in zip(subject.plans, subject.requests, strict=True)
            )
        )

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval; names that several questions have say which."""
        found = [each.half_widths(confidence) for each in self.questions]
        names = [name for own in found for name in own]
        return {
            name if names.count(name) == 1 else f"{name} (question {place})": half
            for place, own in enumerate(found, start=1)
            for name, half in own.items()
        }

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return each column of each query with its error and what the error assumes."""
        return [
            (f"{name} (query {place})", error, note)
            for place, each in enumerate(self.questions, start=1)
            for name, error, note in each.error_rows()
        ]

    def facts(self) -> list[tuple[str, str]]:
        """Return the bounds of tuned queries, and from how many units on a group is shown."""
        return list(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        for place, each in enumerate(self.advised or self.questions, start=1):
            picked = [("bounds", self.picked[place])] if place in self.picked else []
            yield from ((f"{name} (query {place})", text) for name, text in [*picked, *each.facts()])

    def shared_by(self) -> str:
        """Return what the spend is split over."""
        return f"{len(self.questions)} questions" if len(self.questions) > 1 else ""
