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
from sfumato.curator.answers.post_processing import compute_interval
from sfumato.curator.answers.row_functions import MONOTONE, apply_function
from sfumato.curator.answers.stage_types import arrow_kind, infer_kinds, kind_of_arrow
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
from sfumato.curator.question.measurement import Arithmetic, GroupKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.noise_law import Ends
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.derived import AnswerOrder, AnswerStage, Derived
    from sfumato.curator.question.measurement import Figure, Output

    Column = list[Any]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows of an answer: its columns, and of which groups of the first answer the rows are."""

    columns: list[Column]
    origin: list[int] | None
    """Places among the groups that were released; None where several were put together."""

    @property
    def size(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def take(self, rows: Sequence[int]) -> StagedRows:
        """Return some of the rows, in this order."""
        origin = None if self.origin is None else [self.origin[at] for at in rows]
        return StagedRows([[column[at] for at in rows] for column in self.columns], origin)


def run_stages(stages: Sequence[AnswerStage], rows: StagedRows) -> StagedRows:
    """Return what is left after all stages, one after the other."""
    for stage in stages:
        rows = _run_stage(stage, rows)
    return rows


def _run_stage(stage: AnswerStage, rows: StagedRows) -> StagedRows:
    if stage.where is not None:
        rows = rows.take(_true_rows(_Evaluation(rows).compute(stage.where)))
    found = _put_together(stage, rows) if stage.totals else _Evaluation(rows)
    if stage.having is not None:
        found = found.take(_true_rows(found.compute(stage.having)))
    if stage.qualify is not None:
        chosen = _true_rows(found.compute(stage.qualify))
        shown = StagedRows([found.compute(each) for _, each in stage.outputs], found.rows.origin).take(chosen)
        order = [_take_column(found.sorter(each), chosen) for each in stage.order]
    else:
        shown = StagedRows([found.compute(each) for _, each in stage.outputs], found.rows.origin)
        order = [found.sorter(each) for each in stage.order]
    kept = sort_rows(_distinct_rows(shown) if stage.distinct else range(shown.size), order)
    end = None if stage.limit is None else stage.offset + stage.limit
    return shown.take(kept[stage.offset : end])


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
    totals = {}
    asked = [part for _, part in stage.outputs] + [part.by for part in stage.order]
    for total in {part for node in (*asked, stage.having) if node is not None for part in _totals_of(node)}:
        values = [1] * rows.size if total.argument is None else each.compute(total.argument)
        totals[total] = [
            compute_total(total.function, [values[at] for at in group]) for group in groups.values()
        ]
    # A group's keys are those of its first row; without any row, everything but totals is missing.
    first = [[column[group[0]] if group else None for group in groups.values()] for column in rows.columns]
    return _Evaluation(StagedRows(first or [[None] * len(groups)], None), totals)


def _totals_of(node: Derived) -> set[AnswerTotal]:
    if isinstance(node, AnswerTotal):
        return {node}
    return set().union(*map(_totals_of, list_parts(node)))


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Computes values of rows; each part that is a window or a total is computed once."""

    rows: StagedRows
    totals: dict[AnswerTotal, Column] = field(default_factory=dict)
    _known: dict[Any, Column] = field(default_factory=dict)

    def take(self, rows: Sequence[int]) -> _Evaluation:
        totals = {total: [column[at] for at in rows] for total, column in self.totals.items()}
        return _Evaluation(self.rows.take(rows), totals)

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


