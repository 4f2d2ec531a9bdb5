"""What SQL over a release gives: DuckDB over its groups, with intervals from draws of the noise. It is free.

Because : docs/proofs/post-processing.md#sql-over-an-answer
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.answers.answer import NoisyAnswer
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.post_processing import compute_figure, compute_linear, is_linear
from sfumato.curator.answers.results import only_item
from sfumato.curator.answers.shown_groups import GroupRule
from sfumato.curator.answers.simulated_noise import simulate_noise
from sfumato.curator.plan.caveats import chosen_rows, left_out_groups, without_interval, without_intervals
from sfumato.curator.question.measurement import ChosenAggregate, has_total, list_aggregates
from sfumato.engines.duckdb.answer_sql import Refusal, refuse_over_answer, run_over_answer
from sfumato.engines.duckdb.origins import KNOWN, NOISY, Origin, trace_select
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_cell, format_label, format_measured, format_range, useful_places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.curator.answers.noise_law import Ends, Floats
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.engines.duckdb.origins import TracedSelect
    from sfumato.viz import Chart

SHOWN_ROWS = 20
_LEAST_PRESENT = 0.975
"""Share of the draws in which a row must be there for an interval."""
_ALIKE = 1e-9
_EMPTY = 0.05
"""Hidden groups seem to have rows if fewer of the draws in which they have none look as they do."""


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The groups of a release that SQL over it reads."""

    rows: pa.Table
    origins: Mapping[str, Origin]
    """Which columns hold noise, and which noise can be drawn again."""
    chosen: bool = False
    """Whether noise decides which groups there are, by HAVING or LIMIT."""
    hidden: int = 0
    """Number of groups without a significant count, which are left out."""


@dataclass(frozen=True, slots=True)
class SimulatedRows:
    """An answer as it would be with other noise."""

    rows: pa.Table
    """All groups that may be shown."""
    columns: Mapping[str, Floats]
    """Numbers with other noise, where hidden groups are empty: one row a draw, one column a group."""
    shown: NDArray[np.bool_]
    """Which groups each draw shows."""
    every: Mapping[str, Floats] | None = None
    """Numbers of all groups as they were released, with other noise; None where no group is hidden."""
    missed: bool = False
    """Whether the hidden groups seem to have rows."""


