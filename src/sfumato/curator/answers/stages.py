"""SELECTs from a released answer: what each column is, where its interval is known, and of which type it is.

Nothing here can see an exact number, so nothing here has a price: docs/proofs/post-processing.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, time
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.intervals import column_type
from sfumato.curator.answers.row_functions import apply_function
from sfumato.curator.answers.stage_types import arrow_kind, infer_kinds, kind_of_arrow
from sfumato.curator.answers.traces import (
    MOST_CELLS_TRACED,
    TRACED_WINDOWS,
    KnownValue,
    TracedFigure,
    TraceIntervals,
    trace_call,
    trace_window,
)
from sfumato.curator.answers.windows import compute_total, compute_window, sort_rows, split_parts
from sfumato.curator.question.derived import (
    AnswerCall,
    AnswerCase,
    AnswerColumn,
    AnswerConstant,
    AnswerTotal,
    AnswerWindow,
    has_part,
    list_columns,
    list_parts,
)
from sfumato.curator.question.measurement import GroupKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.noise_law import Ends
    from sfumato.curator.answers.traces import Trace
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.derived import AnswerOrder, AnswerStage, Derived

    Column = list[Any]
    Traces = list[Trace | None]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows of an answer: its columns, and where their values come from."""

    columns: list[Column]
    traces: list[Traces] | None = None
    """The trace of each value, column by column; None where no intervals are asked for."""
    chosen: bool = False
    """Whether noise decided which rows there are."""

    @property
    def size(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def take(self, rows: Sequence[int]) -> StagedRows:
        """Return some of the rows, in this order."""
        traces = None if self.traces is None else [[each[at] for at in rows] for each in self.traces]
        return StagedRows([[column[at] for at in rows] for column in self.columns], traces, self.chosen)


def run_stages(stages: Sequence[AnswerStage], rows: StagedRows) -> StagedRows:
    """Return what is left after all stages, one after the other."""
    for stage in stages:
        rows = _run_stage(stage, rows)
    return rows


def _run_stage(stage: AnswerStage, rows: StagedRows) -> StagedRows:
    if stage.where is not None:
        before = _Evaluation(rows)
        rows = before.keep(stage.where).rows
    found = _put_together(stage, rows) if stage.totals else _Evaluation(rows)
    if stage.having is not None:
        found = found.keep(stage.having)
    shown = found.select([each for _, each in stage.outputs])
    order = [found.sorter(each) for each in stage.order]
    if stage.qualify is not None:
        chosen = _true_rows(found.compute(stage.qualify))
        noisy = not found.is_known(stage.qualify)
        shown = replace(shown, chosen=shown.chosen or noisy).take(chosen)
        order = [_take_column(each, chosen) for each in order]
    kept = sort_rows(_distinct_rows(shown) if stage.distinct else range(shown.size), order)
    if stage.limit is None and not stage.offset:
        return shown.take(kept)
    noisy = not all(found.is_known(each.by) for each in stage.order)
    end = None if stage.limit is None else stage.offset + stage.limit
    return replace(shown, chosen=shown.chosen or noisy).take(kept[stage.offset : end])


def _take_column(sorter: tuple[Column, bool, bool], rows: Sequence[int]) -> tuple[Column, bool, bool]:
    return [sorter[0][at] for at in rows], sorter[1], sorter[2]


def _true_rows(truths: Column) -> list[int]:
    return [at for at, truth in enumerate(truths) if truth is True]


def _distinct_rows(rows: StagedRows) -> list[int]:
    first: dict[tuple[Any, ...], int] = {}
    for at in range(rows.size):
        first.setdefault(tuple(column[at] for column in rows.columns), at)
    return list(first.values())


def _put_together(stage: AnswerStage, rows: StagedRows) -> _Evaluation:
    """Return one row for each combination of the keys, with totals over the rows that have it."""
    each = _Evaluation(rows)
    keys = [each.compute(key) for key in stage.keys]
    groups: dict[tuple[Any, ...], list[int]] = {} if keys else {(): list(range(rows.size))}
    for at in range(rows.size) if keys else ():
        groups.setdefault(tuple(column[at] for column in keys), []).append(at)
    totals, sums = {}, {}
    chosen = rows.chosen or not all(map(each.is_known, stage.keys))
    asked = [part for _, part in stage.outputs] + [part.by for part in stage.order]
    for total in {part for node in (*asked, stage.having) if node is not None for part in _totals_of(node)}:
        values = [1] * rows.size if total.argument is None else each.compute(total.argument)
        totals[total] = [
            compute_total(total.function, [values[at] for at in group]) for group in groups.values()
        ]
        if rows.traces is not None:
            traced = _trace_argument(each, total.argument)
            sums[total] = [
                trace_window(total.function, [traced[at] for at in group], chosen=chosen)
                for group in groups.values()
            ]
    # A group's keys are those of its first row; without any row, everything but totals is missing.
    first = [[column[group[0]] if group else None for group in groups.values()] for column in rows.columns]
    traces = None
    if rows.traces is not None:
        heads = [group[0] if group else None for group in groups.values()]
        traces = [[None if at is None else column[at] for at in heads] for column in rows.traces]
        traces = traces or [[None] * len(groups)]
    return _Evaluation(StagedRows(first or [[None] * len(groups)], traces, chosen), totals, sums)


def _trace_argument(each: _Evaluation, argument: Derived | None) -> Traces:
    """Return the traces of what is put together; none where a value is missing, which noise may decide."""
    if argument is None:
        return [KnownValue(1)] * each.rows.size
    pairs = zip(each.compute(argument), each.trace(argument), strict=True)
    return [None if value is None else trace for value, trace in pairs]


def _totals_of(node: Derived) -> set[AnswerTotal]:
    if isinstance(node, AnswerTotal):
        return {node}
    return set().union(*map(_totals_of, list_parts(node)))


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Computes values of rows; each part that is a window or a total is computed once."""

    rows: StagedRows
    totals: dict[AnswerTotal, Column] = field(default_factory=dict)
    traced: dict[AnswerTotal, Traces] = field(default_factory=dict)
    """The trace of each total, where intervals are asked for."""
    _known: dict[Any, Column] = field(default_factory=dict)
    _traces: dict[Any, Traces] = field(default_factory=dict)

    def keep(self, condition: Derived) -> _Evaluation:
        """Return the rows for which a condition is true."""
        rows, noisy = _true_rows(self.compute(condition)), not self.is_known(condition)
        totals, traced = (
            {total: [column[at] for at in rows] for total, column in each.items()}
            for each in (self.totals, self.traced)
        )
        kept = replace(self.rows, chosen=self.rows.chosen or noisy).take(rows)
        return _Evaluation(kept, totals, traced)

    def select(self, nodes: Sequence[Derived]) -> StagedRows:
        """Return rows of these values."""
        traces = None if self.rows.traces is None else [self.trace(node) for node in nodes]
        return StagedRows([self.compute(node) for node in nodes], traces, self.rows.chosen)

    def is_known(self, node: Derived) -> bool:
        """Say whether no noise is in a value of any row; without traces nothing is asked of them."""
        return self.rows.traces is None or all(isinstance(each, KnownValue) for each in self.trace(node))

    def sorter(self, order: AnswerOrder) -> tuple[Column, bool, bool]:
        return self.compute(order.by), order.descending, order.nulls_first

    def compute(self, node: Derived) -> Column:
        if node not in self._known:
            self._known[node] = self._learn(node)
        return self._known[node]

    def _learn(self, node: Derived) -> Column:
        match node:
            case AnswerColumn(place):
                return self.rows.columns[place]
            case AnswerConstant(value):
                return [_plain(value)] * self.rows.size
            case AnswerTotal():
                return self.totals[node]
            case AnswerCall("/", (left, right)) if list_columns(right):
                # A noisy divisor near zero may be anything: the quotient is unknown there, not huge.
                pairs = zip(self.compute(left), self.compute(right), strict=True)
                return [
                    apply_function("/", pair) if pair[1] is None or pair[1] > 0 else None for pair in pairs
                ]
            case AnswerCall(function, arguments):
                values = [self.compute(each) for each in arguments]
                return [apply_function(function, each) for each in zip(*values, strict=True)]
            case AnswerCase():
                return self._choose(node)
            case AnswerWindow():
                partition = [self.compute(each) for each in node.partition]
                order = [self.sorter(each) for each in node.order]
                parts = split_parts(self.rows.size, partition, order, node.frame)
                arguments_ = [self.compute(each) for each in node.arguments]
                return compute_window(node.function, arguments_, parts, self.rows.size)

    def trace(self, node: Derived) -> Traces:
        """Return where a value of each row comes from."""
        if node not in self._traces:
            self._traces[node] = self._follow(node)
        return self._traces[node]

    def _follow(self, node: Derived) -> Traces:
        match node:
            case AnswerColumn(place):
                return [] if self.rows.traces is None else self.rows.traces[place]
            case AnswerConstant(value):
                return [KnownValue(_plain(value), constant=True)] * self.rows.size
            case AnswerTotal():
                return self.traced[node]
            case AnswerCall(function, arguments):
                parts = [self.trace(each) for each in arguments]
                return [trace_call(function, each) for each in zip(*parts, strict=True)]
            case AnswerCase():
                return self._follow_case(node)
            case AnswerWindow():
                return self._follow_window(node)

    def _follow_case(self, node: AnswerCase) -> Traces:
        """Where no condition has noise, the branch that is taken decides."""
        if not all(self.is_known(when) for when, _ in node.branches):
            return [None] * self.rows.size
        branches = [(self.compute(when), self.trace(then)) for when, then in node.branches]
        otherwise = self.trace(node.otherwise)
        return [
            next((then[at] for when, then in branches if when[at] is True), otherwise[at])
            for at in range(self.rows.size)
        ]

    def _follow_window(self, node: AnswerWindow) -> Traces:
        sorted_by = [each.by for each in node.order]
        chosen = self.rows.chosen or not all(map(self.is_known, (*node.partition, *sorted_by)))
        partition = [self.compute(each) for each in node.partition]
        order = [self.sorter(each) for each in node.order]
        parts = split_parts(self.rows.size, partition, order, node.frame)
        if not chosen and all(map(self.is_known, node.arguments)):
            return list(map(KnownValue, self.compute(node)))
        argument = _trace_argument(self, node.arguments[0] if node.arguments else None)
        found: Traces = [None] * self.rows.size
        length = sum(end - start for part in parts for start, end in set(part.frames()))
        if node.function not in TRACED_WINDOWS or length > MOST_CELLS_TRACED:
            return found
        for part in parts:
            own = [argument[at] for at in part.rows]
            frames = part.frames()
            # Rows with the same frame share one trace.
            traced = {
                frame: trace_window(node.function, own[slice(*frame)], chosen=chosen) for frame in set(frames)
            }
            for at, frame in zip(part.rows, frames, strict=True):
                found[at] = traced[frame]
        return found

    def _choose(self, node: AnswerCase) -> Column:
        branches = [(self.compute(when), self.compute(then)) for when, then in node.branches]
        otherwise = self.compute(node.otherwise)
        return [
            next((then[at] for when, then in branches if when[at] is True), otherwise[at])
            for at in range(self.rows.size)
        ]


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


# ---- the answer --------------------------------------------------------------------------------------------


def require_types(resolved: ResolvedQuestion) -> None:
    """Refuse what cannot be computed from an answer, before anything is charged."""
    question = resolved.question
    if question.then:
        types = [column_type(resolved, each.shows) for each in question.outputs]
        infer_kinds(question.then, list(map(kind_of_arrow, types)))


class StagedAnswer:
    """What is shown of an answer after all stages: columns, their types, and intervals if any."""

    def __init__(
        self,
        plan: QuestionPlan,
        noisy: NoisyAnswer,
        released: dict[str, Any],
        types: dict[str, Any],
        *,
        chosen: bool = False,
    ) -> None:
        question = plan.question
        self._significant_only, self._chosen = chosen, chosen or question.chooses_groups
        self._plan, self._noisy, self._stages = plan, noisy, question.then
        self._names = question.names
        self._first = StagedRows([read_column(released[each.name]) for each in question.outputs])
        self._rows = run_stages(self._stages, self._first)
        kinds = infer_kinds(self._stages, [kind_of_arrow(types[each.name]) for each in question.outputs])
        self.types = {name: arrow_kind(kind) for name, kind in zip(self._names, kinds, strict=True)}
        self.columns = {
            name: [as_kind(value, kind) for value in column]
            for name, column, kind in zip(self._names, self._rows.columns, kinds, strict=True)
        }

    @cached_property
    def labels(self) -> list[str]:
        """Names of the columns that no noise is in."""
        noisy = [not isinstance(each.shows, GroupKey) for each in self._plan.question.outputs]
        for stage in self._stages:
            noisy = [_is_noisy(node, noisy, self._chosen) for _, node in stage.outputs]
        return [name for name, each in zip(self._names, noisy, strict=True) if not each]

    def intervals(self, confidence: float) -> dict[str, Ends]:
        """Return the interval of each noisy number; not a number where none is known."""
        found: dict[str, Ends] = {}
        traced = self._traced.traces or []
        ends = TraceIntervals(self._plan, self._noisy, confidence)
        for name, traces in zip(self._names, traced, strict=True):
            if name not in self.labels and str(self.types[name]) in ("int64", "double"):
                pairs = [ends.find(trace) for trace in traces]
                low, high = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
                found[name] = low, high
        return found

    @cached_property
    def _traced(self) -> StagedRows:
        """The rows once more, with a trace of each value."""
        question, size = self._plan.question, self._first.size
        traces: list[Traces] = [
            list(map(KnownValue, column))
            if isinstance(output.shows, GroupKey)
            else [TracedFigure(output.shows, (at,)) for at in range(size)]
            for output, column in zip(question.outputs, self._first.columns, strict=True)
        ]
        noisy = question.having is not None or (bool(question.order) and question.limit is not None)
        chosen = self._significant_only or noisy
        return run_stages(self._stages, replace(self._first, traces=traces, chosen=chosen))

    @property
    def without_interval(self) -> list[str]:
        """Names of the noisy columns of which no interval is known."""
        known = [name for name, (low, _) in self.intervals(0.95).items() if not np.isnan(low).all()]
        return [name for name in self._names if name not in known and name not in self.labels]


def _is_noisy(node: Derived, noisy: Sequence[bool], chosen: bool) -> bool:
    """Say whether noise is in a value; where it chose the rows, it is in all that depends on several."""
    several = chosen and has_part(node, AnswerWindow, AnswerTotal)
    return several or any(noisy[place] for place in list_columns(node))


def as_kind(value: Any, kind: str) -> Any:
    """Return a value in the type of its column."""
    if value is None:
        return None
    match kind:
        case "whole":
            return int(value) if abs(value) < 2**63 else None
        case "double" | "null":
            return float(value)
        case "moment":
            return value if isinstance(value, datetime) else datetime.combine(value, time.min)
    return value


def read_column(cells: Any) -> Column:
    """Return a column of an answer as Python's own values, None where one is missing."""
    values = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return [None if value is None or value != value else value for value in values]
