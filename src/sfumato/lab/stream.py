"""A stream over a table: what it would cost, the ticks that were released, and the next ones."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato import viz
from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.quote import Quote
from sfumato.curator.question.description import describe_aggregate
from sfumato.curator.question.measurement import CountOf, DistinctUnits, MeanOf, SumOf
from sfumato.curator.streams.door import StreamDoor
from sfumato.curator.streams.plan import NEEDS, ResolvedStream, measure_error, price_stream
from sfumato.curator.streams.records import add_record
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.online.combined_ticks import combine_ticks, find_deviations
from sfumato.privacy.exact import parse_interval_level, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.streams.plan import StreamPlan, StreamQuestion
    from sfumato.noise import RunningSums
    from sfumato.privacy.exact import Number


_SHOWN = 3
"""Ticks and groups that are shown where a stream is printed."""


class TableStream:
    """A stream over a table, for one analyst. Nothing is charged before its first tick is released.

    `quote()` says what all ticks cost together, `run()` releases those that are complete, in order, and
    `values()` gives what was released, which is free.
    """

    def __init__(
        self,
        payer: Payer,
        asked: tuple[StreamQuestion, str],
        spending: Spending,
        typed: dict[str, Any] | None = None,
        within: tuple[Callable[[str], Table], TableStream | None] | None = None,
    ) -> None:
        """Make a stream. `within` says where its table is looked up, and which block came before it."""
        if payer.slots is not None:
            raise PolicyError(
                "SF-Q191",
                "Streams are not released in a hostile session.",
                why="a tick is read and kept in the lab's own process",
                try_="the steward runs the stream; what was released can be published",
            )
        self._payer, self._typed, self._spending = payer, typed, spending
        self._question, self._text = asked
        self._find_table, self._earlier = within or (payer.lab.table, None)
        self._released: list[tuple[int, ...]] = []
        self._begun: RunningSums | None = None
        # What no price could answer is refused now.
        self._make_plan()

    # ---- before ----

    def quote(self) -> Quote:
        """Return the price of all ticks together, and the expected error. Nothing is charged or read."""
        plan = self._make_plan()
        return Quote(plan, self._payer.standing(plan), _describe_error(plan))

    # ---- releasing ----

    def run(self, ticks: int | None = None) -> TableStream:
        """Release the ticks that are complete and were not released yet, or at most so many of them.

        The first call charges for all ticks of the stream, durably, before any row is read. A tick without
        rows is released too. Rows that arrive after their tick was released are not counted.
        """
        most = None if ticks is None else parse_whole(ticks, "ticks")
        self._release(most)
        return self

    def next(self) -> Any:
        """Release the next tick and return its values; refuse if it is not complete."""
        if not self._release(1):
            raise self._not_ready_error()
        return self.values()[-1]

    # ---- what was released ----

    @property
    def text(self) -> str:
        """What is asked, for people."""
        return self._text

    @property
    def table(self) -> str:
        """The table that the stream follows."""
        return self._resolve().table.name

    @property
    def request(self) -> str:
        """The identity of the stream."""
        return self._make_plan().request

    @property
    def horizon(self) -> int:
        """The number of ticks that the charge is for."""
        return self._question.horizon

    @property
    def tick(self) -> int:
        """Number of ticks released so far."""
        return len(self._sums())

    def ticks(self) -> list[Any]:
        """Return what the released ticks stand for: when each starts, or its number."""
        resolved = self._resolve()
        return [resolved.show_tick(tick) for tick in range(self.tick)]

    @property
    def groups(self) -> list[tuple[Any, ...]]:
        """The groups, in the order of the columns of `values`."""
        found: list[tuple[Any, ...]] = [()]
        for key in self._resolve().keys:
            found = [(*group, value) for group in found for value in key.show_values()]
        return found

    def values(self, window: int | None = None, decay: Number | None = None) -> NDArray[Any]:
        """Return what was released so far at every tick: one number, or one for each group.

        With a window it is over the last ticks only; with a decay every earlier tick counts so many times as
        much as the next. Both are computed from what was released and cost nothing.
        """
        return self._shape(self._value_of(self._parts(combine_ticks(self._sums(), window, decay))))

    def half_widths(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> NDArray[np.float64]:
        """Return the half-widths of their intervals, tick by tick.

        Those of means are for both parts at once, and at least as wide as need be.
        """
        sums, deviations = self._sums(), self._deviations(window, decay)
        resolved = self._resolve()
        if not isinstance(resolved.question.measure, MeanOf):
            factor = NormalDist().inv_cdf((1 + parse_interval_level(confidence)) / 2)
            return factor * deviations * float(resolved.summands[0].step)
        parts = self._parts(combine_ticks(sums, window, decay))
        level = 1 - (1 - parse_interval_level(confidence)) / 4
        half = NormalDist().inv_cdf(level) * deviations[:, None]
        return self._shape(self._mean_half_widths(parts, half))

    def plot(
        self, confidence: Number = 0.95, window: int | None = None, decay: Number | None = None
    ) -> viz.Chart:
        """Return a chart of the values and their intervals over the ticks; of groups, of the first one."""
        values, half = self.values(window, decay), self.half_widths(confidence, window, decay)
        if not len(values):
            raise UsageError("SF-N606", "No tick has been released yet.", try_="run()")
        first = values.reshape(len(values), -1)[:, 0].astype(float)
        wide = half.reshape(len(values), -1)[:, 0]
        shown = [str(tick) for tick in self.ticks()]
        return viz.bars(shown, first, first - wide, first + wide, title=self._text, x="tick")

    def headings(self) -> list[str]:
        """Return the names of the columns of `list_rows` after the tick."""
        return [
            ", ".join(map(str, group)) or describe_aggregate(self._question.measure) for group in self.groups
        ]

    def list_rows(self, window: int | None = None, decay: Number | None = None) -> list[tuple[str, ...]]:
        """Return each tick and its values with half of a 95 % interval, as texts."""
        values, half = self.values(window, decay), self.half_widths(window=window, decay=decay)
        if not len(values):
            return []
        wide = np.broadcast_to(half.reshape(len(half), -1), values.reshape(len(half), -1).shape)
        rows = zip(self.ticks(), values.reshape(len(half), -1), wide, strict=True)
        return [
            (
                str(tick),
                *(
                    f"{format_number(value, 6)} ± {format_number(each, 3)}"
                    for value, each in zip(shown, ends, strict=True)
                ),
            )
            for tick, shown, ends in rows
        ]

    def to_dict(self, window: int | None = None, decay: Number | None = None) -> dict[str, Any]:
        """Return the stream and all that it has released, ready for JSON."""
        values = self.values(window, decay)
        return {
            "stream": self.request[:12],
            "question": self._text,
            "horizon": self.horizon,
            "ticks": [str(tick) for tick in self.ticks()],
            "groups": [[str(part) for part in group] for group in self.groups],
            "values": values.tolist(),
            "half_widths": self.half_widths(window=window, decay=decay).tolist(),
        }

    def __str__(self) -> str:
        released = f"{self.tick:,} of {self.horizon:,} ticks released"
        lines = [f"{self._text}; {released}, {self._make_plan().charged} for {self._paid_for}"]
        if len(self.groups) <= _SHOWN:
            lines += [f"  {'  '.join(row)}" for row in self.list_rows()[-_SHOWN:]]
        return "\n".join(lines)

    __repr__ = __str__

    # ---- parts ----

    _paid_for = "all of them"

    def _resolve(self) -> ResolvedStream:
        return ResolvedStream(self._find_table, self._question)

    def _make_plan(self) -> StreamPlan:
        resolved = self._resolve()
        return price_stream(resolved, self._payer.spend(resolved.table, NEEDS, self._spending))

    def _release(self, most: int | None) -> int:
        done = self.open_door().release_ticks(most)
        self._note()
        return done

    def _note(self) -> None:
        """List a stream that something was released of."""
        if self._typed is not None and self.tick:
            add_record(self._payer.lab.streams_folder, self.request, {**self._typed, **self._spending})

    def open_door(self) -> StreamDoor:
        """Return what charges, reads and releases."""
        earlier = None if self._earlier is None else self._earlier.open_door()
        return StreamDoor(self._payer, self._make_plan(), self._text, earlier)

    def _deviations(self, window: int | None, decay: Number | None) -> NDArray[np.float64]:
        """Return the standard deviations of the sums that `values` shows."""
        sums = self._sums()
        if self._begun is None:
            return np.zeros(0)
        return find_deviations(self._begun, len(sums), window, decay)

    def _sums(self) -> NDArray[Any]:
        """Return the sums that were released; what was seen once is not looked up again."""
        door = self.open_door()
        self._begun = door.find_mechanism()
        while self._begun is not None and (tick := door.find_tick(len(self._released))) is not None:
            self._released.append(tick.sums)
        return _as_array(self._released) if self._released else self._no_sums()

    def _no_sums(self) -> NDArray[Any]:
        resolved = self._resolve()
        return np.zeros((0, resolved.cells * len(resolved.summands)), dtype=np.int64)

    def _parts(self, sums: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sums by tick, summand and cell, without their weights."""
        resolved = self._resolve()
        shaped = sums.astype(np.float64).reshape(len(sums), len(resolved.summands), resolved.cells)
        return np.asarray(shaped / np.array(resolved.weights, dtype=np.float64)[:, None])

    def _value_of(self, parts: NDArray[np.float64]) -> NDArray[Any]:
        resolved = self._resolve()
        first = resolved.summands[0]
        if isinstance(resolved.question.measure, MeanOf):
            # A number below one has drowned in noise; the range is known.
            apart = np.clip(parts[:, 0] / np.maximum(parts[:, 1], 1), -first.bound, first.bound)
            return np.asarray((first.centre + apart) * float(first.step))
        return np.asarray(parts[:, 0] * float(first.step))

    def _mean_half_widths(self, parts: NDArray[np.float64], half: NDArray[Any]) -> NDArray[np.float64]:
        resolved = self._resolve()
        first = resolved.summands[0]
        weights = resolved.weights
        least = np.maximum(parts[:, 1] - half / weights[1], 1)
        most = np.maximum(parts[:, 1] + half / weights[1], 1)
        middle = np.clip(parts[:, 0] / np.maximum(parts[:, 1], 1), -first.bound, first.bound)
        ends = [
            np.clip((parts[:, 0] + sign * half / weights[0]) / count, -first.bound, first.bound)
            for sign in (-1, 1)
            for count in (least, most)
        ]
        return np.asarray(np.max([np.abs(end - middle) for end in ends], axis=0) * float(first.step))

    def _shape(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one number a tick where there are no groups."""
        return values if self._question.keys else values[:, 0]

    def _not_ready_error(self) -> PolicyError:
        if self.tick >= self.horizon:
            return PolicyError(
                "SF-N604",
                "The stream has reached its horizon.",
                ticks=f"{self.horizon:,}",
                try_="a new stream, for a new charge",
            )
        following = self._resolve().show_tick(self.tick)
        return PolicyError(
            "SF-S104",
            "The next tick is not complete yet, as far as the steward has said.",
            tick=str(following),
            try_=f'lab.advance(…, through={{"{self._resolve().time_column}": "{following}"}})',
        )


def _as_array(rows: list[tuple[int, ...]]) -> NDArray[Any]:
    wide = any(abs(each) >= 2**62 for row in rows for each in row)
    return np.array(rows, dtype=object if wide else np.int64)


def _describe_error(plan: StreamPlan) -> SentenceError:
    mechanism, step = plan.mechanism, float(plan.resolved.summands[0].step)
    weight = plan.resolved.weights[0]
    half = mechanism.half_width(plan.resolved.question.horizon, 0.95) * step / weight
    about = "the sum of deviations" if isinstance(plan.resolved.question.measure, MeanOf) else "all so far"
    ticks = f"{plan.resolved.question.horizon:,} ticks"
    return SentenceError(f"± {format_number(half)} at 95 % for {about}, after the last of {ticks}")


def parse_stream(
    table: str, time: str, measure: Any, by: Any, where: str | None, start: Any, **limits: int | None
) -> tuple[StreamQuestion, str]:
    """Return what was typed as a question, and as a text for people."""
    from sfumato.curator.question.relation import Alias, BaseTable, Filter, Relation
    from sfumato.curator.streams.plan import StreamQuestion as Question
    from sfumato.queries.aggregations import parse_column, require_name

    name = require_name(table)
    rows: Relation = Alias(BaseTable(name), name)
    if where is not None:
        from sfumato.queries.sql import parse_condition_text

        rows = Filter(rows, parse_condition_text(where))
    asked = parse_measure(measure, name)
    if not isinstance(asked, CountOf | SumOf | MeanOf | DistinctUnits):
        raise measure_error()
    keys = [by] if isinstance(by, str) else list(by)
    numbers = {key: None if each is None else parse_whole(each, key) for key, each in limits.items()}
    question = Question(
        rows,
        parse_column(time),
        asked,
        start=_parse_start(start),
        keys=tuple(map(parse_column, keys)),
        **cast("dict[str, Any]", numbers),
    )
    text = f"{describe_aggregate(asked)} of {name} over {time}"
    text += f" by {', '.join(keys)}" if keys else ""
    return question, text + (f" where {where}" if where else "")


def parse_measure(measure: Any, table: str) -> Any:
    """Return an aggregate that was typed as sf.count() or as SQL, COUNT(*)."""
    if not isinstance(measure, str):
        return measure
    from sfumato.queries.sql import parse_question

    asked = parse_question(f'SELECT {measure} AS value FROM "{table}"')  # noqa: S608  parsed, never run
    if len(asked.outputs) != 1 or asked.keys:
        raise measure_error()
    return asked.outputs[0].shows


def _parse_start(start: Any) -> Any:
    from datetime import date

    from sfumato.privacy.exact import parse_exact

    return start if start is None or isinstance(start, str | date) else parse_exact(start, "start")
