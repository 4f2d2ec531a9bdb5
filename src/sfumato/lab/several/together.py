"""Several questions with one charge, whose answers agree with each other."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from sfumato.curator.answers.expected_error import bisect_spend, check_given, parse_wished, require_known
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.release import Release
from sfumato.curator.answers.together.answers import TogetherError, read_together
from sfumato.curator.catalog.unbounded import HasNoBounds
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.together.plan import gather_needs, plan_together, require_together
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.bounds.advice import AdvisedError
from sfumato.lab.bounds.row_ranks import ranks_all_rows, unbounded_ranks_error
from sfumato.lab.query import Query, TunedQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.plan.together.plan import TogetherPlan
    from sfumato.ledger import Released


class TogetherQueries(HasNoBounds, Measure[tuple[Release, ...]]):
    """Questions with one charge. `release` gives one answer for each, and their numbers agree.

    Each question brings an equal part of what is spent. Questions about the same rows are measured together,
    by whichever groups serve all of them best, and no number has more noise than if it were asked alone for
    its part.
    """

    def __init__(self, payer: Payer, queries: Sequence[Query]) -> None:
        self._queries = tuple(queries)
        text = "; ".join(each.text for each in self._queries)
        super().__init__(payer, text, self._plan, self._read_answers, self._expect_error)
        # What no price could answer is refused now.
        require_together([each.resolved for each in self._queries])

    def __len__(self) -> int:
        return len(self._queries)

    def _plan(self, spending: Spending) -> TogetherPlan:
        """Price all questions in one state of the catalog."""
        tables = cache(self._payer.lab.table)
        resolved = [ResolvedQuestion(tables, each.question) for each in self._queries]
        require_together(resolved)
        plan = plan_together(resolved, self._choose_spend(resolved, spending))
        ranked = any(ranks_all_rows(each.question) for each in self._queries)
        if ranked and not self._payer.was_answered(plan):
            raise unbounded_ranks_error()
        return self._with_notes(plan)

    def _read_answers(self, plan: TogetherPlan, released: Released) -> tuple[Release, ...]:
        return read_together(plan, released, [each.ask_again for each in self._queries])

    def _expect_error(self, plan: TogetherPlan, spending: Spending) -> TogetherError:
        queries = enumerate(self._queries, start=1)
        picked = {place: str(each.picked) for place, each in queries if isinstance(each, TunedQuery)}
        found = TogetherError.of(plan, check_given(spending.get("given")))
        pairs = zip(found.questions, self._queries, strict=True)
        advised = tuple(AdvisedError(noise, each.text, self._payer.lab.table) for noise, each in pairs)
        return replace(found, picked=picked, advised=advised)

    def _choose_spend(self, resolved: list[ResolvedQuestion], spending: Spending) -> Spend:
        given = check_given(spending.get("given"))
        typed = {name: value for name, value in spending.items() if name != "given" and value is not None}
        if list(typed) == ["error"]:
            return self._meet_error(resolved, typed["error"], given)
        return self._payer.spend(resolved[0].table, gather_needs(resolved), cast("Spending", typed))

    def _meet_error(self, resolved: list[ResolvedQuestion], error: Any, given: dict[str, int]) -> PureSpend:
        """Return the least ε at which every number of a wished name is within its error."""
        figures = {name: each for own in resolved for name, each in own.question.figures.items()}
        wanted = parse_wished(error, figures)
        if any(each.discovers_keys for each in resolved):
            raise PolicyError(
                "SF-Q143",
                "The groups of a question are not listed, and discovering which there are costs a delta.",
                why="an error alone does not say how much delta to spend",
                try_="release(epsilon=1, delta=1e-8)",
            )
        one = PureSpend(Fraction(1))
        # What is measured does not depend on ε.
        known = dict(enumerate(plan_together(resolved, one).subject.strategies))

        def meets(epsilon: Fraction) -> bool:
            plan = plan_together(resolved, replace(one, epsilon=epsilon), known)
            expected = TogetherError.of(plan, given).questions
            return all(
                require_known(name, figure, each) <= wanted[name]
                for each in expected
                for name, figure in each.plan.question.figures.items()
                if name in wanted
            )

        return replace(one, epsilon=bisect_spend(meets))

    def _with_notes(self, plan: TogetherPlan) -> TogetherPlan:
        """Return the plan whose answers name what else their intervals do not cover."""
        if not any(each.notes for each in self._queries):
            return plan
        pairs = zip(plan.subject.plans, self._queries, strict=True)
        plans = tuple(replace(each, bias=(*each.bias, *query.notes)) for each, query in pairs)
        notes = (note for query in self._queries for note in query.notes)
        bias = tuple(dict.fromkeys((*plan.bias, *notes)))
        return replace(plan, subject=replace(plan.subject, plans=plans), bias=bias)


def collect_queries(payer: Payer, questions: Any, parse: Any) -> TogetherQueries:
    """Return questions to be asked together, from texts in SQL and questions of the same session."""
    if isinstance(questions, str) or not hasattr(questions, "__iter__"):
        raise no_list_error()
    found = [parse(each) if isinstance(each, str) else each for each in questions]
    for each in found:
        if not isinstance(each, Query):
            raise no_single_question_error()
        if each.payer != payer:
            raise UsageError(
                "SF-Q221",
                "A question of another session is among these.",
                why="one charge has one payer",
                try_="ask all of them of one session",
            )
    return TogetherQueries(payer, found)


def no_single_question_error() -> UsageError:
    """Return the refusal of what is no single question."""
    return UsageError(
        "SF-Q221",
        "Only single questions are asked together.",
        why="a choice or a list has an answer of another kind",
        try_='s.ask_together([s.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")])',
    )


def no_list_error() -> UsageError:
    """Return the refusal of what is no list of questions."""
    return UsageError(
        "SF-Q221",
        "Questions that are asked together come as a list.",
        try_='s.ask_together(["SELECT …", "SELECT …"])',
    )
