"""Several questions with one price: those about the same rows are measured together, others beside them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.plan import list_pooled_shapes, price_question
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.spend import Needs, PureSpend, prefers_shape
from sfumato.curator.plan.steps import ChoiceStep, QuestionStep
from sfumato.curator.plan.together.design import MOST_RESIDUALS
from sfumato.curator.plan.together.pool import Pool, PooledQuestion, StrategyItem, can_pool
from sfumato.curator.plan.together.strategy import plan_strategy
from sfumato.errors import PolicyError, UsageError
from sfumato.privacy.canonical import canonical_json
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.spend import Spend

    Strategies = Mapping[int, tuple[StrategyItem, ...]]

MOST_QUESTIONS = 100
"""Questions that can be asked together. It bounds time; privacy does not depend on it."""


_ANY = PureSpend(Fraction(1), Fraction(1, 10**6))
"""A spend at which questions are compared: equal ones are measured once."""


_ORDER = "by structure"
"""How questions and pools are ordered. A kept answer is read in this order, so it is part of the request."""
_SNAPSHOT = re.compile(r'"snapshot":"[^"]*"')


@dataclass(frozen=True, slots=True, eq=False)
class QuestionsTogether:
    """Where the answer of each question is found among the steps of a plan."""

    plans: tuple[QuestionPlan, ...]
    """Each question as if it were asked alone for its part of the spend, in the order asked."""
    requests: tuple[str, ...]
    """What identifies each of them; those of equal requests are answered from the same numbers."""
    pools: tuple[Pool, ...]
    strategies: tuple[tuple[StrategyItem, ...], ...]
    """What is measured for each pool."""
    pool_of: Mapping[str, int]
    """The pool of a request; none for those that are measured by themselves."""

    @property
    def unique(self) -> dict[str, QuestionPlan]:
        """One plan for each request, in the order of their steps."""
        found = dict(zip(self.requests, self.plans, strict=True))
        return {request: found[request] for request in sorted(found)}

    def steps_beside(self, request: str) -> tuple[QuestionStep, ...]:
        """Return the steps of a question that no pool measures."""
        steps = self.unique[request].steps
        if request not in self.pool_of:
            return steps
        return tuple(step for step in steps if isinstance(step, ChoiceStep))


TogetherPlan = Plan[QuestionStep, QuestionsTogether]


def require_together(questions: Sequence[ResolvedQuestion]) -> None:
    """Refuse questions that no one price could be for."""
    if not questions:
        raise UsageError(
            "SF-Q221",
            "There is no question to ask.",
            try_='s.ask_together([s.sql("SELECT …"), s.sql("SELECT …")])',
        )
    if len(questions) > MOST_QUESTIONS:
        raise PolicyError(
            "SF-Q158",
            f"At most {MOST_QUESTIONS} questions are asked together.",
            asked=str(len(questions)),
            try_="GROUP BY CUBE (…), or several calls",
        )
    tables = [each.table for each in questions]
    if len({table.population for table in tables}) > 1:
        raise PolicyError(
            "SF-Q221",
            "These questions are about different populations.",
            populations=", ".join(sorted({str(table.population) for table in tables})),
            why="each population has a budget of its own, and one charge is for one of them",
            try_="s.ask_together([…]) for the tables of each population",
        )
    if len({table.neighbours for table in tables}) > 1:
        raise PolicyError(
            "SF-N303",
            "Some of these questions protect against adding a unit, and others against replacing one.",
            why="there is no one price for both",
            try_="s.ask_together([…]) for the tables of each kind",
        )


def gather_needs(questions: Sequence[ResolvedQuestion]) -> Needs:
    """Return what a spend for all questions is split over."""
    needs = [each.needs for each in questions]
    return Needs(
        tuple(each for own in needs for each in own.sums),
        sum(own.choices for own in needs),
        any(own.keys for own in needs),
        tuple(weight for own in needs for weight in own.weights),
    )


def plan_together(
    questions: Sequence[ResolvedQuestion], spend: Spend, strategies: Strategies | None = None
) -> TogetherPlan:
    """Return one plan for several questions. `strategies` says what is measured, if it is known already."""
    requests = tuple(_name_request(price_question(each, _ANY, strategy=())) for each in questions)
    unique = dict(zip(requests, questions, strict=True))
    # Those that no row can be in cost nothing, and leave the spend to the others.
    part = Fraction(1, max(1, sum(not each.is_empty for each in unique.values())))
    alone = {request: _spend_alone(spend, each, part, unique) for request, each in unique.items()}
    plans = tuple(
        price_question(each, alone[request], strategy=())
        for each, request in zip(questions, requests, strict=True)
    )
    members = _group_questions(unique, alone, part)
    pools = tuple(Pool(list(own.values())) for own in members)
    _require_small(pools)
    known = strategies or {at: plan_strategy(pool, spend) for at, pool in enumerate(pools)}
    pools = tuple(pool.with_shapes_of(known[at]) for at, pool in enumerate(pools))
    subject = QuestionsTogether(
        plans,
        requests,
        pools,
        tuple(known[at] for at in range(len(pools))),
        {request: at for at, own in enumerate(members) for request in own},
    )
    return _join_plans(subject, spend)


def _name_request(plan: QuestionPlan) -> str:
    """Return what identifies a question. Sorted, equal questions about other tables are in the same order."""
    return f"{_without_names(list(plan.known_as or plan.steps))} {plan.request}"


def _without_names(asked: Any) -> str:
    """Return a digest of what is asked, whichever snapshots it is asked of."""
    text = _SNAPSHOT.sub('"snapshot":""', canonical_json(asked))
    return hashlib.sha256(text.encode()).hexdigest()


def _join_plans(subject: QuestionsTogether, spend: Spend) -> TogetherPlan:
    pairs = zip(subject.pools, subject.strategies, strict=True)
    steps: list[QuestionStep] = [
        step for at, (pool, items) in enumerate(pairs) for step in pool.make_steps(items, spend, at)
    ]
    unique = subject.unique
    steps += [step for request in unique for step in subject.steps_beside(request)]
    first = subject.plans[0]
    return Plan(
        first.table,
        spend,
        tuple(steps),
        subject,
        tuple(dict.fromkeys(text for plan in subject.plans for text in plan.bias)),
        ("together", _ORDER),
        reads=tuple(table for plan in subject.plans for table in (plan.table, *plan.reads)),
        # Recognised by what each question would be alone: parts of a strategy may be planned better one day.
        known_as=tuple(step for plan in unique.values() for step in plan.known_as or plan.steps),
    )


def _spend_alone(
    spend: Spend, question: ResolvedQuestion, part: Fraction, unique: Mapping[str, ResolvedQuestion]
) -> Spend:
    """Return what a question could spend if it were asked alone for its part."""
    if not isinstance(spend, PureSpend):
        return replace(spend, multiplier=spend.multiplier * root_up(1 / part))
    discovering = sum(each.discovers_keys and not each.is_empty for each in unique.values())
    return replace(
        spend,
        epsilon=spend.epsilon * part,
        delta=spend.delta / max(1, discovering) if question.discovers_keys else Fraction(0),
        words="",
        shaped=prefers_shape(question.needs),
    )


def _group_questions(
    unique: Mapping[str, ResolvedQuestion], alone: Mapping[str, Spend], part: Fraction
) -> list[dict[str, PooledQuestion]]:
    """Return the questions that are measured together: those about the same rows, and those with levels."""
    found: dict[str, dict[str, PooledQuestion]] = {}
    for request in sorted(unique):
        if can_pool(unique[request]) and not unique[request].is_empty:
            asked = list(unique[request].rows)
            rows = f"{_without_names(asked)} {canonical_json(asked)}"
            shapes = list_pooled_shapes(unique[request], alone[request])
            found.setdefault(rows, {})[request] = PooledQuestion(unique[request], part, shapes)
    groups = [found[rows] for rows in sorted(found)]
    return [own for own in groups if len(own) > 1 or _has_levels_that_fit(own)]


def _has_levels_that_fit(own: Mapping[str, PooledQuestion]) -> bool:
    """Return whether one question has levels; with too many of them it is asked as it would be alone."""
    (only,) = own.values()
    return bool(only.resolved.question.levels) and Pool([only]).fits


def _require_small(pools: Sequence[Pool]) -> None:
    for pool in pools:
        if not pool.fits:
            raise PolicyError(
                "SF-Q158",
                "These questions have too many keys to be put together.",
                why=f"sums by k keys have 2^k parts that must agree, of {MOST_RESIDUALS:,} at most",
                try_="fewer keys, or release() of each question by itself",
            )
