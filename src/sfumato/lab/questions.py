"""What a frame asks for once it is complete: each kind of question, for one analyst."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.ordered.cumulative_curve import CumulativeCurve
from sfumato.curator.answers.ordered.rank_error import rank_error
from sfumato.curator.answers.results import ChosenRange, ChosenValues, NoisyFigure, Receipt
from sfumato.curator.catalog.description import ColumnDescription, describe_domain, describe_table
from sfumato.curator.catalog.domains import FreeTexts, Listed
from sfumato.curator.gate import decode_answer
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import require_number
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.plan.curve import MOST_POINTS, curve_needs, plan_curve
from sfumato.curator.plan.distances import plan_distance
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.selections import plan_subsample, plan_top, require_listed
from sfumato.curator.plan.spend import Needs, PureSpend
from sfumato.curator.plan.steps import Choices
from sfumato.curator.plan.work import MOST_SCANS
from sfumato.curator.question.measurement import (
    CountOf,
    DistinctUnits,
    GroupKey,
    Output,
    Question,
    SortKey,
)
from sfumato.curator.question.relation import Alias, BaseTable, Comparison, Filter, Literal, Name
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.lab.bounds.row_ranks import ranks_all_rows, unbounded_ranks_error
from sfumato.lab.partition import Partition
from sfumato.lab.query import Query
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.description import TableDescription
    from sfumato.curator.catalog.domains import Numbers, Periods
    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.curve import CurvePlan
    from sfumato.curator.plan.distances import Distance, Property
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.plan.selections import BlockEstimates, BlockQuantiles, Top
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.measurement import Aggregate
    from sfumato.curator.question.relation import Expression, Relation
    from sfumato.ledger import Released
    from sfumato.queries.frames import Frame

    Tables = Callable[[str], Table]
    TopPlan = Plan[Top, Listed | Numbers | Periods]
    BlockPlan = Plan[BlockQuantiles | BlockEstimates, Numbers | Periods]

_ONE_CHOICE = Needs((), choices=1)
_USUAL = Fraction(95, 100)
"""The confidence of errors that are said in a sentence."""


@dataclass(frozen=True, slots=True)
class FrameQuestions:
    """Makes what a frame's last step gives. Names are looked up whenever a price is made."""

    payer: Payer

    def question(self, question: Question, text: str) -> Query:
        """Return the question for numbers of each group."""
        return Query(self.payer, question, text)

    def top(
        self, relation: Relation, column: Expression, k: int, by_units: bool, text: str
    ) -> Measure[ChosenValues]:
        """Return the question for the most frequent values of a column."""
        places, source = parse_whole(k, "k"), self._rows(relation)
        if isinstance(lower_expression(column, source.scope).domain, FreeTexts):
            found = self._top_discovered(source, relation, column, places, by_units, text)
            return cast("Measure[ChosenValues]", found)
        require_listed(source, column)

        def plan(spending: Spending) -> TopPlan:
            rows = self._rows(relation)
            return plan_top(rows, column, places, by_units, self._one_choice(rows, spending))

        return Measure(self.payer, text, plan, _read_top, _top_error)

    def _top_discovered(
        self, source: RowSource, relation: Relation, column: Expression, k: int, by_units: bool, text: str
    ) -> Query:
        """Return the question for groups that are discovered, of which those with most rows are shown."""
        unit = source.table.unit.column
        number = DistinctUnits(Name(unit)) if by_units and unit is not None else CountOf()
        shown = (Output("value", GroupKey(0)), Output("count", number))
        question = Question(relation, (column,), shown, order=(SortKey(number, descending=True),), limit=k)
        return Query(self.payer, question, text)

    def declared_ends(self, relation: Relation, column: Expression) -> tuple[Fraction, Fraction] | None:
        """Return the bounds of a number; None where values are listed."""
        part = lower_expression(column, self._rows(relation).scope)
        if isinstance(part.domain, Listed):
            return None
        domain = require_number(part, "The column of a histogram")[1]
        return domain.value_at(domain.low), domain.value_at(domain.high)

    def distance(self, relation: Relation, wanted: Property, text: str) -> Measure[NoisyFigure]:
        """Return the question for how few units must change until a property holds."""

        def plan(spending: Spending) -> Plan[Distance, None]:
            rows = self._rows(relation)
            return plan_distance(rows, wanted, self._one_choice(rows, spending))

        return Measure(self.payer, text, plan, _read_distance, _distance_error)

    def subsample(
        self, relation: Relation, aggregate: Aggregate, blocks: int, text: str
    ) -> Measure[NoisyFigure]:
        """Return the question for the private middle of a statistic of blocks of units."""
        parts = parse_whole(blocks, "blocks")

        def plan(spending: Spending) -> BlockPlan:
            rows = self._rows(relation)
            return plan_subsample(rows, aggregate, parts, self._one_choice(rows, spending))

        return Measure(self.payer, text, plan, _read_blocks, _blocks_error)

    def bounds(self, question: Question, text: str) -> Measure[ChosenRange]:
        """Return the question for bounds that most rows lie within."""
        if ranks_all_rows(question):
            raise unbounded_ranks_error()

        def plan(spending: Spending) -> QuestionPlan:
            resolved = ResolvedQuestion(self.payer.lab.table, question)
            return price_question(
                resolved, self.payer.spend(resolved.table, resolved.needs, spending), counts_around=False
            )

        return Measure(self.payer, text, plan, _read_bounds, _bounds_error)

    def curve(
        self, relation: Relation, column: Expression, points: int, text: str
    ) -> Measure[CumulativeCurve]:
        """Return the question for how many rows lie up to each value of a column."""
        if parse_whole(points, "points") > MOST_POINTS:
            raise PolicyError("SF-Q158", f"A curve has at most {MOST_POINTS:,} points.", try_="points=256")
        plan_curve(self._rows(relation), column, points, PureSpend(Fraction(1)))  # refused here, if at all

        def plan(spending: Spending) -> CurvePlan:
            rows = self._rows(relation)
            spend = self.payer.spend(rows.table, curve_needs(rows, column, points), spending)
            return plan_curve(rows, column, points, spend)

        return Measure(self.payer, text, plan, partial(_read_curve, str(column)), _curve_error)

    def partition(self, frame: Frame[Query, Partition], name: str, column: Expression) -> Partition:
        """Return the rows of a frame by the value of a listed column."""
        domain = require_listed(self._rows(frame.relation), column)[1]
        # Every part is asked for by a question of its own, which reads the table.
        if domain.size > MOST_SCANS:
            raise PolicyError(
                "SF-Q113",
                f"partition() makes at most {MOST_SCANS:,} parts.",
                asked=f"{domain.size:,}",
                try_="FLOOR(age / 10), or group_by",
            )
        literals = [domain.value_at(place) for place in range(domain.low, domain.high + 1)]
        parts = {
            shown: replace(frame, relation=Filter(frame.relation, Comparison(column, "=", Literal(literal))))
            for shown, literal in zip(domain.show_values(), literals, strict=True)
        }
        return Partition(self.payer, name, parts, partial(_copies, frame.relation, column))

    def describe(self, relation: Relation) -> TableDescription:
        """Return what is declared about a table, or follows from that for rows made of tables."""
        rows = self._rows(relation)
        declared = describe_table(rows.table)
        inner = relation
        while isinstance(inner, Filter | Alias):
            inner = inner.of
        if isinstance(inner, BaseTable):
            return declared
        columns = tuple(
            _describe_field(field.name, field.holds)
            for field in rows.scope.fields
            if field.holds is not None and not field.hidden
        )
        return replace(declared, name="This frame", columns=columns, rows=None)

    def _rows(self, relation: Relation) -> RowSource:
        return lower_relation(relation, self.payer.lab.table)

    def _one_choice(self, rows: RowSource, spending: Spending) -> Spend:
        return self.payer.spend(rows.table, _ONE_CHOICE, spending)


