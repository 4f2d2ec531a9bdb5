"""What a steward holds: a folder with the catalog, the ledger and the prepared snapshots."""

from __future__ import annotations

import hmac
import secrets
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.catalog import Catalog, Table, declare_table
from sfumato.curator.catalog.public_facts import count_public_facts, require_rows
from sfumato.curator.catalog.publications import Publication, Publications
from sfumato.curator.catalog.schema_file import Schema
from sfumato.curator.catalog.schema_file import read_schema as read_schema
from sfumato.curator.incidents import Incidents
from sfumato.errors import PolicyError, UsageError
from sfumato.files.durable import create_private_file
from sfumato.lab.published import Published
from sfumato.lab.session import AccountView, BudgetView, Session
from sfumato.ledger.location import create_ledger, open_ledger
from sfumato.privacy.account import caps, left
from sfumato.privacy.budget import Budget
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Unpack

    from sfumato.curator.answers.release import Release
    from sfumato.curator.catalog.catalog import CatalogContents
    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.payer import Spending
    from sfumato.engines.router import EngineRouter
    from sfumato.privacy.exact import Number
    from sfumato.privacy.graph_units import Protected

_KEY = "ranking.key"
_UNREACHABLE = ("SF-C209", "SF-C214", "SF-C216")
"""What says that a database or a Spark cannot be had now."""