class ComputedAnswer:
    """The result of SQL over a release: a table, with intervals where they are known."""

    def __init__(
        self, table: pa.Table, ends: Mapping[str, Ends], labels: tuple[str, ...], notes: tuple[Caveat, ...]
    ) -> None:
        self._table, self._ends, self._labels, self._notes = table, dict(ends), labels, notes

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Why columns have no interval, and what intervals do not cover."""
        return self._notes

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def item(self) -> Any:
        """Return the only number of a result with one row and one column."""
        return only_item(self._table)

    def to_arrow(self, *, intervals: bool = False) -> pa.Table:
        """Return the result; with `intervals`, a number that has ends is followed by them."""
        import pyarrow as pa

        if not intervals:
            return self._table
        columns: dict[str, Any] = {}
        for name in self.columns:
            columns[name] = self._table.column(name)
            if name in self._ends:
                for side, end in zip(("low", "high"), self._ends[name], strict=True):
                    columns[f"{name}_{side}"] = pa.array(end, pa.float64(), mask=np.isnan(end))
        return pa.table(columns)

    def interval(self) -> pa.Table:
        """Return the columns without noise, and `name_low` and `name_high` of each number that has them."""
        table = self.to_arrow(intervals=True)
        return table.select([name for name in table.column_names if name not in self._numbers])

    @property
    def _numbers(self) -> list[str]:
        return [name for name in self.columns if name not in self._labels]

    def to_pandas(self, *, intervals: bool = False) -> pd.DataFrame:
        """Return the result as a pandas frame."""
        return self.to_arrow(intervals=intervals).to_pandas()

    def to_polars(self, *, intervals: bool = False) -> pl.DataFrame:
        """Return the result as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.to_arrow(intervals=intervals))

    def to_dict(self) -> dict[str, Any]:
        """Return columns, intervals and caveats, ready for JSON."""
        return {
            "columns": self._table.to_pydict(),
            "interval": self.interval().to_pydict(),
            "bias": list(self._notes),
        }

    def plot(self, column: str | None = None) -> Chart:
        """Return a chart of one number, the first if none is named, with error bars if it has any."""
        numbers = [name for name in self._numbers if str(self._table.schema.field(name).type) in _NUMBERS]
        name = next(iter(numbers), "") if column is None else column
        if name not in numbers:
            raise UsageError("SF-N112", f"The answer has no number '{name}'.", numbers=", ".join(numbers))
        values = self._table.column(name).to_pylist()
        low, high = (list(end) for end in self._ends.get(name, (_nulls(values), _nulls(values))))
        known = [at for at, value in enumerate(values) if value is not None]
        bare = any(math.isnan(low[at]) for at in known)
        keys = [self._table.column(each).to_pylist() for each in self._labels]
        return viz.bars(
            [" · ".join(format_label(key[at]) for key in keys) if keys else name for at in known],
            [float(values[at] or 0) for at in known],
            None if bare else [float(low[at]) for at in known],
            None if bare else [float(high[at]) for at in known],
            title=f"{name} by {', '.join(self._labels)}" if keys else name,
            x=", ".join(self._labels),
            y=name,
        )

    # ---- what people see ----

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        columns: list[tuple[str, list[str]]] = []
        for name in self.columns:
            values = self._table.column(name).slice(0, SHOWN_ROWS).to_pylist()
            if name in self._labels:
                columns.append((name, [format_label(value) for value in values]))
            elif name not in self._ends or np.isnan(self._ends[name][0]).all():
                columns.append((name, [format_cell(value) for value in values]))
            else:
                ends = [end[:SHOWN_ROWS].tolist() for end in self._ends[name]]
                rows = list(zip(values, *ends, strict=True))
                places = [useful_places(*row) for row in rows]
                columns.append((name, list(map(format_measured, values, places))))
                ranges = [format_range(a, b, at) for (_, a, b), at in zip(rows, places, strict=True)]
                columns.append(("95 % interval", ranges))
        names, cells = zip(*columns, strict=True)
        return list(names), [list(row) for row in zip(*cells, strict=True)]

    def _lines(self) -> list[str]:
        hidden = len(self) - SHOWN_ROWS
        more = [f"… and {hidden:,} more rows"] if hidden > 0 else []
        return [*more, *self._notes, "Computed from a release: nothing was charged"]

    def __str__(self) -> str:
        header, rows = self._shown()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        sides = [str.ljust if name in self._labels else str.rjust for name in header]
        lines = [
            "  ".join(
                side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)
            ).rstrip()
            for row in [header, *rows]
        ]
        return "\n".join([*lines, "", *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows = self._shown()
        return viz.html_table(header, rows) + "".join(f"<p>{escape(note)}</p>" for note in self._lines())


_NUMBERS = ("int64", "double")


def _nulls(values: list[Any]) -> Floats:
    return np.full(len(values), np.nan)


# ---- draws of the noise ------------------------------------------------------------------------------------

_MOST_GROUPS = 5_000
_MOST_CELLS = 2**17
_LEAST_DRAWS, _MOST_DRAWS = 400, 2_000
"""Draws of the noise: as many as keep the work of small answers below a tenth of a second of DuckDB."""
_CHOICE = "quantiles, minima, maxima and modes are chosen, and their noise is not drawn again"


def find_origins(plan: QuestionPlan) -> dict[str, Origin]:
    """Return which columns of a release hold noise, and which of it can be drawn again."""
    found = dict.fromkeys(plan.question.labels, KNOWN)
    for name, figure in plan.question.figures.items():
        choice = any(isinstance(part, ChosenAggregate) for part in list_aggregates(figure))
        found[name] = Origin(True, _CHOICE) if choice else NOISY
    return {name: found[name] for name in plan.question.names}


def simulate_rows(
    plan: QuestionPlan,
    answer: NoisyAnswer,
    places: Sequence[int],
    rows: pa.Table,
    counted: NDArray[np.bool_],
    *,
    judged: bool,
) -> SimulatedRows | str:
    """Return the numbers of the groups at these places with other noise, or why it is not drawn.

    `counted` are the groups that the answer has. If they are `judged` by their significance, all others are
    taken to be empty, and each draw shows the groups that are significant in it.
    """
    if answer.cells > _MOST_GROUPS:
        return f"the noise of more than {_MOST_GROUPS:,} groups is not drawn again"
    draws = min(_MOST_DRAWS, max(_LEAST_DRAWS, _MOST_CELLS // max(1, answer.cells) // 2 * 2))
    noise = simulate_noise(plan, answer, draws)
    if noise is None:
        return "its levels have noise in common, which is not drawn again"
    at = np.array(places, dtype=np.intp)
    rule = GroupRule.of(plan, answer)
    every, shown, missed = None, np.ones((draws, at.size), dtype=np.bool_), False
    kept = answer
    if judged and rule.tests:
        released = np.asarray(answer.sums, dtype=np.float64)
        kept = replace(answer, sums=np.where(counted, released, 0.0))
        sums = _add_noise(kept, noise).transpose(2, 0, 1)
        found = rule.choose(sums)
        some = found.significant.any(axis=-1, keepdims=True)
        shown = np.where(some, found.significant, found.shown)[:, at]
        if not counted[at].all():
            every = _compute_draws(plan, answer, noise, at)
            alike = rule.weigh_hidden(sums) >= rule.weigh_hidden(released)
            missed = bool(alike.mean() < _EMPTY)
    return SimulatedRows(rows, _compute_draws(plan, kept, noise, at), shown, every, missed)


def _add_noise(answer: NoisyAnswer, noise: Sequence[Floats]) -> Floats:
    """Return the sums of an answer with other noise: by sums, cells and draws."""
    return np.stack([answer.numbers(i)[:, None] + each for i, each in enumerate(noise)])


def _compute_draws(
    plan: QuestionPlan, answer: NoisyAnswer, noise: Sequence[Floats], at: NDArray[np.intp]
) -> dict[str, Floats]:
    """Return the numbers of an answer with other noise: one row a draw, one column a group."""
    draws = noise[0].shape[1]
    sums = [each[at].T.reshape(-1) for each in _add_noise(answer, noise)]
    laws = tuple(_repeat(law, at, draws) for law in answer.laws)
    cells = at.size * draws
    many = NoisyAnswer(np.array(sums).reshape(len(sums), cells), laws, (), None, cells, answer.rounds)
    columns: dict[str, Floats] = {}
    for name, origin in find_origins(plan).items():
        if origin == NOISY:
            figure = plan.question.figures[name]
            if is_linear(figure):
                # Noise is added to what is shown: a count that was rounded is the middle of its draws.
                exact = answer.take(at.tolist())
                first = compute_linear(plan, figure, exact)
                moved = compute_linear(plan, figure, many).reshape(draws, at.size) - first
                columns[name] = compute_figure(plan, figure, exact) + moved
                continue
            parts = _split(many, at.size, draws) if has_total(figure) else [many]
            numbers = [compute_figure(plan, figure, part).astype(np.float64) for part in parts]
            columns[name] = np.concatenate(numbers).reshape(draws, at.size)
    return columns


def _repeat(law: NoiseLaw, places: NDArray[np.intp], draws: int) -> NoiseLaw:
    own = law.at(places)
    return own if own.weights.shape[1] == 1 else NoiseLaw(own.draws, np.tile(own.weights, draws))


def _split(many: NoisyAnswer, groups: int, draws: int) -> list[NoisyAnswer]:
    """Return the answer of each draw by itself."""
    return [many.take(range(draw * groups, (draw + 1) * groups)) for draw in range(draws)]


# ---- running it --------------------------------------------------------------------------------------------


def compute_sql(
    text: str, answer: AnswerTable, simulate: Callable[[], SimulatedRows | str], confidence: float
) -> ComputedAnswer:
    """Return what a SELECT gives over an answer.

    `simulate` draws the noise once more, or says why it cannot.
    """
    if not isinstance(text, str):
        raise UsageError("SF-N104", "SQL over an answer is a text.", try_='r.sql("SELECT * FROM answer")')
    traced = trace_select(text, answer.origins, chosen=answer.chosen)
    noisy = traced is not None and any(each.noisy and each.reason is None for each in traced.origins)
    rows = simulate() if noisy else ""
    texts, tables = [text], [answer.rows]
    if traced is not None and not isinstance(rows, str):
        texts.append(_write_draws(traced.text))
        tables.append(_list_draws(rows.rows if answer.chosen else answer.rows, rows))
    found, *drawn = run_over_answer(texts, tables)
    if isinstance(found, Refusal):
        raise refuse_over_answer(found)
    notes = [left_out_groups(answer.hidden)] if answer.hidden else []
    if traced is None or found.num_columns != len(traced.names):
        return _show_untraced(found, notes)
    if drawn and not isinstance(drawn[0], Refusal):
        assert not isinstance(rows, str)  # noqa: S101  there is a second text only if noise was drawn
        return _Intervals(found, drawn[0], traced, rows, confidence, notes).find()
    why = rows if isinstance(rows, str) else "draws of the noise take too much time or memory"
    pairs = list(zip(found.column_names, traced.origins, strict=True))
    labels = tuple(name for name, each in pairs if not each.noisy)
    notes += [without_interval(name, each.reason or why) for name, each in pairs if each.noisy]
    return ComputedAnswer(found, {}, labels, tuple(notes))


def _show_untraced(found: pa.Table, notes: list[Caveat]) -> ComputedAnswer:
    numbers = [each.name for each in found.schema if str(each.type) in _NUMBERS]
    labels = tuple(name for name in found.column_names if name not in numbers)
    reason = [without_intervals()] if numbers else []
    return ComputedAnswer(found, {}, labels, (*notes, *reason))


_DRAW = "draw of the noise"


def _list_draws(answer: pa.Table, rows: SimulatedRows) -> pa.Table:
    """Return the answer as draw 0, and below it the answer with the noise of each draw.

    Draws of all groups follow, if there are any: first as they were released, then with other noise.
    """
    import pyarrow as pa

    parts = [_number(answer, 0), _fill_draws(answer, rows.rows, rows.columns, rows.shown, 1)]
    if rows.every is not None:
        after = len(rows.shown) + 1
        parts += [
            _number(rows.rows, after),
            _fill_draws(answer, rows.rows, rows.every, np.ones_like(rows.shown), after + 1),
        ]
    return pa.concat_tables(parts, promote_options="permissive")


def _number(answer: pa.Table, place: int) -> pa.Table:
    import pyarrow as pa

    column = pa.array(np.full(answer.num_rows, place, dtype=np.int64))
    return pa.table({_DRAW: column, **{name: answer.column(name) for name in answer.column_names}})


def _fill_draws(
    answer: pa.Table, every: pa.Table, numbers: Mapping[str, Floats], shown: NDArray[np.bool_], first: int
) -> pa.Table:
    import pyarrow as pa

    draws, groups = np.nonzero(shown)
    columns: dict[str, Any] = {_DRAW: pa.array(draws + first)}
    for name in answer.column_names:
        kind = answer.schema.field(name).type
        if name in numbers:
            cells = numbers[name][draws, groups]
            whole = kind == pa.int64() and bool((cells == np.rint(cells)).all())
            if whole:
                columns[name] = pa.array(cells.astype(np.int64))
            else:
                columns[name] = pa.array(cells, pa.float64(), mask=np.isnan(cells))
        else:
            columns[name] = every.column(name).take(groups)
    return pa.table(columns)


def _write_draws(text: str) -> str:
    """Return a SELECT of what a text gives for each draw."""
    return (
        f'SELECT d.place, q.* FROM (SELECT DISTINCT "{_DRAW}" AS place FROM draws) AS d, LATERAL ('  # noqa: S608
        f'WITH answer AS (SELECT * EXCLUDE ("{_DRAW}") FROM draws WHERE "{_DRAW}" = d.place) '
        f"SELECT * FROM ({text})) AS q"
    )


class _Intervals:
    """Finds the interval of each number of a result from what the same SELECT gives for each draw."""

    def __init__(
        self,
        table: pa.Table,
        drawn: pa.Table,
        traced: TracedSelect,
        rows: SimulatedRows,
        confidence: float,
        notes: list[Caveat],
    ) -> None:
        self._table, self._drawn, self._traced = table, drawn, traced
        self._level, self._missed, self._wide = confidence, rows.missed, rows.every is not None
        self._places = np.asarray(drawn.column(0).to_numpy())
        self._draws = len(rows.shown)
        self._notes = list(notes)

    def find(self) -> ComputedAnswer:
        names = self._table.column_names
        labels = [at for at, each in enumerate(self._traced.origins) if not each.noisy]
        shown = tuple(names[at] for at in labels)
        rows, wanted = self._match_rows(labels)
        ends: dict[str, Ends] = {}
        for at, each in enumerate(self._traced.origins):
            if not each.noisy:
                continue
            reason = each.reason
            if reason is None and each.counts and self._missed:
                reason = "the groups that are left out seem to have rows"
            if reason is None and rows is None:
                reason = "rows are not told apart by columns without noise"
            if reason is None and str(self._table.schema.field(at).type) not in _NUMBERS:
                reason = "it is no number"
            if reason is None and rows is not None:
                found, reason = self._find_ends(at, rows, wanted, wide=self._wide and not each.counts)
                if found is not None:
                    ends[names[at]] = found
            if reason is not None:
                self._notes.append(without_interval(names[at], reason))
        if self._traced.chosen and ends:
            self._notes.append(chosen_rows())
        return ComputedAnswer(self._table, ends, shown, tuple(self._notes))

    def _match_rows(self, labels: list[int]) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
        """Return which row each drawn row is, by its labels, and which row each shown row is."""
        size = self._drawn.num_rows
        codes = np.zeros(size + self._table.num_rows, dtype=np.int64)
        for at in labels:
            column = _encode([self._drawn.column(at + 1), self._table.column(at)])
            codes = np.unique(codes * (column.max(initial=0) + 1) + column, return_inverse=True)[1].reshape(
                -1
            )
        drawn, shown = codes[:size], codes[size:]
        pairs = self._places * (codes.max(initial=0) + 1) + drawn
        apart = np.unique(pairs).size == size and np.unique(shown).size == shown.size
        return (drawn if apart else None), shown

    def _find_ends(
        self, at: int, rows: NDArray[np.intp], wanted: NDArray[np.intp], *, wide: bool
    ) -> tuple[Ends | None, str | None]:
        """Return the ends of a column in each row of the result, and why it has none in some.

        With `wide` the interval also holds that of the same number of all groups, hidden ones included.
        """
        count = self._draws + 1
        values = np.full((int(rows.max(initial=-1)) + 1, 2 * count if self._wide else count), np.nan)
        column = self._drawn.column(at + 1).to_numpy(zero_copy_only=False)
        values[rows, self._places] = np.array(column, dtype=np.float64)
        shown = np.array(self._table.column(at).to_numpy(zero_copy_only=False), dtype=np.float64)
        if wanted.max(initial=-1) >= len(values) or not np.allclose(
            values[wanted, 0], shown, rtol=_ALIKE, atol=_ALIKE, equal_nan=True
        ):
            return None, "draws of the noise do not give the same rows"
        low, high = self._find_around(values[:, :count])
        if wide:
            other = self._find_around(values[:, count:])
            low, high = np.minimum(low, other[0]), np.maximum(high, other[1])
        low, high = low[wanted], high[wanted]
        known = np.isfinite(low)
        reason = None
        if not known[np.isfinite(shown)].all():
            reason = "too few draws of the noise give a number" + (", in some rows" if known.any() else "")
        return ((low, high) if known.any() else None), reason

    def _find_around(self, values: Floats) -> Ends:
        """Return the ends around the first column, given what the draws in the others say."""
        exact, draws = values[:, 0], values[:, 1:]
        usable = np.isfinite(exact) & (np.isfinite(draws).mean(axis=1) >= _LEAST_PRESENT)
        low, high = self._find_band(exact, draws, usable) if self._traced.chosen else self._find_ranges(draws)
        # Draws lie around the number as it lies around the exact one. Where noise moves it to one side, the
        # exact number lies on the other side.
        low, high = np.minimum(low, 2 * exact - high), np.maximum(high, 2 * exact - low)
        known = usable & np.isfinite(low) & np.isfinite(high)
        return np.where(known, low, np.nan), np.where(known, high, np.nan)

    def _find_ranges(self, draws: Floats) -> Ends:
        """Return the ends that leave out as many draws as the confidence allows; see the proof note."""
        half = self._draws // 2
        skipped = half - math.ceil(self._level * (half + 1))
        if skipped < 0:
            nothing = np.full(len(draws), np.nan)
            return nothing, nothing
        low = np.where(np.isfinite(draws), draws, -np.inf)
        high = np.where(np.isfinite(draws), draws, np.inf)
        last = self._draws - 1 - skipped
        return np.partition(low, skipped, axis=1)[:, skipped], np.partition(high, last, axis=1)[:, last]

    def _find_band(self, exact: Floats, draws: Floats, usable: NDArray[np.bool_]) -> Ends:
        """Return ends that hold for all rows together, whichever of them are shown."""
        off = np.where(np.isfinite(draws), draws - exact[:, None], 0.0)
        spread = np.sqrt((off**2).mean(axis=1))
        kept = np.flatnonzero(usable & (spread > 0))
        sizes = np.where(np.isfinite(draws[kept]), np.abs(off[kept]) / spread[kept, None], np.inf)
        largest = np.sort(sizes.max(axis=0, initial=0.0))
        place = math.ceil(self._level * (self._draws + 1)) - 1
        reach = spread * (largest[place] if place < self._draws else np.inf)
        return exact - reach, exact + reach


def _encode(columns: list[Any]) -> NDArray[np.int64]:
    """Return a whole number for each cell of several columns: equal cells have the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = columns[0].type
    chunks = [chunk for column in columns for chunk in column.cast(kind).chunks]
    encoded: Any = pc.dictionary_encode(pa.chunked_array(chunks, kind).combine_chunks())
    codes = encoded.indices
    return np.asarray(codes.fill_null(len(codes)).to_numpy(zero_copy_only=False), dtype=np.int64)
