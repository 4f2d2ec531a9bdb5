"""What a steward holds: a folder with the catalog, the ledger and the prepared snapshots."""

from __future__ import annotations

import hmac
import secrets
import warnings
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sfumato.curator.catalog.catalog import Catalog
from sfumato.curator.catalog.publications import Publication, Publications
from sfumato.curator.incidents import Incidents
from sfumato.curator.payer import no_quota_error
from sfumato.errors import StewardWarning, UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_file, create_private_folder, lock_folder, move_files
from sfumato.lab.analysts import GrantedLab, grant_quota, has_quota, list_analysts, revoke_quota
from sfumato.lab.backup import back_up
from sfumato.lab.budget_view import BudgetView, list_populations, view_budget
from sfumato.lab.folder import (
    DRAFT,
    KEY,
    KEY_BYTES,
    make_folder,
    read_ranking_key,
    require_lab,
    require_vacant,
)
from sfumato.lab.publications.names import require_publication_name
from sfumato.lab.publications.published import list_publications
from sfumato.lab.session import Session
from sfumato.lab.surveys.desk import SurveyDesk
from sfumato.lab.tables.desk import TableDesk
from sfumato.lab.work.desk import WorkDesk
from sfumato.ledger.location import create_ledger, open_ledger, open_ledger_to_read
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager
    from typing import Unpack

    from sfumato.curator.answers.release import Release
    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.curator.hostile.reading import SlotReader
    from sfumato.curator.payer import Spending
    from sfumato.engines.limits import RunLimits
    from sfumato.engines.router import EngineRouter
    from sfumato.lab.analysts import Analyst
    from sfumato.lab.publications.mirror import MirrorReport
    from sfumato.lab.publications.published import Published
    from sfumato.lab.synthetic.published_table import PublishedTable
    from sfumato.ledger.api import Verified
    from sfumato.privacy.exact import Number
    from sfumato.synth import Marginals, Twin


class Lab(TableDesk, WorkDesk, SurveyDesk):
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
                "SF-N101",
                "Limits are numbers above zero: seconds, and whole bytes.",
                try_="lab.limit_questions(seconds=600, memory=4 * 2**30, spill=16 * 2**30)",
            ) from None
        with name_disk_errors():
            self.engine.set_limits(limits)

    @property
    def limits(self) -> RunLimits:
        """How long a question may take, and how much memory and disk. Everyone may know this."""
        return self.engine.limits

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

        `name` is where files and mirrors have the answer; whatever is published later under it takes its
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

    def _publish_twin(self, twin: Twin, table: str) -> None:
        self.publish(twin, table=table)

    def _publish_question(
        self, sql: str, *, hostile: bool = False, name: str | None = None, **spend: Unpack[Spending]
    ) -> Release:
        named = None if name is None else require_publication_name(name)  # before anything is charged
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

    def mirror(self, address: str, *, reader: str | None = None) -> MirrorReport:
        """Write what was published into a schema of a PostgreSQL database, for tools that read SQL.

        `address` is postgresql://user@host/database#schema. `reader` is a role that may read the tables and
        nothing else; it is made if need be. What has not changed is left alone, so this can run as often as
        you like. It costs nothing.
        """
        from sfumato.lab.publications.mirror import mirror_publications

        return mirror_publications(self, address, reader)

    def grant(
        self,
        analyst: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        tables: Iterable[str] | None = None,
        later: bool = False,
        members: Iterable[str] = (),
    ) -> None:
        """Set an analyst's quota on every population there is. What they spent before stays spent.

        With `tables` they may ask about these alone, and about public ones, and the quota is on their
        populations. With `later` they get the same quota on every population that is registered later.
        With `members` the quota is a team's: its members spend it together, and have none of their own.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            quota = Budget.of(epsilon, delta)
            grant_quota(self.ledger, self._catalog, analyst, quota, tables, later, members)
            granted = [each for each in self.analysts() if each.name == analyst]
        for text in (text for each in granted for text in each.warnings):
            warnings.warn(text, StewardWarning, stacklevel=2)

    def revoke(self, analyst: str) -> None:
        """Take every quota of an analyst or a team away, also from open sessions. What was spent stays spent.

        A member of a team leaves it; the quota stays with the others.
        """
        with name_disk_errors(), self._catalog.lock_for_change():
            revoke_quota(self.ledger, self._catalog, analyst)

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

    def session(self, analyst: str | None = None, *, hostile: bool = False) -> Session:
        """Return a session that spends an analyst's or their team's quota; without a name, the steward's own.

        With `hostile=True` each question is read by a worker process with fixed memory, and its reply leaves
        at a time that was public before: use it for whoever is not trusted, and call `close` at the end.
        """
        slots, desk = self._slots if hostile else None, self.request_desk
        if analyst is None:
            return Session(self, None, slots, desk=desk)
        if not has_quota(self, analyst):
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

    def create_beside(self, folder: Path) -> Lab:
        """Make a new lab, such as one of stand-ins to rehearse in."""
        return create(folder)

    def reading(self, snapshots: Collection[str]) -> AbstractContextManager[None]:
        """Keep these snapshots where they are until the block ends."""
        return self._catalog.lock_for_reading(snapshots)

    def publications(self) -> tuple[Publication, ...]:
        """Return the questions that were published, with what was paid for them."""
        return self._publications.read_all()

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
