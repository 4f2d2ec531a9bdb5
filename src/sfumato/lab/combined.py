"""Answers below each other, answers with values as columns, and lists of declared values."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, Unpack

from sfumato import viz
from sfumato.curator.answers.intervals import column_type
from sfumato.curator.answers.numbers_shown import show_cell, show_label
from sfumato.curator.answers.stage_types import arrow_kind, infer_kinds, kind_of_arrow, unify_kinds
from sfumato.curator.answers.stages import StagedRows, as_kind, run_stages
from sfumato.curator.catalog.description import PublicFacts
from sfumato.curator.catalog.domains import FreeTexts, Listed
from sfumato.curator.catalog.unbounded import HasNoBounds
from sfumato.curator.question.relation import Alias, BaseTable
from sfumato.engines.arrow import build_array
from sfumato.errors import PolicyError
from sfumato.lab.nested import divide_spending
from sfumato.lab.query import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfumato.curator.answers.quote import Quote
    from sfumato.curator.answers.release import Release
    from sfumato.curator.answers.results import Receipt
    from sfumato.curator.payer import Spending
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.derived import AnswerStage
    from sfumato.queries.combined import PivotSelect, UnionSelect


# ---- UNION -------------------------------------------------------------------------------------------------


class UnionQuery(HasNoBounds):
    """Several questions whose answers are put below each other; what is spent is divided equally."""

    def __init__(self, queries: Sequence[Query], union: UnionSelect, text: str) -> None:
        self._queries, self._text = tuple(queries), text
        names = queries[0].question.names
        if len({len(each.question.names) for each in queries}) > 1:
            raise PolicyError(
                "SF-Q115",
                "The SELECTs of a UNION have different numbers of columns.",
                try_="the same columns",
            )
        self._stage = union.read_stage(names)

    def quote(self, **spending: Unpack[Spending]) -> UnionQuote:
        """Return price and expected error of each question, from public facts only."""
        part = divide_spending(spending, len(self._queries))
        return UnionQuote(tuple(each.quote(**part) for each in self._queries))

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> UnionAnswer:
        """Charge and answer one question after the other, and put the answers together."""
        part = divide_spending(spending, len(self._queries))
        if not self._queries[0].quote(**spending).admitted:
            # All of it at once is more than is left: refused by the ledger, before a part of it is charged.
            self._queries[0].release(key=key, **spending)
        named = (
            None if key is None else f"{key}, part {place}" for place in range(1, len(self._queries) + 1)
        )
        pairs = zip(self._queries, named, strict=True)
        return UnionAnswer(tuple(each.release(key=own, **part) for each, own in pairs), self._stage)

    def __repr__(self) -> str:
        many = len(self._queries)
        return f"{self._text}; {many} questions: .quote(epsilon=…) prices, .release(epsilon=…) pays for all"


@dataclass(frozen=True, slots=True)
class UnionQuote:
    """Price and expected error of each question of a UNION."""

    parts: tuple[Quote, ...]

    @property
    def admitted(self) -> bool:
        """Whether enough is left to pay for any one of them."""
        return all(each.admitted for each in self.parts)

    @property
    def share(self) -> float:
        """Share of the budget that all of them would take."""
        return sum(each.share for each in self.parts)

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε of all of them; none where the noise is Gaussian."""
        known = [each.epsilon for each in self.parts if each.epsilon is not None]
        return sum(known, Fraction(0)) if len(known) == len(self.parts) else None

    @property
    def free(self) -> bool:
        """Whether all of them were answered before."""
        return all(each.free for each in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"parts": [each.to_dict() for each in self.parts]}

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self.parts)

    def __str__(self) -> str:
        return "\n".join(f"part {place}\n{each}" for place, each in enumerate(self.parts, start=1))

    __repr__ = __str__