# ---- intervals ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StagedIntervals:
    """Finds where the exact values of columns lie that are computed from single groups of an answer."""

    plan: QuestionPlan
    noisy: NoisyAnswer
    outputs: tuple[Output, ...]
    """The columns of the first answer."""

    def find(
        self, stages: Sequence[AnswerStage], rows: StagedRows, place: int, confidence: float
    ) -> Ends | None:
        """Return the ends of a column after all stages, or None where nothing is known of them."""
        node: Derived | None = stages[-1].outputs[place][1]
        for earlier in reversed(stages[:-1]):
            node = None if node is None else _inline(node, [each for _, each in earlier.outputs])
        if node is None or rows.origin is None or any(stage.totals for stage in stages):
            return None
        if has_part(node, AnswerWindow, AnswerTotal):
            return None
        return self._ends(node, self.noisy.take(rows.origin), confidence)

    def _ends(self, node: Derived, noisy: NoisyAnswer, confidence: float) -> Ends | None:
        figure = self._figure(node)
        if figure is not None:
            return compute_interval(self.plan, figure, noisy, confidence)
        if (
            isinstance(node, AnswerCall)
            and node.function in MONOTONE
            and not any(map(list_columns, node.arguments[1:]))
        ):
            inner = self._ends(node.arguments[0], noisy, confidence)
            more = tuple(
                _plain(each.value) for each in node.arguments[1:] if isinstance(each, AnswerConstant)
            )
            return None if inner is None else (_apply(node, inner[0], more), _apply(node, inner[1], more))
        return None

    def _figure(self, node: Derived) -> Figure | None:
        """Return a value as arithmetic of aggregates, if it is that."""
        match node:
            case AnswerColumn(place):
                shown = self.outputs[place].shows
                return None if isinstance(shown, GroupKey) else shown
            case AnswerConstant(Fraction() as number):
                return number
            case AnswerCall("+" | "-" | "*" | "/" as sign, (one, other)):
                left, right = self._figure(one), self._figure(other)
                return None if left is None or right is None else Arithmetic(sign, left, right)
        return None


def _apply(node: AnswerCall, ends: Any, more: tuple[Any, ...]) -> Any:
    shown = (apply_function(node.function, (end, *more)) if end == end else None for end in ends.tolist())
    return np.array([np.nan if each is None else each for each in shown], dtype=np.float64)


def _inline(node: Derived, outputs: Sequence[Derived]) -> Derived | None:
    """Return a value in terms of the stage before; None where a window's rows would be other ones."""
    if has_part(node, AnswerWindow, AnswerTotal):
        return None
    match node:
        case AnswerColumn(place):
            return outputs[place]
        case AnswerCall(_, arguments):
            parts = [_inline(each, outputs) for each in arguments]
            known = tuple(each for each in parts if each is not None)
            return replace(node, arguments=known) if len(known) == len(parts) else None
        case AnswerConstant():
            return node
    return None


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
        self, plan: QuestionPlan, noisy: NoisyAnswer, released: dict[str, Any], types: dict[str, Any]
    ) -> None:
        question = plan.question
        self._plan, self._noisy, self._stages = plan, noisy, question.then
        self._names = question.names
        first = StagedRows([read_column(released[each.name]) for each in question.outputs], None)
        self._rows = run_stages(self._stages, replace(first, origin=list(range(first.size))))
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
            noisy = [_is_noisy(node, noisy) for _, node in stage.outputs]
        return [name for name, each in zip(self._names, noisy, strict=True) if not each]

    def intervals(self, confidence: float) -> dict[str, Ends]:
        """Return the interval of each noisy number; not a number where none is known."""
        found: dict[str, Ends] = {}
        known = StagedIntervals(self._plan, self._noisy, self._plan.question.outputs)
        none = np.full(self._rows.size, np.nan)
        for place, name in enumerate(self._names):
            if name not in self.labels and str(self.types[name]) in ("int64", "double"):
                ends = known.find(self._stages, self._rows, place, confidence)
                found[name] = (none, none) if ends is None else ends
        return found

    @property
    def without_interval(self) -> list[str]:
        """Names of the noisy columns of which no interval is known."""
        known = [name for name, (low, _) in self.intervals(0.95).items() if not np.isnan(low).all()]
        return [name for name in self._names if name not in known and name not in self.labels]


def _is_noisy(node: Derived, noisy: Sequence[bool]) -> bool:
    return has_part(node, AnswerWindow, AnswerTotal) or any(noisy[place] for place in list_columns(node))


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
