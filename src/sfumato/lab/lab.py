"""What a steward holds: a folder with the catalog, the ledger and the prepared snapshots."""

from __future__ import annotations

import hmac
import math
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sfumato.curator.catalog.catalog import Catalog, Table, declare_table
from sfumato.curator.catalog.leftovers import PATIENCE, change_alone
from sfumato.curator.catalog.public_facts import count_public_facts, require_rows
from sfumato.curator.catalog.publications import Publication, Publications
from sfumato.curator.catalog.schema_file import Schema
from sfumato.curator.incidents import Incidents
from sfumato.curator.payer import REVOKED, no_quota_error, population_account, quota_account
from sfumato.errors import PolicyError, UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_file, create_private_folder, lock_folder, move_files
from sfumato.lab.analysts import GrantedLab, grant_later, grant_quota, list_analysts, revoke_quota
from sfumato.lab.backup import back_up
from sfumato.lab.blocks import declare_blocks, move_through, open_blocks
from sfumato.lab.bounds.choosing import (
    apply_bounds,
    buy_bounds,
    list_choices,
    plan_choices,
    require_no_choice,
    widen_schema,
)
from sfumato.lab.budget_view import BudgetView, list_populations, view_budget
from sfumato.lab.draft import draft_schema
from sfumato.lab.feeds.naming import require_feed_name
from sfumato.lab.folder import (
    DRAFT,
    KEY,
    KEY_BYTES,
    make_folder,
    read_ranking_key,
    require_lab,
    require_vacant,
)
from sfumato.lab.published import list_publications
from sfumato.lab.registration import (
    agree_on_budget,
    combine_schema,
    hint_at_populations,
    hint_at_same_rows,
    require_one_divider,
    require_one_relation,
    require_rows_not_edges,
    with_max_rows,
)
from sfumato.lab.report import SourceReport
from sfumato.lab.session import Session
from sfumato.lab.surveys.desk import SurveyDesk
from sfumato.lab.work.desk import WorkDesk
from sfumato.lab.work.project_lab import ProjectLab
from sfumato.lab.work.projects import remove_member, require_open_project
from sfumato.ledger.api import PROJECT
from sfumato.ledger.location import create_ledger, open_ledger, open_ledger_to_read
from sfumato.privacy.budget import Budget
from sfumato.privacy.exact import parse_positive, parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Unpack

    from sfumato.curator.answers.release import Release
    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.curator.catalog.chosen import ChosenBound
    from sfumato.curator.catalog.columns import DeclaredColumn, UnboundedColumn
    from sfumato.curator.hostile.reading import SlotReader
    from sfumato.curator.payer import Spending
    from sfumato.engines.limits import RunLimits
    from sfumato.engines.router import EngineRouter
    from sfumato.lab.analysts import Analyst
    from sfumato.lab.feeds.mirror import MirrorReport
    from sfumato.lab.published import Published
    from sfumato.lab.synthetic.published_table import PublishedTable
    from sfumato.ledger.api import SnapshotRead, Verified
    from sfumato.privacy.bound_choice import BoundChoice
    from sfumato.privacy.exact import Number
    from sfumato.privacy.graph_units import Protected
    from sfumato.synth import Marginals, Twin