class UnionAnswer:
    """The answers of several questions, below each other, each with its receipt."""

    def __init__(self, parts: tuple[Release, ...], stage: AnswerStage) -> None:
        self.parts = parts
        tables = [part.to_arrow() for part in parts]
        names = tables[0].column_names
        each = [[kind_of_arrow(field.type) for field in table.schema] for table in tables]
        kinds = [unify_kinds(column, "UNION") for column in zip(*each, strict=True)]
        columns = [
            [as_kind(value, kinds[at]) for table in tables for value in table.column(at).to_pylist()]
            for at in range(len(names))
        ]
        rows = run_stages([stage], StagedRows(columns, None))
        types = [arrow_kind(kind) for kind in infer_kinds([stage], kinds)]
        self._columns = {
            name: (column, kind) for name, column, kind in zip(names, rows.columns, types, strict=True)
        }

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipt of each question."""
        return tuple(part.receipt for part in self.parts)

    def to_arrow(self) -> pa.Table:
        """Return all rows. Types follow from the questions alone."""
        import pyarrow as pa

        return pa.table({name: build_array(cells, kind) for name, (cells, kind) in self._columns.items()})

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return the answer of each question, ready for JSON."""
        return {"parts": [each.to_dict() for each in self.parts]}

    def _repr_html_(self) -> str:
        header, *rows = self._shown()
        notes = "".join(f"<p>{escape(receipt.sentence())}</p>" for receipt in self.receipts)
        return viz.html_table(header, rows) + notes

    def _shown(self) -> list[list[str]]:
        columns = [[show_cell(cell) for cell in cells] for cells, _ in self._columns.values()]
        return [list(self._columns), *(list(row) for row in zip(*columns, strict=True))]

    def __str__(self) -> str:
        rows = self._shown()
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join(
            [*lines, *(receipt.sentence() for receipt in self.receipts), "Intervals: .parts[0].interval()"]
        )

    __repr__ = __str__


# ---- PIVOT -------------------------------------------------------------------------------------------------


def pivot_query(query: Query, pivot: PivotSelect, text: str) -> Query:
    """Return a question with a column for each declared value of its last key."""
    question = query.question
    domain = query.resolved.keys[-1].domain
    if not isinstance(domain, Listed):
        raise PolicyError(
            "SF-Q109", "PIVOT needs a column whose values are listed.", try_="sf.one_of(…) for it"
        )
    pairs = zip(domain.values, domain.show_values(), strict=True)
    stage = pivot.make_stage(question.names, sorted(pairs, key=lambda pair: pair[1]))
    return Query(query.payer, replace(question, then=(*question.then, stage)), text)


# ---- lists -------------------------------------------------------------------------------------------------


class DeclaredValues(PublicFacts):
    """Values that columns can have by declaration. Which of them occur is not said."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: dict[str, Any], rows: StagedRows) -> None:
        self._columns, self._rows = columns, rows

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        return [tuple(show_label(cell) for cell in row) for row in zip(*self._rows.columns, strict=True)]

    def sentences(self) -> list[str]:
        """Return what the list is."""
        return ["These values are declared; which of them occur is not said. This costs nothing."]

    def to_arrow(self) -> pa.Table:
        """Return the values in their own types."""
        import pyarrow as pa

        pairs = zip(self._columns.items(), self._rows.columns, strict=True)
        return pa.table({name: build_array(cells, kind) for (name, kind), cells in pairs})


def find_declared_values(query: Query) -> DeclaredValues | None:
    """Return the declared values that SELECT DISTINCT asks for, if nothing but declarations says them."""
    question, relation = query.question, query.question.relation
    while isinstance(relation, Alias):
        relation = relation.of
    if not question.lists_keys or query.resolved.discovers_keys:
        return None
    if not isinstance(relation, BaseTable):
        raise PolicyError(
            "SF-Q103",
            "SELECT DISTINCT of listed columns gives declared values, so it takes no WHERE and no JOIN.",
            try_="SELECT status, COUNT(*) AS n … GROUP BY status HAVING COUNT(*) > 20",
        )
    return DeclaredValues(*_list_keys(query.resolved))


def _list_keys(resolved: ResolvedQuestion) -> tuple[dict[str, Any], StagedRows]:
    """Return the types of the columns that SELECT DISTINCT shows, and all declared combinations."""
    question = resolved.question
    values = [key.domain.show_values() for key in resolved.keys if not isinstance(key.domain, FreeTexts)]
    columns = [list(column) for column in zip(*itertools.product(*values), strict=True)]
    types = [column_type(resolved, each.shows) for each in question.outputs]
    kinds = infer_kinds(question.then, list(map(kind_of_arrow, types)))
    shown = {name: arrow_kind(kind) for name, kind in zip(question.names, kinds, strict=True)}
    return shown, run_stages(question.then, StagedRows(columns, None))
