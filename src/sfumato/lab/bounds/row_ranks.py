"""How many rows most units have: looked for among few candidates, and never among a million numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.results import ChosenRange, Receipt
from sfumato.curator.gate import decode_answer
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.question.measurement import QuantileOf
from sfumato.curator.question.relation import Alias, Filter, Name, UnitRowCounts
from sfumato.errors import PolicyError
from sfumato.lab.bounds.choosing import RowsChoice
from sfumato.privacy.bound_choice import choose

if TYPE_CHECKING:
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.question.measurement import Question
    from sfumato.curator.question.relation import Relation
    from sfumato.ledger import Released


def ranks_all_rows(question: Question) -> bool:
    """Return whether a question asks for an upper quantile of all that `rows` of units() could be."""
    asked = (each for each in question.aggregates if isinstance(each, QuantileOf))
    return _counts_rows(question.relation) and any(
        _is_rows(each.of) and each.share > Fraction(1, 2) for each in asked
    )


def unbounded_ranks_error() -> PolicyError:
    """Return the refusal of such a quantile. Nothing was charged."""
    return PolicyError(
        "SF-Q215",
        "An upper quantile of all numbers of rows that a unit could have would be decided by noise.",
        why="a unit could have a million rows, and few units lie above the quantile",
        try_='s.table("visits").units().bounds("rows", keep=0.95), or LEAST(rows, 50) in place of rows',
    )


def counts_rows_of_units(question: Question) -> bool:
    """Return whether bounds are asked for the rows of units."""
    asked = [each.of for each in question.aggregates if isinstance(each, QuantileOf)]
    return _counts_rows(question.relation) and all(map(_is_rows, asked))


def ask_row_bound(payer: Payer, question: Question, text: str) -> Measure[ChosenRange]:
    """Return the question for the least number of rows that the wished share of units does not exceed."""
    keep = 1 - 2 * min(each.share for each in question.aggregates if isinstance(each, QuantileOf))
    rows = RowsChoice(choose(epsilon=1, keep=keep))  # what is spent is said when it is released

    def plan(spending: Spending) -> QuestionPlan:
        counted = replace(rows.make_question(""), relation=question.relation)
        resolved = ResolvedQuestion(payer.lab.table, counted)
        if resolved.is_empty:
            raise PolicyError(
                "SF-Q210", "By the declared bounds no unit is in this question.", try_="another condition"
            )
        return price_question(resolved, payer.spend(resolved.table, resolved.needs, spending))

    def read(plan: QuestionPlan, released: Released) -> ChosenRange:
        noise = plan.measured_alone[0].noise
        if noise is None:
            raise AssertionError(plan)
        counts = decode_answer(released.answer)[0][0]
        found = rows.pick(counts, noise)
        if found is None:
            raise PolicyError(
                "SF-Q211",
                "The noise hides how many rows units have.",
                charged="yes: the counts were released, and what was charged stays charged",
                why=f"no count of units stands out of the noise: {', '.join(map(str, counts))}",
                try_="a larger epsilon",
            )
        return ChosenRange(1, int(found[0][0]), Receipt.of(plan, released))

    return Measure(payer, text, plan, read, _row_bound_error)


def _row_bound_error(plan: QuestionPlan, spending: Spending) -> SentenceError:
    noise = plan.measured_alone[0].noise
    off = 0 if noise is None else noise.half_width(0.95)
    return SentenceError(f"each count of units is off by {off:,} at 95 %; refused where all are smaller")


def _counts_rows(relation: Relation) -> bool:
    while isinstance(relation, Alias | Filter):
        relation = relation.of
    return isinstance(relation, UnitRowCounts)


def _is_rows(value: object) -> bool:
    return isinstance(value, Name) and value.column.casefold() == "rows"