def _describe_field(name: str, column: LoweredValue) -> ColumnDescription:
    missing = "none" if column.present else "stay NULL"
    return ColumnDescription(name, *describe_domain(column.domain), missing, column.constant)


def _copies(relation: Relation, column: Expression, tables: Tables) -> int:
    """Return in how many parts neighbours can differ: those of one unit, or of one removed and one added."""
    rows = lower_relation(relation, tables)
    part, domain = require_listed(rows, column)
    units = 1 if rows.table.neighbours is Neighbours.ADD_REMOVE else 2
    return min(units * (1 if part.constant else rows.max_rows), domain.size)


# ---- reading what the ledger released ----------------------------------------------------------------------
# Places are read by the domain in the plan: the steward may have declared another one since.


def _read_top(plan: TopPlan, released: Released) -> ChosenValues:
    shown = plan.subject.show_values()
    values = tuple(shown[place] for place in decode_answer(released.answer)[0])
    return ChosenValues(values, Receipt.of(plan, released))


def _read_distance(plan: Plan[Distance, None], released: Released) -> NoisyFigure:
    value, half = decode_answer(released.answer)[0], _distance_half_width(plan)
    return NoisyFigure(value, max(0, value - half), max(0, value + half), Receipt.of(plan, released))


def _read_blocks(plan: BlockPlan, released: Released) -> NoisyFigure:
    domain = plan.subject
    value = domain.show_value(decode_answer(released.answer)[0] + domain.low)
    return NoisyFigure(value, None, None, Receipt.of(plan, released))