class Lab(WorkDesk, SurveyDesk):
    """Tables, whose rows they are, and how much may ever be learnt from them."""

    def __init__(self, folder: Path, ledger: str | None = None, *, reads_only: bool = False) -> None:
        self.folder = folder
        self._catalog = Catalog(folder / "catalog.json")
        identity = identify_lab(self._ranking_key())
        self.ledger = open_ledger_to_read(folder) if reads_only else open_ledger(folder, ledger)
        # A ledger is about the rows of one lab. An older one gets its lab now.
        self.ledger.claim(identity)
        self.incidents = Incidents(folder / "incidents.log")
        self._publications = Publications(folder / "published.json")
        self.reader_places: int | None = None
        """Questions of hostile sessions that are read at a time; None for as many as there are processors."""

    # ---- the steward ----

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
        With sf.Node or sf.Edge as the unit the source is a list of edges, which `s.graph(name)` asks about.
        The report has exact counts of protected rows: it is for the steward alone, and is kept nowhere. Of a
        graph there is none.
        """
        said = combine_schema(Schema(unit, dict(columns or {}), budget, neighbours, rows), schema)
        with self._changing():
            accounts = self.ledger.list_accounts()
            said, chosen = self._bought(name, said, source)
            table, agreed = self._declared(name, said)
            prepared, report = self._prepared(table.with_chosen(chosen), source)
            # Before the table appears: no question may come without an account to charge.
            self._open_account(table, agreed)
            self._note_newest(prepared, None)
            self._catalog.add_table(prepared)
        hint_at_populations(accounts, table)
        hint_at_same_rows(self.tables(), table)
        if twin is not None:
            self.publish(twin, table=name)
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

        Whatever `register` would refuse is refused here.
        """
        said = combine_schema(Schema(unit, dict(columns or {}), budget, neighbours, rows), schema)
        require_no_choice(said, "lab.check")
        with name_disk_errors(), self._catalog.lock_for_change():
            table, _ = self._declared(name, said)
            found = self.engine.survey(source, require_rows_not_edges(table))
        return SourceReport(table, found).warn()

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
        said = Schema(unit, dict(columns or {}), budget, Neighbours.ADD_REMOVE, None)
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
    ) -> SourceReport | None:
        """Make the table's next snapshot, with the same promises unless others are given.

        `through={"day": "2026-01-31"}` says that all rows up to that day are there: streams release no later
        tick. What was said so before stays.

        Everyone sees the counter move on. The people stay the same, and so does what is left of their budget;
        answers about the old snapshot are not answers about the new one. The old one is erased; questions
        about it that are being answered have ten seconds to finish, and are then ended and stay charged.

        People may have moved between regions: where the table declares them, each has spent as much from now
        on as the one that had spent most.
        """
        with self._changing():
            old = self._catalog.find_table(name)
            unit = old.protects if max_rows is None else with_max_rows(old, max_rows)
            promised = dict(old.columns if columns is None else columns)
            public_rows = None if old.is_public else old.public_rows if rows is None else rows
            before = self._catalog.contents.read_of(old)
            self.ledger.require_newest(before)  # before rows are prepared
            said = Schema(unit, promised, None, old.neighbours, public_rows)
            said, chosen = self._bought(old.name, said, source, old)
            before = self._catalog.contents.read_of(old)
            table = declare_table(old.name, said.unit, said.columns, old.neighbours, public_rows)
            kept = replace(table, pace=old.pace, through=old.through, blocks=old.blocks)
            kept = kept.with_chosen((*old.chosen, *chosen))
            moved = move_through(kept, through or {})
            open_blocks(self.ledger, self._catalog.contents, moved)
            prepared, report = self._prepared(moved, source)
            self._note_newest(prepared, before)
            self._catalog.add_table(prepared)
        return None if report is None else report.warn()

    def drop(self, name: str) -> None:
        """Erase a table and its snapshot. What was spent on its people stays spent.

        Questions about it that are being answered are ended, and stay charged.
        """
        with self._changing(patience=0):
            self._catalog.remove_table(self._catalog.find_table(name).name)

    def limit_questions(
        self, *, seconds: float | None = None, memory: int | None = None, spill: int | None = None
    ) -> None:
        """Limit the time of each question, and the bytes of memory and disk that DuckDB takes for them.

        What is not given stays as it is. A question that exceeds a limit stays charged and is not answered.
        """
        given = {"seconds": seconds, "memory": memory, "spill": spill}
        new: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        try:
            limits = replace(self.limits, **new)
        except (TypeError, ValueError):
            raise UsageError(
                "SF-C138",
                "Limits are numbers above zero: seconds, and whole bytes.",
                try_="lab.limit_questions(seconds=600, memory=4 * 2**30, spill=16 * 2**30)",
            ) from None
        with name_disk_errors():
            self.engine.set_limits(limits)

    @property
    def limits(self) -> RunLimits:
        """How long a question may take, and how much memory and disk. Everyone may know this."""
        return self.engine.limits

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

    @overload
    def publish(
        self, asked: str, *, hostile: bool = False, name: str | None = None, **spend: Unpack[Spending]
    ) -> Release: ...

    @overload
    def publish(
        self,
        asked: Marginals | Twin,
        *,
        table: str | None = None,
        columns: Sequence[str] = (),
        rows: int = 1000,
        rows_per_unit: int = 1,
        name: str | None = None,
        key: str | None = None,
    ) -> PublishedTable: ...

    def publish(self, asked: Any, **more: Any) -> Release | PublishedTable:
        """Release a question once for all: the steward pays, and everyone may read the answer for nothing.

        `name` is where feeds and mirrors have the answer; whatever is published later under it takes its
        place there.
        A `sf.synth.Marginals` is fitted on `columns` of `table`, unless it was fitted in this lab before, and
        one synthetic table of so many rows is kept with its card: the same file for everyone, whatever
        happens to the table. `key` numbers its rows. A `sf.synth.Twin` is published likewise.
        With `hostile` a question is asked as in a hostile session.
        """
        if isinstance(asked, str):
            return self._publish_question(asked, **more)
        from sfumato.lab.synthetic.publishing import publish_table

        return publish_table(self, self.session().fit, self._catalog.lock_for_change, asked, **more)

    def _publish_question(
        self, sql: str, *, hostile: bool = False, name: str | None = None, **spend: Unpack[Spending]
    ) -> Release:
        named = None if name is None else require_feed_name(name)  # before anything is charged
        release = self.session(hostile=hostile).question(sql).release(**spend)
        asked = {name: value for name, value in spend.items() if value is not None}
        # What was declared is kept beside the question: its answer stays readable when tables change.
        tables = {table.name: table for table in release.tables}
        today = datetime.now(UTC).date()
        with self._catalog.lock_for_change():
            self._publications.add_publication(Publication(sql, asked, release.request, today, tables, named))
        return release

    def published(self) -> tuple[Published | PublishedTable, ...]:
        """Return what was published, questions first; `.read()` gives the answer or the synthetic table."""
        return list_publications(self)

    def mirror(
        self, address: str, *, analysts: Iterable[str] = (), reader: str | None = None
    ) -> MirrorReport:
        """Write what was published into a schema of a PostgreSQL database, for tools that read SQL.

        `address` is postgresql://user@host/database#schema. Answers that these analysts keep as feeds are
        written too. `reader` is a role that may read the tables and nothing else; it is made if need be.
        What has not changed is left alone, so this can run as often as you like. It costs nothing.
        """
        from sfumato.lab.feeds.mirror import mirror_feeds

        return mirror_feeds(self, address, tuple(analysts), reader)

    def grant(
        self,
        analyst: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        tables: Iterable[str] | None = None,
        later: bool = False,
    ) -> None:
        """Give an analyst a quota on every population there is. What they spent before stays spent.

        With `tables` they may ask about these alone, and about public ones, and the quota is on their
        populations. With `later` they get the same quota on every population that is registered later.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            grant_quota(self.ledger, self._catalog, analyst, Budget(epsilon, delta), tables, later)

    def revoke(self, analyst: str) -> None:
        """Take every quota of an analyst away, also from open sessions. What they spent stays spent.

        They leave every project, too.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            was_member = remove_member(self._work, analyst)
            revoke_quota(self.ledger, self._catalog, analyst, must_hold=not was_member)

    def analysts(self) -> tuple[Analyst, ...]:
        """Return every analyst with their quotas, what is left of them, and the tables they may ask about."""
        return list_analysts(self.ledger, self._catalog.contents)

    def verify(self) -> Verified:
        """Verify every hash, total and stored answer of the ledger; an error says what is wrong."""
        return self.ledger.verify()

    def back_up(self, file: str | Path) -> Verified:
        """Copy the ledger to a new file while it is in use. The copy holds answers: protect it like the lab.

        `sf.restore(folder, file)` puts it back. Keep the folder's `ranking.key` and `catalog.json` beside it.
        """
        with name_disk_errors():
            return back_up(self.folder, file)

    # ---- the analyst ----

    def session(
        self, analyst: str | None = None, *, project: str | None = None, hostile: bool = False
    ) -> Session:
        """Return a session that spends an analyst's quota; without a name, the steward's own.

        With `project` it spends the project's quota in the place of the analyst's, who must be a member.
        With `hostile=True` each question is read by a worker process with fixed memory, and its reply leaves
        at a time that was public before: use it for whoever is not trusted, and call `close` at the end.
        """
        slots, desk = self._slots if hostile else None, self.request_desk
        if project is not None:
            require_open_project(self._work, project, analyst)
            seen = ProjectLab(self, analyst or "the steward", self._work, project, analyst)
            return Session(seen, analyst, slots, project=project, desk=desk)
        if analyst is None:
            return Session(self, None, slots, desk=desk)
        if not self._granted(analyst):
            raise no_quota_error(analyst)
        return Session(GrantedLab(self, analyst), analyst, slots, desk=desk)

    def close(self) -> None:
        """End the workers of hostile sessions. Whoever asks later starts them anew."""
        if "_slots" in vars(self):
            self._slots.workers.close()

    @property
    def budget(self) -> BudgetView:
        """What is left of every population."""
        return view_budget(self, None)

    # ---- what both look up ----

    def table(self, name: str) -> Table:
        """Return what was declared about a table, and its snapshot."""
        return self._catalog.find_table(name)

    @property
    def contents(self) -> CatalogContents:
        """All that the catalog says now: the same object until it changes."""
        return self._catalog.contents

    @property
    def streams_folder(self) -> Path:
        """Where streams keep what is secret: the memory of their noise, and who was counted when."""
        return self.folder / "streams"

    @property
    def synthetic_folder(self) -> Path:
        """Where synthetic tables that were published lie."""
        return self.folder / "synthetic"

    @property
    def feeds_file(self) -> Path:
        """Where released answers are kept as feeds."""
        return self.folder / "feeds.sqlite"

    def create_beside(self, folder: Path) -> Lab:
        """Make a new lab, such as one of stand-ins to rehearse in."""
        return create(folder)

    def reading(self, snapshots: Collection[str]) -> AbstractContextManager[None]:
        """Keep these snapshots where they are until the block ends."""
        return self._catalog.lock_for_reading(snapshots)

    def publications(self) -> tuple[Publication, ...]:
        """Return the questions that were published, with what was paid for them."""
        return self._publications.read_all()

    def tables(self) -> tuple[Table, ...]:
        """Return every table of the catalog."""
        return tuple(self._catalog.tables.values())

    def populations(self) -> tuple[str, ...]:
        """Return the populations that the tables are about."""
        return list_populations(self.tables())

    @cached_property
    def engine(self) -> EngineRouter:
        """What runs programs, wherever the snapshots lie."""
        from sfumato.engines.router import EngineRouter

        return EngineRouter(self.folder, self._schema)

    @property
    def _schema(self) -> str:
        """The name of the lab's own schema in databases."""
        return f"sfumato_{hmac.new(self._ranking_key(), b'schema', 'sha256').hexdigest()[:16]}"

    @cached_property
    def _slots(self) -> SlotReader:
        """What reads for hostile sessions. Its processes are started now, so that they are ready in time."""
        from sfumato.curator.hostile.host import WorkerHost
        from sfumato.curator.hostile.reading import SlotReader

        workers = WorkerHost(self.folder, self._schema, places=self.reader_places)
        workers.start()
        return SlotReader(workers, self.engine)

    def __repr__(self) -> str:
        return f"Lab({self.folder.name!r}, tables={[table.name for table in self.tables()]})"

    # ---- parts ----

    def _granted(self, analyst: str) -> bool:
        known = self.ledger.list_accounts()
        named = isinstance(analyst, str) and ":" not in analyst and not analyst.startswith(PROJECT)
        quotas = [quota_account(population, analyst) for population in self.populations()] if named else []
        return any(each in known and self.ledger.read_budget(each) != REVOKED for each in quotas)

    def _changing(self, patience: float = PATIENCE) -> AbstractContextManager[None]:
        """Allow one change at a time, and erase snapshots of no use before it and after."""
        return change_alone(self._catalog, self.engine, patience)

    def _bought(
        self, name: str, said: Schema, source: Any, old: Table | None = None
    ) -> tuple[Schema, tuple[ChosenBound, ...]]:
        """Return a declaration with every bound that was to be chosen bought, and what was paid for them."""
        choices = list_choices(said)
        if not choices:
            return said, ()
        table, agreed = self._declared(name, widen_schema(said), old)
        plan_choices(table, choices)  # what no ε could serve is refused before rows are prepared
        prepared, _ = self._prepared(table, source)
        self._open_account(table, agreed)
        before = None if old is None else self._catalog.contents.read_of(old)
        self.ledger.note_snapshot(name, prepared.identity, before)
        try:
            bounds, chosen = buy_bounds(self, prepared, choices)
        finally:
            if (
                old is not None
            ):  # until the new snapshot is there, other copies of the folder go on with the old
                mine = self._catalog.contents.read_of(prepared)
                self.ledger.note_snapshot(name, old.identity, mine)
        return apply_bounds(said, bounds), chosen

    def _open_account(self, table: Table, agreed: Budget | None) -> None:
        """Open the account of a table's population, with the quotas that were granted for later."""
        if agreed is not None:
            self.ledger.open_account(population_account(table.population), agreed, table.relation)
            grant_later(self.ledger, self._catalog.contents, table.population)

    def _note_newest(self, table: Table, before: SnapshotRead | None) -> None:
        """Note a table's new snapshot; where it says who is in which region, open their accounts first.

        Units may have moved between regions, so every account then gets the largest total of all.
        """
        regions = table.find_regions()
        counted = None if regions is None else regions.make_accounts(table.identity)
        if counted is not None:
            budget = self.ledger.read_budget(population_account(table.population))
            for account in counted.accounts:
                self.ledger.open_account(account, budget, table.relation)
        self.ledger.note_snapshot(table.name, table.identity, before, counted)

    def _declared(self, name: str, said: Schema, old: Table | None = None) -> tuple[Table, Budget | None]:
        """Return a table and its population's budget, or refuse what cannot be registered.

        One of its name must be `old`, if there is any.
        """
        table = declare_table(name, said.unit, said.columns, said.neighbours, said.rows)
        if old is not None:
            return replace(table, pace=old.pace), None
        known = next((each for each in self._catalog.tables if each.casefold() == name.casefold()), None)
        if known is not None:
            raise PolicyError("SF-C110", f"'{known}' is registered already.", try_="lab.advance(…)")
        require_one_relation(self._catalog.contents, table)
        require_one_divider(self.tables(), table)
        return table, agree_on_budget(self.ledger, table, said.budget)

    def _prepared(self, table: Table, source: Any) -> tuple[Table, SourceReport | None]:
        """Return the table with a new snapshot and what is public about it, and what to tell the steward."""
        numbered = self._catalog.begin_snapshot(replace(table, home=self.engine.home(source)))
        preparation = numbered.make_preparation(self._ranking_key())
        found = self.engine.prepare(source, preparation, numbered.snapshot_name, survey=True)
        report = None if found is None else SourceReport(numbered, found)
        if table.is_public:
            return count_public_facts(self.engine, numbered), report
        if table.public_rows is not None:
            require_rows(self.engine, numbered)
        return numbered, report

    def _ranking_key(self) -> bytes:
        return read_ranking_key(self.folder)