class Lab:
    """Tables, whose rows they are, and how much may ever be learnt from them."""

    def __init__(self, folder: Path, ledger: str | None = None) -> None:
        self.folder = folder
        self._catalog = Catalog(folder / "catalog.json")
        self.ledger = open_ledger(folder, ledger)
        self.incidents = Incidents(folder / "incidents.log")
        self._publications = Publications(folder / "published.json")

    # ---- the steward ----

    def register(
        self,
        name: str,
        source: Any,
        *,
        unit: Protected | None = None,
        columns: Mapping[str, DeclaredColumn] | None = None,
        budget: Budget | None = None,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        rows: int | None = None,
        schema: str | Path | None = None,
    ) -> None:
        """Prepare a table and open its budget.

        `source` is a parquet or csv path, an Arrow table, a pandas or polars frame, a table in PostgreSQL as
        postgresql://user@host/database#schema.table, a Spark DataFrame, or spark:catalog.schema.table. Only
        the unit and the declared columns are kept, each unit with at most `max_rows` rows, numbers within
        their bounds.
        `schema` is a TOML file that says all the rest. `neighbours=sf.REPLACE_ONE` makes the number of rows
        public, which must then be `rows`.
        With sf.Node or sf.Edge as the unit the source is a list of edges, which `s.graph(name)` asks about.
        """
        said = Schema(unit, dict(columns or {}), budget, neighbours, rows)
        if schema is not None:
            _require_nothing_else(said)
            said = read_schema(schema)
        table = declare_table(name, said.unit, said.columns, said.neighbours, said.rows)
        with self._changing():
            if name in self._catalog.tables:
                raise PolicyError("SF-C110", f"'{name}' is registered already.", try_="lab.advance(…)")
            self._require_one_relation(table)
            agreed = self._agreed_budget(table, said.budget)
            prepared = self._prepared(table, source)
            if agreed is not None:
                self.ledger.open_account(population_account(table.population), agreed)
            self._catalog.add_table(prepared)

    def advance(
        self,
        name: str,
        source: Any,
        *,
        columns: Mapping[str, DeclaredColumn] | None = None,
        max_rows: int | None = None,
        rows: int | None = None,
    ) -> None:
        """Make the table's next snapshot, with the same promises unless others are given.

        Everyone sees the counter move on. The people stay the same, and so does what is left of their budget;
        answers about the old snapshot are not answers about the new one. The old one is erased.
        """
        with self._changing():
            old = self._catalog.find_table(name)
            unit = old.protects if max_rows is None else _with_max_rows(old, max_rows)
            promised = old.columns if columns is None else columns
            public_rows = None if old.is_public else old.public_rows if rows is None else rows
            table = declare_table(name, unit, promised, old.neighbours, public_rows)
            self._catalog.add_table(self._prepared(table, source))

    def drop(self, name: str) -> None:
        """Erase a table and its snapshot. What was spent on its people stays spent."""
        with self._changing():
            self._catalog.remove_table(self._catalog.find_table(name).name)

    def publish(self, sql: str, *, given: dict[str, Any] | None = None, **spend: Unpack[Spending]) -> Release:
        """Release a question once for all: the steward pays, and everyone may read the answer for nothing."""
        query = self.session().sql(sql)
        request = query.quote(given=given, **spend).plan.request
        release = query.release(given=given, **spend)
        asked = {**spend} | ({} if given is None else {"given": given})
        with self._catalog.lock_for_change():
            self._publications.add_publication(Publication(sql, asked, request))
        return release

    def published(self) -> tuple[Published, ...]:
        """What was published, in that order; `.read()` gives the answer."""
        return tuple(Published(self, each) for each in self._publications.read_all())

    def grant(self, analyst: str, *, epsilon: Number, delta: Number = 0) -> None:
        """Give an analyst a quota on every population there is. What they spent before stays spent."""
        if not isinstance(analyst, str) or not analyst or ":" in analyst:
            raise UsageError(
                "SF-C116", "A grant names an analyst, without a colon.", try_='lab.grant("ada", epsilon=1)'
            )
        populations = self.populations()
        if not populations:
            raise UsageError(
                "SF-C117", "There is no table to grant a quota on yet.", try_="lab.register(…) first"
            )
        for population in populations:
            self.ledger.grant(quota_account(population, analyst), Budget(epsilon, delta))

    # ---- the analyst ----

    def session(self, analyst: str | None = None) -> Session:
        """A session that spends an analyst's quota; without a name, the steward's own on the whole budget."""
        if analyst is not None and not self._granted(analyst):
            raise PolicyError(
                "SF-B103",
                f"'{analyst}' has no quota here.",
                try_=f'lab.grant("{analyst}", epsilon=1), or lab.session() as the steward',
            )
        return Session(self, analyst)

    @property
    def budget(self) -> BudgetView:
        """What is left of every population."""
        return self.budget_of(None)

    # ---- what both look up ----

    def table(self, name: str) -> Table:
        return self._catalog.find_table(name)

    @property
    def contents(self) -> CatalogContents:
        """All that the catalog says now: the same object until it changes."""
        return self._catalog.contents

    def reading(self) -> AbstractContextManager[None]:
        """Snapshots stay where they are until it ends."""
        return self._catalog.lock_for_reading()

    def tables(self) -> tuple[Table, ...]:
        return tuple(self._catalog.tables.values())

    def populations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table.population for table in self.tables() if not table.is_public))

    def accounts(self, population: str, analyst: str | None) -> tuple[str, ...]:
        """The accounts one charge touches: the population's, and the analyst's quota on it."""
        quota = () if analyst is None else (quota_account(population, analyst),)
        return (population_account(population), *quota)

    def budget_of(self, analyst: str | None) -> BudgetView:
        names = [
            account for population in self.populations() for account in self.accounts(population, analyst)
        ]
        known = self.ledger.list_accounts()
        return BudgetView(tuple(self._view(name) for name in names if name in known))

    @cached_property
    def engine(self) -> EngineRouter:
        from sfumato.engines.router import EngineRouter

        own = hmac.new(self._ranking_key(), b"schema", "sha256").hexdigest()[:16]
        return EngineRouter(self.folder, f"sfumato_{own}")

    def __repr__(self) -> str:
        return f"Lab({self.folder.name!r}, tables={[table.name for table in self.tables()]})"

    # ---- parts ----

    def _granted(self, analyst: str) -> bool:
        accounts = self.ledger.list_accounts()
        named = isinstance(analyst, str) and ":" not in analyst
        return named and any(
            quota_account(population, analyst) in accounts for population in self.populations()
        )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change at a time. Snapshots of no use are erased before, if one was interrupted, and after."""
        with self._catalog.lock_for_change():
            self._erase_leftovers()
            try:
                yield
            finally:
                self._erase_leftovers()

    def _erase_leftovers(self) -> None:
        """Those in a place that cannot be opened now stay leftovers, and nothing else waits for it."""
        for snapshot in self._catalog.contents.leftovers:
            try:
                with self._catalog.lock_for_erasing():
                    self.engine.erase(snapshot)
            except UsageError as problem:
                if problem.code not in _UNREACHABLE:
                    raise
            else:
                self._catalog.forget_snapshot(snapshot)

    def _prepared(self, table: Table, source: Any) -> Table:
        """The table with a new snapshot and what is public about it."""
        numbered = self._catalog.begin_snapshot(replace(table, home=self.engine.home(source)))
        self.engine.prepare(source, numbered.make_preparation(self._ranking_key()), numbered.snapshot_name)
        if table.is_public:
            return count_public_facts(self.engine, numbered)
        if table.public_rows is not None:
            require_rows(self.engine, numbered)
        return numbered

    def _require_one_relation(self, table: Table) -> None:
        """What is paid for one relation is not for the other, and an account outlives its tables."""
        known = self._catalog.contents.relations.get(table.population, table.neighbours)
        if known is not table.neighbours and not table.is_public:
            raise PolicyError(
                "SF-C128",
                f"The tables of {table.population} do not have the same neighbours.",
                known=known.value,
                got=table.neighbours.value,
                try_="the same neighbours, or another population",
            )

    def _agreed_budget(self, table: Table, budget: Budget | None) -> Budget | None:
        if table.is_public:
            _require_no_budget(table, budget)
            return None
        account = population_account(table.population)
        if account in self.ledger.list_accounts():
            return self._same_budget(account, budget)
        if not isinstance(budget, Budget):
            raise UsageError(
                "SF-C103",
                f"Say how much may ever be learnt about one {table.population}.",
                try_="budget=sf.Budget(epsilon=4, delta=1e-7)",
            )
        return budget

    def _same_budget(self, account: str, budget: Budget | None) -> Budget:
        """A later table of a population shares its budget, whether or not it is named again."""
        agreed = self.ledger.read_budget(account)
        if budget not in (None, agreed):
            raise PolicyError(
                "SF-C120",
                "These people have a budget already, and it is fixed.",
                account=account,
                budget=repr(agreed),
                try_="leave budget out: the tables share it",
            )
        return agreed

    def _ranking_key(self) -> bytes:
        return (self.folder / _KEY).read_bytes()

    def _view(self, account: str) -> AccountView:
        budget = self.ledger.read_budget(account)
        rest = left(caps(budget), self.ledger.read_spent(account))
        return AccountView(
            account, float(budget.epsilon), float(budget.delta), rest.share, float(rest.epsilon)
        )


def create(path: str | Path, *, ledger: str | None = None) -> Lab:
    """Make a lab in a new folder.

    Its ledger is a file there, for one machine. With ledger="postgresql://user@host/database#schema" it is
    in that database, for several: they share the budget, each with a copy of the folder.
    """
    folder = Path(path).resolve()  # a lab stays itself when the process changes its directory
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("SF-C118", f"'{folder.name}' is there already.", try_=f'sf.open("{folder}")')
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_ledger(folder, ledger)
    create_private_file(folder / _KEY, secrets.token_bytes(32))
    return Lab(folder)


def open(path: str | Path, *, ledger: str | None = None) -> Lab:
    """Open a lab that `create` made. `ledger` is the new address of a ledger in a database that has moved."""
    folder = Path(path).resolve()
    if not (folder / _KEY).exists():
        raise UsageError("SF-C119", f"'{folder.name}' is not a lab.", try_=f'sf.create("{folder}")')
    return Lab(folder, ledger)


def population_account(population: str) -> str:
    return f"population:{population}"


def quota_account(population: str, analyst: str) -> str:
    return f"quota:{population}:{analyst}"


def _require_nothing_else(said: Schema) -> None:
    if said != Schema(None, {}, None, Neighbours.ADD_REMOVE, None):
        raise UsageError(
            "SF-C129",
            "A schema says everything about a table, so nothing is said beside it.",
            try_='lab.register("visits", "visits.parquet", schema="visits.toml")',
        )


def _require_no_budget(table: Table, budget: Budget | None) -> None:
    if budget is not None:
        raise UsageError(
            "SF-C130", f"'{table.name}' is public and has no budget.", try_="leave budget out, or name a unit"
        )


def _with_max_rows(table: Table, max_rows: int) -> Unit:
    if table.unit.column is None:
        raise UsageError(
            "SF-C131", f"Each row of '{table.name}' stands for itself.", try_="leave max_rows out"
        )
    return Unit(table.unit.column, max_rows, table.unit.of)