def _read_bounds(plan: QuestionPlan, released: Released) -> ChosenRange:
    domain: Any = plan.resolved.choices[0][0].domain
    (low,), (high,) = decode_answer(released.answer)[0]
    ends = _stretch(domain, low + domain.low, high + domain.low)
    return ChosenRange(*ends, Receipt.of(plan, released))


def _read_curve(column: str, plan: CurvePlan, released: Released) -> CumulativeCurve:
    mechanism, noisy = plan.steps[0].mechanism, decode_answer(released.answer)[0]
    counts = mechanism.estimate([np.array(level) for level in noisy]).estimates
    return CumulativeCurve(column, mechanism, counts, *plan.subject, Receipt.of(plan, released))


def _stretch(domain: Numbers | Periods, low: int, high: int) -> tuple[Any, Any]:
    """Return where the first place begins and where the last ends, within the old bounds; never empty."""
    end = min(high + 1, domain.high)
    return domain.show_value(min(low, end - 1)), domain.show_value(end)


# ---- expected errors ---------------------------------------------------------------------------------------


def _top_error(plan: TopPlan, spending: Spending) -> SentenceError:
    lost = plan.steps[0].mechanism.shortfall(plan.subject.size, _USUAL)
    return SentenceError(f"each choice has at most {lost:,} fewer than the best left, at 95 %")


def _distance_error(plan: Plan[Distance, None], spending: Spending) -> SentenceError:
    return SentenceError(f"± {_distance_half_width(plan)} units at 95 %")


def _distance_half_width(plan: Plan[Distance, None]) -> int:
    return plan.steps[0].noise.half_width(_USUAL)


def _blocks_error(plan: BlockPlan, spending: Spending) -> SentenceError:
    off = float(plan.steps[0].mechanism.rank_error(_USUAL))
    return SentenceError(
        f"at most {format_number(off, 3)} blocks from the middle one, "
        "at 95 %; how much blocks differ is not included"
    )


def _curve_error(plan: CurvePlan, spending: Spending) -> SentenceError:
    mechanism = plan.steps[0].mechanism
    halves = [
        mechanism.half_width(0, edge, _USUAL) for edge in {max(1, mechanism.cells // 2), mechanism.cells}
    ]
    return SentenceError(f"about ± {format_decimal(max(halves), 0)} rows at each value, at 95 %")


def _bounds_error(plan: QuestionPlan, spending: Spending) -> SentenceError:
    step = plan.steps[0]
    if not isinstance(step, Choices):
        raise AssertionError(step)
    low = plan.resolved.choices[0][1][0]
    off = rank_error(step.mechanism, low, step.program.size, 0.95)
    return SentenceError(f"about {format_decimal(off, 0)} rows more or fewer beyond each end, at 95 %")
