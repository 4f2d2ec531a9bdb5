"""What people get after paying: the answer with its error and its receipt."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.answers.answer import (
    NoisyAnswer,
    combine_answers,
    drop_null_groups,
    key_columns,
    match_kept_form,
    read_answer,
)
from sfumato.curator.answers.intervals import choice_interval, column_type, find_choice
from sfumato.curator.answers.ordered.rank_error import rank_note
from sfumato.curator.answers.post_processing import (
    compute_at,
    compute_figure,
    compute_interval,
    is_linear,
    keep_groups,
    order_groups,
)
from sfumato.curator.answers.results import Receipt, only_item, point_to_caveats
from sfumato.curator.answers.shown_groups import GroupRule, ShownGroups
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.curator.plan.caveats import lucky
from sfumato.curator.question.measurement import ChosenAggregate
from sfumato.curator.question.relation import Name
from sfumato.engines.arrow import build_array
from sfumato.errors import UsageError
from sfumato.errors.numbers import (
    format_cell,
    format_error,
    format_label,
    format_measured,
    format_range,
    useful_places,
)
from sfumato.privacy.exact import parse_interval_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.curator.answers.computed import ComputedAnswer, SimulatedRows
    from sfumato.curator.answers.noise_law import Ends, Floats
    from sfumato.curator.answers.shown_groups import Mask
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.plan.caveats import Caveat
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.question.measurement import Figure
    from sfumato.ledger import Released
    from sfumato.viz import Chart

    Again = Callable[[Mapping[str, Any], tuple[str, ...], QuestionPlan], tuple[QuestionPlan, Released]]

_STATE = frozenset(
    {"_again", "_released", "_answer", "_plan", "_rounds", "_entries", "_chosen_groups", "receipt"}
)
"""Attributes of a release that everything else is computed from."""
SHOWN_ROWS = 20
"""Number of groups that are printed."""


class Release:
    """An answer: noisy numbers, where the exact ones lie, and the receipt.

    `again(spend, rounds, plan)` prices the same question at another spend, as one that refines the requests
    `rounds`; it refuses if that would be about other rows than `plan`, charges it, and returns the plan and
    what the ledger released. `earlier` is the release that this one refines; what is shown is then both
    together. `receipt` is for what was charged together with other answers, `answer` for what was read
    together with them, and `request` is then what the ledger keeps all of them under.
    """

    def __init__(
        self,
        plan: QuestionPlan,
        released: Released,
        *,
        again: Again | None = None,
        earlier: Release | None = None,
        receipt: Receipt | None = None,
        answer: NoisyAnswer | None = None,
        request: str = "",
    ) -> None:
        kept: QuestionPlan = plan if answer is not None else match_kept_form(plan, released.answer)
        self._again, self._released = again, released
        self._chosen_groups: Mask | None = None
        self._answer = read_answer(kept, released.answer) if answer is None else answer
        if earlier is not None and earlier._plan.without_nulls is earlier._plan:
            self._answer, kept = drop_null_groups(kept, self._answer), kept.without_nulls
        self._plan: QuestionPlan = kept
        # Rounds are part of a refined question's request: each refinement of one answer is charged once.
        self._rounds: tuple[str, ...] = (request or plan.request,)
        if earlier is not None:
            self._answer = combine_answers(earlier._answer, self._answer)
            self._rounds = (*earlier._rounds, plan.request)
        self.receipt = Receipt.of(plan, released) if receipt is None else receipt
        self._entries: tuple[int, ...] = (self.receipt.entry,)
        if earlier is not None:
            self._entries = (*earlier._entries, self.receipt.entry)

    @property
    def request(self) -> str:
        """The identity of the question under which the ledger keeps the answer."""
        return self._plan.request

    @property
    def entries(self) -> tuple[int, ...]:
        """The entries in the ledger of all charges that were paid for this answer, from the first."""
        return self._entries

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What the intervals do not cover, such as truncation and clipping."""
        chosen = self.hidden_groups and lucky() not in self._plan.bias
        return (*self._plan.bias, lucky()) if chosen else self._plan.bias

    @property
    def tables(self) -> tuple[Table, ...]:
        """What was declared about the tables that the answer is about."""
        return (self._plan.table, *self._plan.reads)

    def refine(self, **spend: Any) -> Release:
        """Ask the same again with fresh noise, pay for it, and put both answers together.

        Say what to spend as in `release`: epsilon, epsilon and delta, rho or share; a `key` means what it
        means there. Sums are averaged by how precise they are, so the error falls with every round. Refining
        this answer in the same way once more gives the same and costs nothing; refine what comes back.
        """
        if self._again is None:
            raise UsageError("SF-N117", "This answer is not held by a lab.", try_="ask the question again")
        plan, released = self._again(spend, self._rounds, self._plan)
        return Release(plan, released, again=self._again, earlier=self)

    def sql(self, text: str, *, confidence_level: float = 0.95) -> ComputedAnswer:
        """Return what a SELECT gives over this answer, which is its table `answer`. This is free.

        DuckDB runs it over the groups that are shown, in a process without files and network. Numbers that
        are sums, averages, shares and other smooth functions of noisy numbers have intervals, from draws of
        the same noise. Others have none, and `caveats` says why.

        Examples
        --------
        >>> r = s.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=0.5)
        >>> r.sql("SELECT AVG(n) AS mean FROM answer")
        """
        # sqlglot comes with the first SQL over an answer.
        from sfumato.curator.answers.computed import AnswerTable, compute_sql, find_origins

        level = float(parse_interval_level(confidence_level))
        counted = self._counted
        hidden = int((self._groups.possible & ~counted._among).sum())
        chosen = self._plan.question.chooses_groups
        table = AnswerTable(counted.to_arrow(), find_origins(self._plan), chosen=chosen, hidden=hidden)
        judged = counted is not self and not self._plan.question.leaves_out_groups
        return compute_sql(text, table, partial(counted._simulate, judged=judged), level)

    @property
    def _counted(self) -> Release:
        """This answer with the groups that SQL over it reads: those that are significant, if any is."""
        if self._chosen_groups is not None or not self._groups.significant.any():
            return self
        return self._copy(_chosen_groups=self._groups.significant)

    def _simulate(self, *, judged: bool) -> SimulatedRows | str:
        """Return the answer with other noise, in which groups are `judged` once more.

        If HAVING or LIMIT chose groups by their noise, draws have all groups that are possible: intervals of
        the chosen ones alone would not allow for the choice.
        """
        from sfumato.curator.answers.computed import simulate_rows

        chosen = self._plan.question.chooses_groups
        whole = self.all_groups() if judged or chosen else self
        if chosen:
            whole, judged = whole._copy(_places=np.flatnonzero(self._groups.possible).tolist()), False
        return simulate_rows(
            self._plan, self._answer, whole._places, whole.to_arrow(), self._among, judged=judged
        )

    @property
    def counted_rows(self) -> list[bool]:
        """Which of the groups that are shown SQL over the answer reads."""
        counted = set(self._counted._places)
        return [at in counted for at in self._places]

    def item(self) -> Any:
        """Return the only number of an answer with one row and one column."""
        return only_item(self.to_arrow())

    @property
    def hidden_groups(self) -> int:
        """How many groups are hidden because their numbers are not significant."""
        return int((self._groups.possible & ~self._among).sum())

    def all_groups(self) -> Release:
        """Return the answer with every group that declarations allow, significant or not.

        HAVING, ORDER BY and LIMIT then choose among all of them. This is free: the groups are of the same
        charge.
        """
        return self._copy(_chosen_groups=self._groups.possible)

    def _copy(self, **changes: Any) -> Release:
        """Return the same answer with other state; what was computed from it is computed anew."""
        found = Release.__new__(Release)
        kept = {name: each for name, each in vars(self).items() if name in _STATE}
        vars(found).update(kept | changes)
        return found

    # ---- tables ----

    def to_arrow(self, *, intervals: bool = False, confidence: float = 0.95) -> pa.Table:
        """Return the answer. Types follow from the question alone, also when no group is shown.

        With `intervals`, each number is followed by the ends of its interval, as `name_low` and `name_high`.
        """
        if intervals:
            return self._beside_intervals(confidence)
        return self._table({name: (self._columns[name], self._types[name]) for name in self._columns})

    def to_pandas(self, *, intervals: bool = False, confidence: float = 0.95) -> pd.DataFrame:
        """Return the answer as a pandas frame; with `intervals`, each number is followed by its ends.

        Whole numbers and booleans that may be missing have pandas' types for that, whichever groups there
        are.
        """
        table = self.to_arrow(intervals=intervals, confidence=confidence)
        with _installed("pandas"):
            import pandas as pd
        frame = table.to_pandas()
        kinds = {"int64": pd.Int64Dtype(), "bool": pd.BooleanDtype()}
        for name in self.nullable_names:
            kind = kinds.get(str(table.schema.field(name).type))
            if kind is not None:
                frame[name] = table.column(name).to_pandas(
                    types_mapper={table.schema.field(name).type: kind}.get
                )
        return frame

    @property
    def label_names(self) -> list[str]:
        """The names of the columns that no noise is in."""
        return list(self._labels)

    @property
    def nullable_names(self) -> list[str]:
        """The names of the columns that may hold missing values, whichever groups there are."""
        question, keys = self._plan.question, self._plan.resolved.keys
        levels = bool(question.levels)
        return [name for name, place in question.labels.items() if levels or keys[place].nulls]

    def _beside_intervals(self, confidence: float) -> pa.Table:
        """Return the answer with the ends of each number's interval after it."""
        import pyarrow as pa

        answer, ends = self.to_arrow(), self.interval(confidence)
        names = [
            each
            for name in answer.column_names
            for each in (name, f"{name}_low", f"{name}_high")
            if each == name or (name not in self._labels and each in ends.column_names)
        ]
        shown = {
            name: answer.column(name) if name in answer.column_names else ends.column(name) for name in names
        }
        return pa.table(shown)

    def to_polars(self) -> pl.DataFrame:
        """Return the answer as a polars frame."""
        with _installed("polars"):
            import polars as pl
        return pl.DataFrame(self.to_arrow())

    def interval(self, confidence: float = 0.95) -> pa.Table:
        """Return `name_low` and `name_high` for each number: where the exact one lies, noise only.

        Both are null where nothing is known: for minima, maxima and modes, and where a divisor may be zero or
        less. Those of a quantile have its own type.
        """
        import pyarrow as pa

        level = parse_interval_level(confidence)
        ends = self._intervals(level)
        columns: dict[str, tuple[Any, Any]] = {
            name: (self._columns[name], self._types[name]) for name in self._columns if name not in ends
        }
        for name, (low, high) in ends.items():
            figure = self._plan.question.figures[name]
            chosen = isinstance(figure, ChosenAggregate)
            kind = self._types[name] if chosen else pa.float64()
            shown = self._chosen_ends(figure, level) if isinstance(figure, ChosenAggregate) else (low, high)
            columns |= {f"{name}_low": (shown[0], kind), f"{name}_high": (shown[1], kind)}
        return self._table(columns)

    def _chosen_ends(self, figure: ChosenAggregate, confidence: float) -> tuple[Any, Any]:
        """Return the ends of a choice as it is shown itself: numbers or dates, nulls where none is known."""
        found = choice_interval(self._plan, figure, self._noisy, confidence)
        nulls = [None] * self._noisy.cells
        return (nulls, nulls) if found is None else found

    def plot(self, column: str | None = None, *, confidence: float = 0.95) -> Chart:
        """Return a chart of one number, the first if none is named, with error bars if it has any.

        Groups where the number or its interval is not known are left out. An axis of numbers or times is
        complete: groups that the table hides are on it.
        """
        numbers = [name for name in self._plan.question.names if self._is_number(name)]
        name = next(iter(numbers), "") if column is None else column
        if not isinstance(name, str) or name not in numbers:
            raise UsageError("SF-N112", f"The answer has no number '{name}'.", numbers=", ".join(numbers))
        if self.has_axis and self._chosen_groups is None:
            whole = self._copy(_chosen_groups=self._groups.shown | self._groups.present)
            return whole.plot(name, confidence=confidence)
        number = np.array(
            [np.nan if each is None else each for each in self._columns[name]], dtype=np.float64
        )
        low, high = self._intervals(parse_interval_level(confidence))[name]
        bare = bool(np.isnan(low).all())
        known = np.flatnonzero(np.isfinite(number) & (np.isfinite(low) | bare))
        names = self._key_names
        keys, totals = self._keys[: len(names)], self._keys[len(names) :]
        # With levels, columns that say which keys are totalled follow the keys.
        flags = totals or [[0] * len(number)] * len(names)
        named = {
            name: ["all" if summed[at] else key[at] for at in known]
            for name, key, summed in zip(names, keys, flags, strict=True)
        }
        return viz.answer_bars(
            named,
            number[known].tolist(),
            None if bare else low[known].tolist(),
            None if bare else high[known].tolist(),
            name=name,
        )

    # ---- what people see ----

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
        return "\n".join([*lines, "", *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header, rows = self._shown()
        return viz.html_table(header, rows) + "".join(f"<p>{escape(note)}</p>" for note in self._notes())

    def to_dict(self) -> dict[str, Any]:
        """Return columns, 95 % intervals, what they do not cover, and the receipt, ready for JSON."""
        return {
            "columns": _plain(self.to_arrow()),
            "interval": _plain(self.interval()),
            "bias": list(self.caveats),
            "hidden_groups": self.hidden_groups,
            "rounds": self._answer.rounds,
            "receipt": self.receipt.to_dict(),
        }

    # ---- parts: all of the groups that are shown, in the order shown ----

    @cached_property
    def _every_key(self) -> list[list[Any]]:
        """Key columns of all groups, shown or not."""
        return key_columns(self._plan, self._answer)

    @cached_property
    def _places(self) -> list[int]:
        return order_groups(self._plan, self._answer, self._every_key, self._among)

    @cached_property
    def _kept(self) -> list[int]:
        return keep_groups(self._plan, self._answer, self._among)

    @cached_property
    def _groups(self) -> ShownGroups:
        rule = GroupRule.of(self._plan, self._answer)
        return rule.choose(np.asarray(self._answer.sums, dtype=np.float64))

    @property
    def _among(self) -> Mask:
        """The groups that are shown, or that HAVING, ORDER BY and LIMIT choose from."""
        return self._groups.shown if self._chosen_groups is None else self._chosen_groups

    @cached_property
    def _noisy(self) -> NoisyAnswer:
        return self._answer.take(self._places)

    @cached_property
    def _keys(self) -> list[list[Any]]:
        return [[column[at] for at in self._places] for column in self._every_key]

    @property
    def _key_names(self) -> list[str]:
        """Names of the keys, as the answer calls them or else as the question does."""
        labels = {place: name for name, place in reversed(self._plan.question.labels.items())}
        asked = self._plan.question.keys
        return [
            labels.get(at, str(key) if isinstance(key, Name) else f"key {at + 1}")
            for at, key in enumerate(asked)
        ]

    @property
    def has_axis(self) -> bool:
        """Whether the groups lie on one axis of numbers or times, which a chart shows completely."""
        keys, question = self._plan.resolved.keys, self._plan.question
        ordered = len(keys) == len(self._labels) == 1 and isinstance(keys[0].domain, Numbers | Periods)
        return ordered and not question.levels and not question.leaves_out_groups

    @property
    def _labels(self) -> list[str]:
        """Names of the columns that no noise is in."""
        return list(self._plan.question.labels)

    def _is_number(self, name: str) -> bool:
        return name not in self._labels and str(self._types[name]) in ("int64", "double")

    @cached_property
    def _columns(self) -> dict[str, Any]:
        question = self._plan.question
        keys = {name: self._keys[place] for name, place in question.labels.items()}
        numbers = {
            name: compute_at(
                each, self._answer, self._places, self._kept, partial(compute_figure, self._plan, each)
            )
            for name, each in question.figures.items()
        }
        parts = {**keys, **numbers}
        return {output.name: parts[output.name] for output in question.outputs}

    @cached_property
    def _types(self) -> dict[str, Any]:
        outputs = self._plan.question.outputs
        return {each.name: column_type(self._plan.resolved, each.shows) for each in outputs}

    def _table(self, columns: dict[str, tuple[Any, Any]]) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: build_array(cells, kind) for name, (cells, kind) in columns.items()})

    def _intervals(self, confidence: float, first: int | None = None) -> dict[str, Ends]:
        """Return the intervals of the first groups shown, or of all; not a number where none is known."""
        found: dict[str, Ends] = {}
        for name, figure in self._plan.question.figures.items():

            def compute(noisy: NoisyAnswer, figure: Figure = figure) -> NDArray[Any]:
                ends = compute_interval(self._plan, figure, noisy, confidence)
                return np.stack(np.broadcast_arrays(*ends))

            low, high = compute_at(figure, self._answer, self._places[:first], self._kept, compute)
            found[name] = low, high
        return found

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the printed rows, with an error or an interval beside each number."""
        shown = self.to_arrow().slice(0, SHOWN_ROWS).to_pydict()
        ends = self._intervals(0.95, SHOWN_ROWS)
        columns: list[tuple[str, list[str]]] = []
        for name, values in shown.items():
            if name in self._labels:
                columns.append((name, [format_label(value) for value in values]))
            else:
                low, high = ends[name]
                columns += self._shown_number(name, values, low[:SHOWN_ROWS], high[:SHOWN_ROWS])
        names, cells = zip(*columns, strict=True)
        return list(names), [list(row) for row in zip(*cells, strict=True)]

    def _shown_number(
        self, name: str, values: list[Any], low: Floats, high: Floats
    ) -> list[tuple[str, list[str]]]:
        """Return a column with a number, and after it one with its error or interval, if it has any."""
        figure = self._plan.question.figures[name]
        if isinstance(figure, ChosenAggregate):
            return [(name, [format_cell(value) for value in values]), *self._shown_choice(name, figure)]
        rows = list(zip(values, low.tolist(), high.tolist(), strict=True))
        places = [useful_places(*row) for row in rows]
        numbers = (name, list(map(format_measured, values, places)))
        # One ± says it all where every group has the same error; else each group has an interval.
        if is_linear(figure):
            return [numbers, ("± 95 %", [format_error((b - a) / 2) for _, a, b in rows])]
        return [
            numbers,
            ("95 % interval", [format_range(a, b, at) for (_, a, b), at in zip(rows, places, strict=True)]),
        ]

    def _shown_choice(self, name: str, figure: ChosenAggregate) -> list[tuple[str, list[str]]]:
        """Return a column with the interval of a quantile, if it has one."""
        low, high = (list(ends[:SHOWN_ROWS]) for ends in self._chosen_ends(figure, 0.95))
        if not low or low[0] is None:
            return []
        ends = (
            build_array(low, self._types[name]).to_pylist(),
            build_array(high, self._types[name]).to_pylist(),
        )
        return [
            ("95 % interval", [f"{format_cell(a)} – {format_cell(b)}" for a, b in zip(*ends, strict=True)])
        ]

    def _notes(self) -> list[str]:
        """Return the lines below the table: ranks, the price, and where the caveats are."""
        hidden = len(next(iter(self._columns.values()))) - SHOWN_ROWS
        more = [f"… and {hidden:,} more groups"] if hidden > 0 else []
        ranks = [
            f"{name}: {rank_note(each, self._answer.chosen[find_choice(self._plan.resolved, each)[0]])}"
            for name, each in self._plan.question.figures.items()
            if isinstance(each, ChosenAggregate) and not self._plan.is_empty
        ]
        little = [] if self._chosen_groups is not None else self._groups.warnings
        return [*more, *ranks, *little, self._price(), *point_to_caveats(self.caveats)]

    def _price(self) -> str:
        rounds = self._answer.rounds
        together = f", averaged with {rounds - 1} earlier" if rounds > 1 else ""
        hidden = self._groups.describe_hidden(self.hidden_groups)
        return f"{self.receipt.sentence()}{together}{hidden}"


@contextmanager
def _installed(library: str) -> Iterator[None]:
    """Say how to install a library that is missing."""
    try:
        yield
    except ModuleNotFoundError:
        raise UsageError(
            "SF-N113", f"{library} is not installed.", try_=f"pip install {library}, or use to_arrow()"
        ) from None


def _plain(table: pa.Table) -> dict[str, list[Any]]:
    """Return the columns ready for JSON: dates and moments as texts."""
    return {
        name: [each.isoformat() if isinstance(each, date) else each for each in column]
        for name, column in table.to_pydict().items()
    }
