"""Quotes and answers of a lab on another machine, with the methods that they have in a lab."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.answers.results import ChosenRange, ChosenValues, NoisyFigure, Receipt, only_item
from sfumato.curator.catalog.description import ColumnDescription, PublicFacts, TableDescription, TableListing
from sfumato.errors import UsageError
from sfumato.lab.budget_view import SpentView
from sfumato.lab.remote.columns import read_cell, read_table
from sfumato.privacy.exact import parse_exact, parse_interval_level
from sfumato.privacy.tools.odometer import Odometer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfumato.curator.answers.computed import ComputedAnswer

    Again = Callable[[Mapping[str, Any]], "RemoteRelease"]
    AtLevel = Callable[..., Mapping[str, Any]]

USUAL = 0.95
"""The confidence of intervals that come with an answer."""


class _Shown:
    """Something that is shown as the server writes it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@dataclass(frozen=True, repr=False)
class RemoteQuote(_Shown):
    """Price and expected error of a question. Making one reads no data and spends nothing."""

    said: Mapping[str, Any]
    at_level: AtLevel

    @property
    def text(self) -> str:  # type: ignore[override]
        """The quote in words."""
        return str(self.said["text"])

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε it would cost; none where the noise is Gaussian."""
        return self._number("epsilon")

    @property
    def admitted(self) -> bool:
        """Whether enough is left to pay for it."""
        return bool(self.said["admitted"])

    @property
    def share(self) -> float:
        """Share of the budget that it would take."""
        return float(self.said["share"])

    @property
    def left(self) -> Fraction | None:
        """Largest pure-ε question that is possible before it."""
        return self._number("left")

    @property
    def left_after(self) -> Fraction | None:
        """Largest pure-ε question that is possible after it; none when it would be refused."""
        return self._number("left_after")

    @property
    def free(self) -> bool:
        """Whether the same question was answered before, so that it costs nothing."""
        return bool(self.said["free"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the expected errors do not cover, such as truncation and clipping."""
        return tuple(self.said.get("bias") or ())

    @property
    def slot(self) -> float | None:
        """Seconds until the reply leaves."""
        found = self.said.get("slot")
        return None if found is None else float(found)

    def error(self, confidence: float = USUAL) -> dict[str, float | None]:
        """Return half the width of the interval of each number, where it is known beforehand."""
        said = self.said if parse_interval_level(confidence) == USUAL else self.at_level(confidence)
        return dict(said["expected_error"] or {})

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return dict(self.said)

    def _number(self, name: str) -> Fraction | None:
        found = self.said.get(name)
        return None if found is None else parse_exact(found, name)


