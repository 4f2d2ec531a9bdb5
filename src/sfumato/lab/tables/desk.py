"""Tables of a lab: registered, checked, advanced and dropped, with what is declared of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from sfumato.curator.catalog.catalog import Table, declare_table
from sfumato.curator.catalog.leftovers import PATIENCE, change_alone
from sfumato.curator.catalog.public_facts import count_public_facts, require_rows
from sfumato.curator.catalog.schema_file import Schema
from sfumato.curator.payer import population_account
from sfumato.errors import LedgerError, PolicyError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.lab.analysts import grant_later
from sfumato.lab.blocks import declare_blocks, move_through, open_blocks
from sfumato.lab.bounds.choosing import (
    apply_bounds,
    buy_bounds,
    list_choices,
    plan_choices,
    require_no_choice,
    widen_schema,
)
from sfumato.lab.folder import read_ranking_key
from sfumato.lab.tables.draft import draft_schema
from sfumato.lab.tables.reading import describe_formats, find_formats, require_declared_values
from sfumato.lab.tables.registration import (
    agree_on_budget,
    combine_schema,
    hint_at_populations,
    hint_at_same_rows,
    require_one_relation,
    require_rows_not_edges,
    with_max_rows,
)
from sfumato.lab.tables.report import SourceReport
from sfumato.privacy.exact import parse_positive, parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.curator.catalog.chosen import ChosenBound
    from sfumato.curator.catalog.columns import DeclaredColumn, UnboundedColumn
    from sfumato.curator.payer import LabAccess
    from sfumato.engines.router import EngineRouter
    from sfumato.engines.snapshot import SourceSurvey
    from sfumato.ledger import Ledger
    from sfumato.privacy.bound_choice import BoundChoice
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.exact import Number
    from sfumato.privacy.graph_units import Protected
    from sfumato.synth import Twin


class TableDesk(ABC):
    """The part of a lab that is about its tables. `Lab` is one."""

    folder: Path
    ledger: Ledger
    _catalog: Catalog

    @property
    @abstractmethod
    def engine(self) -> EngineRouter:
        """What prepares snapshots and runs programs."""

    @abstractmethod
    def _publish_twin(self, twin: Twin, table: str) -> None:
        """Publish a stand-in for a table that is registered."""

    def table(self, name: str) -> Table:
        """Return what was declared about a table, and its snapshot."""
        return self._catalog.find_table(name)

    def tables(self) -> tuple[Table, ...]:
        """Return every table of the catalog."""
        return tuple(self._catalog.tables.values())

    def register(
        self,
        name: str,
        source: Any,
        *,
        unit: Protected | None = None,
        columns: Mapping[str, DeclaredColumn | UnboundedColumn] | None = None,
        budget: Budget | None = None,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        rows: int | None = None,
        schema: str | Path | None = None,
        twin: Twin | None = None,
        confirm_losses: bool = False,
    ) -> SourceReport | None:
        """Prepare a table and open its budget. Return what the declaration does to the source's rows.

        `source` is a parquet or csv path, an Arrow table, a pandas or polars frame, a table in PostgreSQL as
        postgresql://user@host/database#schema.table, a Spark DataFrame, or spark:catalog.schema.table. Only
        the unit and the declared columns are kept, each unit with at most `max_rows` rows, numbers within
        their bounds.
        `schema` is a TOML file that says all the rest. `neighbours=sf.REPLACE_ONE` makes the number of rows
        public, which must then be `rows`.
        `twin=sf.synth.Twin()` publishes a stand-in for nothing, `twin=sf.synth.Twin(rho=0.01)` one that is
        charged for once the table is there: analysts get it by `s.twin(name)`.
        A declaration that does not fit the source is refused: a column that loses more than 5 % of its
        values, or a constant column in which a unit has several values. The error names the losses, and
        `confirm_losses=True` accepts them.
        With sf.Node or sf.Edge as the unit the source is a list of edges, which `s.graph(name)` asks about.
        The report has exact counts of protected rows: it is for the steward alone, and is kept nowhere. Of a
        graph there is none.
        """
        said = combine_schema(
            Schema(unit, {} if columns is None else columns, budget, neighbours, rows), schema
        )
        with self._changing():
            accounts = self.ledger.list_accounts()
            said, chosen = self._bought(name, said, source, confirmed=confirm_losses)
            table, agreed = self._declared(name, said)
            prepared, report = self._prepared(table.with_chosen(chosen), source, confirmed=confirm_losses)
            # Before the table appears: no question may come without an account to charge.
            self._open_account(table, agreed)
            self.ledger.note_snapshot(prepared.name, prepared.identity, None)
            self._catalog.add_table(prepared)
        hint_at_populations(accounts, table)
        hint_at_same_rows(self.tables(), table)
        if twin is not None:
            self._publish_twin(twin, name)
        return None if report is None else report.warn()

    def check(
        self,
        name: str,
        source: Any,
        *,
        unit: Protected | None = None,
        columns: Mapping[str, DeclaredColumn | UnboundedColumn] | None = None,
        budget: Budget | None = None,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        rows: int | None = None,
        schema: str | Path | None = None,
    ) -> SourceReport:
        """Return what `register` would do to the source's rows with the same words. Nothing is stored.

        Whatever `register` would refuse is refused here, except losses. `report.losses()` lists those that
        `register` accepts only with `confirm_losses=True`.
        """
        said = combine_schema(
            Schema(unit, {} if columns is None else columns, budget, neighbours, rows), schema
        )
        require_no_choice(said, "lab.check")
        with name_disk_errors(), self._catalog.lock_for_change():
            declared, _ = self._declared(name, said)
            table = require_declared_values(self.engine, source, declared)
            found = self.engine.survey(source, require_rows_not_edges(table))
            formatted = find_formats(self.engine, source, table, found)
            if formatted != table:
                found = self.engine.survey(source, require_rows_not_edges(formatted))
        return SourceReport(formatted, found, describe_formats(formatted, table)).warn()

    def draft_schema(
        self,
        source: Any,
        *,
        unit: Protected | None = None,
        columns: Mapping[str, DeclaredColumn | UnboundedColumn] | None = None,
        budget: Budget | None = None,
    ) -> str:
        """Return the text of a schema file with what was said, and comments for all other columns.

        The steward fills in the rest and gives the file to `check` and `register`. Nothing is stored.
        """
        said = Schema(unit, {} if columns is None else columns, budget, Neighbours.ADD_REMOVE, None)
        with name_disk_errors():
            return draft_schema(self.engine, source, said)

    def advance(
        self,
        name: str,
        source: Any,
        *,
        columns: Mapping[str, DeclaredColumn | UnboundedColumn] | None = None,
        max_rows: int | BoundChoice | None = None,
        rows: int | None = None,
        through: Mapping[str, Any] | None = None,
        confirm_losses: bool = False,
    ) -> SourceReport | None:
        """Make the table's next snapshot, with the same promises unless others are given.

        `through={"day": "2026-01-31"}` says that all rows up to that day are there: streams release no later
        tick. What was said so before stays.

        Everyone sees the counter move on. The people stay the same, and so does what is left of their budget;
        answers about the old snapshot are not answers about the new one. The old one is erased; questions
        about it that are being answered have ten seconds to finish, and are then ended and stay charged.

        `confirm_losses` accepts a source that does not fit the declaration, as in `register`.
        """
        with self._changing():
            old = self._catalog.find_table(name)
            unit = old.protects if max_rows is None else with_max_rows(old, max_rows)
            promised = dict(old.columns if columns is None else columns)
            public_rows = None if old.is_public else old.public_rows if rows is None else rows
            self._require_newest(old)  # before rows are prepared
            said = Schema(unit, promised, None, old.neighbours, public_rows)
            said, chosen = self._bought(old.name, said, source, old, confirmed=confirm_losses)
            before = self._catalog.contents.read_of(old)
            table = declare_table(old.name, said.unit, said.columns, old.neighbours, public_rows)
            kept = replace(table, pace=old.pace, through=old.through, blocks=old.blocks)
            kept = kept.with_chosen((*old.chosen, *chosen))
            moved = move_through(kept, through or {})
            open_blocks(self.ledger, self._catalog.contents, moved)
            moved = replace(moved, home=self.engine.home(source))
            prepared, report = self._prepared(moved, source, confirmed=confirm_losses)
            self.ledger.note_snapshot(prepared.name, prepared.identity, before)
            self._catalog.add_table(prepared)
        return None if report is None else report.warn()

    def drop(self, name: str) -> None:
        """Erase a table and its snapshot. What was spent on its people stays spent.

        Questions about it that are being answered are ended, and stay charged.
        """
        with self._changing(patience=0):
            self._catalog.remove_table(self._catalog.find_table(name).name)

    def set_pace(self, name: str, *, seconds: Number) -> None:
        """Declare how long one pass over a table takes at most: a question with GROUP BY and `bounded`.

        Replies of hostile sessions leave in slots that follow from it, so it is public: declare it as you
        declare bounds, generously, and not from what single rows do.
        """
        milliseconds = parse_whole(math.ceil(parse_positive(seconds, "seconds") * 1000), "seconds")
        with self._catalog.lock_for_change():
            self._catalog.set_pace(name, milliseconds)

    def set_through(self, name: str, **through: Any) -> None:
        """Declare up to where all rows of a table are there, such as day="2026-01-31".

        Streams release the ticks up to there, whether or not they have rows. It is public: declare it by the
        calendar, and not by looking at rows. It never moves back.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            table = move_through(self._catalog.find_table(name), through)
            open_blocks(self.ledger, self._catalog.contents, table)
            self._catalog.replace_terms(table)

    def set_blocks(
        self, name: str, *, time: str, every: str | int, budget: Budget, since: Any = None
    ) -> None:
        """Give those who come in each block of time, such as every="month", a budget of their own.

        Streams with blocks=True are paid from it: a unit counts in the block that it first comes in, and in
        no other. Blocks are fixed once they are set. What everyone may lose in a lifetime is the population's
        budget and one block's for each such stream; `lab.budget` shows it.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            table = declare_blocks(self._catalog.find_table(name), time, every, budget, since)
            open_blocks(self.ledger, self._catalog.contents, table)
            self._catalog.replace_terms(table)

    # ---- parts ----

    def _changing(self, patience: float = PATIENCE) -> AbstractContextManager[None]:
        """Allow one change at a time, and erase snapshots of no use before it and after."""
        return change_alone(self._catalog, self.engine, patience)

    def _require_newest(self, old: Table) -> None:
        """Refuse a table whose snapshot another has replaced.

        The ledger may have noted a snapshot that was never finished, because the lab was killed. The catalog
        names only the one that was begun last, so the old one is noted again before another is begun.
        """
        begun = self._catalog.contents.read_of(old)
        self.ledger.require_newest(begun)
        if not old.identity:
            return  # older than identities, so nothing names it
        try:
            self.ledger.require_newest(replace(begun, begun=""))
        except LedgerError:
            self.ledger.note_snapshot(old.name, old.identity, begun)

    def _bought(
        self,
        name: str,
        said: Schema,
        source: Any,
        old: Table | None = None,
        *,
        confirmed: bool,
    ) -> tuple[Schema, tuple[ChosenBound, ...]]:
        """Return a declaration with every bound that was to be chosen bought, and what was paid for them."""
        choices = list_choices(said)
        if not choices:
            return said, ()
        table, agreed = self._declared(name, widen_schema(said), old)
        plan_choices(table, choices)  # what no ε could serve is refused before rows are prepared
        prepared, _ = self._prepared(table, source, confirmed=confirmed)  # losses are refused uncharged
        self._open_account(table, agreed)
        before = None if old is None else self._catalog.contents.read_of(old)
        self.ledger.note_snapshot(name, prepared.identity, before)
        try:
            bounds, chosen = buy_bounds(cast("LabAccess", self), prepared, choices)
        finally:
            # Until the new snapshot is there, other copies of the folder go on with the old.
            if old is not None:
                mine = self._catalog.contents.read_of(prepared)
                self.ledger.note_snapshot(name, old.identity, mine)
        return apply_bounds(said, bounds), chosen

    def _open_account(self, table: Table, agreed: Budget | None) -> None:
        """Open the account of a table's population, with the quotas that were granted for later."""
        if agreed is not None:
            self.ledger.open_account(population_account(table.population), agreed, table.relation)
            grant_later(self.ledger, self._catalog.contents, table.population)

    def _declared(self, name: str, said: Schema, old: Table | None = None) -> tuple[Table, Budget | None]:
        """Return a table and its population's budget, or refuse what cannot be registered.

        One of its name must be `old`, if there is any.
        """
        table = declare_table(name, said.unit, said.columns, said.neighbours, said.rows)
        if old is not None:
            return replace(table, pace=old.pace), None
        known = next((each for each in self._catalog.tables if each.casefold() == name.casefold()), None)
        if known is not None:
            raise PolicyError(
                "SF-C110",
                f"'{known}' is registered already.",
                try_=f'lab.advance("{known}", …) for a new snapshot, or lab.drop("{known}") first',
            )
        require_one_relation(self._catalog.contents, table)
        return table, agree_on_budget(self.ledger, table, said.budget)

    def _prepared(self, table: Table, source: Any, *, confirmed: bool) -> tuple[Table, SourceReport | None]:
        """Return the table with a new snapshot and what is public about it, and what to tell the steward.

        Losses that are not `confirmed` are refused.
        """
        table = require_declared_values(self.engine, source, table)
        numbered = self._catalog.begin_snapshot(replace(table, home=self.engine.home(source)))
        found = self._make_snapshot(numbered, source)
        report = None
        if found is not None:
            formatted = find_formats(self.engine, source, numbered, found)
            if formatted != numbered:
                numbered, found = formatted, self._make_snapshot(formatted, source)
        if found is not None:
            report = SourceReport(numbered, found, describe_formats(numbered, table))
            report.require_confirmed(confirmed)
        if table.is_public:
            return count_public_facts(self.engine, numbered), report
        if table.public_rows is not None:
            require_rows(self.engine, numbered)
        return numbered, report

    def _make_snapshot(self, table: Table, source: Any) -> SourceSurvey | None:
        """Make the table's snapshot, or make it again. Return what the declaration does to the source."""
        preparation = table.make_preparation(read_ranking_key(self.folder))
        return self.engine.prepare(source, preparation, table.snapshot_name, survey=True)