def create(path: str | Path, *, ledger: str | None = None) -> Lab:
    """Make a lab in a new folder. After a crash, the same call goes on where it was.

    Its ledger is a file there, for one machine. With ledger="postgresql://user@host/database#schema" it is
    in that database, for several: they share the budget, each with a copy of the folder.
    """
    folder = Path(path).resolve()  # a lab stays itself when the process changes its directory
    make_folder(folder)
    draft = folder / DRAFT
    with name_disk_errors(), lock_folder(folder):
        require_vacant(folder)
        create_private_folder(draft)
        # The key comes first: a ledger in a database may already belong to the lab that it makes.
        with suppress(FileExistsError):
            create_private_file(draft / KEY, secrets.token_bytes(KEY_BYTES))
        create_ledger(draft, ledger, identify_lab(read_ranking_key(draft)))
        # The key goes last: a folder without it is no lab.
        move_files(draft, folder, last=KEY)
    return Lab(folder)


def identify_lab(ranking_key: bytes) -> str:
    """Return the identity of a lab, which all copies of its folder share, and no other lab."""
    return hmac.new(ranking_key, b"lab", "sha256").hexdigest()[:32]


def open(path: str | Path, *, ledger: str | None = None) -> Lab:
    """Open a lab that `create` made. `ledger` is the new address of a ledger in a database that has moved."""
    folder = Path(path).resolve()
    with name_disk_errors():
        require_lab(folder)
    with suppress(OSError):
        (folder / DRAFT).rmdir()  # which a crash at the end of `create` has left empty
    return Lab(folder, ledger)


def open_to_read(path: str | Path) -> Lab:
    """Open a lab to look at its budgets. The folder may be a copy, or on a medium that cannot be written."""
    folder = Path(path).resolve()
    with name_disk_errors():
        require_lab(folder)
    return Lab(folder, reads_only=True)