@dataclass(frozen=True, repr=False)
class RemoteRelease(_Shown):
    """An answer: noisy numbers, where the exact ones lie, and the receipt."""

    said: Mapping[str, Any]
    at_level: AtLevel
    again: Again | None
    receipt: Receipt

    @property
    def text(self) -> str:  # type: ignore[override]
        """The answer in words."""
        return str(self.said["text"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the intervals do not cover, such as truncation and clipping."""
        return tuple(self.said.get("bias") or ())

    def to_arrow(self) -> pa.Table:
        """Return the answer. Types follow from the question alone, also when no group is shown."""
        return read_table(self.said["columns"], self.said["types"])

    def to_pandas(self, *, intervals: bool = False, confidence: float = USUAL) -> pd.DataFrame:
        """Return the answer as a pandas frame; with `intervals`, each number is followed by its ends."""
        import pandas as pd

        table = self._beside_intervals(confidence) if intervals else self.to_arrow()
        frame = table.to_pandas()
        kinds = {"int64": pd.Int64Dtype(), "bool": pd.BooleanDtype()}
        for name in self.said["nullable"]:
            kind = kinds.get(str(table.schema.field(name).type))
            if kind is not None:
                frame[name] = table.column(name).to_pandas(
                    types_mapper={table.schema.field(name).type: kind}.get
                )
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the answer as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def interval(self, confidence: float = USUAL) -> pa.Table:
        """Return `name_low` and `name_high` for each number: where the exact one lies, noise only."""
        said = self.said if parse_interval_level(confidence) == USUAL else self.at_level(confidence)
        return read_table(said["interval"], said["interval_types"])

    def plot(self, column: str | None = None, *, confidence: float = USUAL) -> viz.Chart:
        """Return a chart of one number, the first if none is named, with error bars if it has any."""
        if self.said.get("axis") and "all_groups" in self.said:
            return self._without_unknown(self.all_groups()).plot(column, confidence=confidence)
        table, ends = self.to_arrow(), self.interval(confidence)
        labels = list(self.said["labels"])
        kinds = {each.name: str(each.type) for each in table.schema}
        numbers = [name for name in kinds if name not in labels and kinds[name] in ("int64", "double")]
        name = next(iter(numbers), "") if column is None else column
        if name not in numbers:
            raise UsageError("SF-N112", f"The answer has no number '{name}'.", numbers=", ".join(numbers))
        values = _list_cells(table, name)
        low, high = (_list_cells(ends, f"{name}_{side}") for side in ("low", "high"))
        bare = all(each is None for each in low)
        known = [at for at, each in enumerate(values) if each is not None and (bare or low[at] is not None)]
        keys = {each: table.column(each).to_pylist() for each in labels}
        return viz.answer_bars(
            {each: [key[at] for at in known] for each, key in keys.items()},
            [float(values[at]) for at in known],
            None if bare else [float(low[at]) for at in known],
            None if bare else [float(high[at]) for at in known],
            name=name,
        )

    def sql(self, text: str, *, confidence_level: float = USUAL) -> ComputedAnswer:
        """Return what a SELECT gives over this answer, which is its table `answer`. This is free.

        It runs on this machine. The law of the noise is known to the lab alone, so there are no intervals.
        """
        import pyarrow as pa

        from sfumato.curator.answers.computed import AnswerTable, compute_sql
        from sfumato.engines.duckdb.origins import KNOWN, NOISY

        rows = self.to_arrow()
        counted = self.said.get("counted") or [True] * rows.num_rows
        origins = {name: KNOWN if name in self.said["labels"] else NOISY for name in rows.column_names}
        hidden = self.hidden_groups + counted.count(False)
        table = AnswerTable(rows.filter(pa.array(counted, pa.bool_())), origins, hidden=hidden)
        level = float(parse_interval_level(confidence_level))
        return compute_sql(text, table, lambda: "the law of its noise is known to the lab alone", level)

    def item(self) -> Any:
        """Return the only number of an answer with one row and one column."""
        return only_item(self.to_arrow())

    @property
    def hidden_groups(self) -> int:
        """How many groups are hidden because their numbers are not significant."""
        return int(self.said.get("hidden_groups") or 0)

    def all_groups(self) -> RemoteRelease:
        """Return the answer with every group that declarations allow, significant or not."""
        every = self.said.get("all_groups")
        if every is None:
            return self
        return RemoteRelease(every, partial(self.at_level, all_groups=True), self.again, self.receipt)

    def refine(self, **spend: Any) -> RemoteRelease:
        """Ask the same again with fresh noise, pay for it, and put both answers together."""
        if self.again is None:
            raise UsageError("SF-N117", "This answer is not held by a lab.", try_="ask the question again")
        return self.again(spend)

    def _without_unknown(self, every: RemoteRelease) -> RemoteRelease:
        """Return all groups, without the one of missing keys if it is not shown."""
        (label,) = self.said["labels"]
        if None in self.said["columns"][label] or None not in every.said["columns"][label]:
            return every
        at = every.said["columns"][label].index(None)

        def drop(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
            return {name: [*cells[:at], *cells[at + 1 :]] for name, cells in columns.items()}

        parts = {name: drop(every.said[name]) for name in ("columns", "interval")}
        return RemoteRelease({**every.said, **parts}, every.at_level, self.again, self.receipt)

    def to_dict(self) -> dict[str, Any]:
        """Return columns, 95 % intervals, what they do not cover, and the receipt, ready for JSON."""
        names = ("columns", "interval", "bias", "hidden_groups", "rounds", "receipt")
        return {name: self.said[name] for name in names}

    def _beside_intervals(self, confidence: float) -> pa.Table:
        import pyarrow as pa

        answer, ends = self.to_arrow(), self.interval(confidence)
        names = [
            each
            for name in answer.column_names
            for each in (name, f"{name}_low", f"{name}_high")
            if each == name or (name not in self.said["labels"] and each in ends.column_names)
        ]
        return pa.table(
            {
                each: answer.column(each) if each in answer.column_names else ends.column(each)
                for each in names
            }
        )


@dataclass(frozen=True, repr=False)
class RemoteTable(_Shown):
    """Answers that are a table by themselves: those of several questions, or the degrees of a graph."""

    said: Mapping[str, Any]
    receipts: tuple[Receipt, ...]

    @property
    def text(self) -> str:  # type: ignore[override]
        """The answer in words."""
        return str(self.said["text"])

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return read_table(self.said["columns"], self.said["types"])

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return dict(self.said)


@dataclass(frozen=True, slots=True, repr=False)
class RemoteFacts(PublicFacts):
    """Public facts of a lab on another machine. They cost nothing."""

    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    said: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        return self.names

    @property
    def lines(self) -> list[tuple[str, ...]]:
        return list(self.cells)

    def sentences(self) -> list[str]:
        """Return what is said above the table."""
        return list(self.said)


@dataclass(frozen=True, slots=True)
class RemoteBudget:
    """What is left, in words and as numbers."""

    text: str
    accounts: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @property
    def spent(self) -> SpentView:
        """What the filters of each account prove of all that was spent so far: its odometer."""
        known = ((name, each["spent"]) for name, each in self.accounts.items() if "spent" in each)
        return SpentView({name: Odometer.from_dict(said) for name, said in known})

    def plot(self) -> viz.Chart:
        """Return a chart of what was spent of each account."""
        shares = {
            name: 1 - each["left_share"] for name, each in self.accounts.items() if "left_share" in each
        }
        return viz.budget_bars(shares)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of each account, ready for JSON."""
        return dict(self.accounts)


# ---- reading what a server says ----------------------------------------------------------------------------


def read_answer(said: Mapping[str, Any], at_level: AtLevel, again: Again | None) -> Any:
    """Return an answer of any kind."""
    match said.get("form"):
        case "table":
            return RemoteRelease(said, at_level, again, read_receipt(said["receipt"]))
        case "tables":
            return RemoteTable(said, tuple(map(read_receipt, said["receipts"])))
        case "figure":
            value, low, high = (read_cell(said[name], said["type"]) for name in ("value", "low", "high"))
            return NoisyFigure(value, low, high, read_receipt(said["receipt"]))
        case "range":
            low, high = (read_cell(said[name], said["type"]) for name in ("low", "high"))
            return ChosenRange(low, high, read_receipt(said["receipt"]))
        case "values":
            values = tuple(read_cell(each, said["type"]) for each in said["values"])
            return ChosenValues(values, read_receipt(said["receipt"]))
        case "facts":
            return RemoteFacts(tuple(said["header"]), _read_lines(said), tuple(said["said"]))
        case "parts":
            return {
                read_cell(*each["value"]): read_answer(each["answer"], at_level, None)
                for each in said["parts"]
            }
    raise UsageError(
        "SF-W157",
        "The server gives answers of a newer kind.",
        got=str(said.get("form")),
        try_="a newer sfumato",
    )


def no_other_level_error() -> UsageError:
    """Return the refusal of intervals that did not come with an answer."""
    return UsageError(
        "SF-N117", "This answer has intervals at 95 % and at no other level.", try_="interval(0.95)"
    )


def read_receipt(said: Mapping[str, Any]) -> Receipt:
    """Return a receipt as it was written."""
    guess = said.get("guess")
    known = {name: said[name] for name in ("entry", "head", "table", "unit", "charged", "replayed")}
    return Receipt(**known, guess=None if guess is None else float(guess), signed=said.get("signed"))


def read_description(said: Mapping[str, Any]) -> TableDescription:
    """Return what is declared about a table."""
    columns = tuple(
        ColumnDescription(each["column"], each["type"], each["values"], each["missing"], each["constant"])
        for each in said["columns"]
    )
    facts = said["protects"], said["population"], said["rows"], said["snapshot"]
    return TableDescription(said["table"], *facts, columns, tuple(said.get("chosen", ())))


def read_listing(said: Mapping[str, Any]) -> TableListing:
    """Return the tables that can be asked about."""
    return TableListing(tuple(map(read_description, said["tables"])))


def _read_lines(said: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(str, line)) for line in said["lines"])


def _list_cells(table: pa.Table, name: str) -> list[Any]:
    return list(table.column(name).to_pylist())
