"""Analysts: their quotas, the tables that they may ask about, and what becomes of both.

Quotas are accounts of the ledger. Which tables an analyst may ask about, where that is not all of them, is in
the catalog: it decides who may ask, and no promise to the people in a table rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.catalog import no_table_error
from sfumato.curator.catalog.grants import Grant
from sfumato.curator.payer import REVOKED, no_quota_error, quota_account
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.budget_view import AccountView, list_blocks, list_populations, view_account
from sfumato.ledger.api import PROJECT, parse_account

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.curator.catalog.catalog import Catalog, CatalogContents, Table
    from sfumato.curator.catalog.publications import Publication
    from sfumato.curator.incidents import Incidents
    from sfumato.curator.payer import LabAccess
    from sfumato.engines.program import Engine
    from sfumato.ledger import Ledger
    from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Analyst:
    """An analyst as the steward sees them: their quotas, and the tables that they may ask about."""

    name: str
    quotas: tuple[AccountView, ...]
    tables: tuple[str, ...] | None
    """None where they may ask about every table of the populations that they have a quota on."""
    later: bool
    """Whether they get the same quota on populations that are registered later."""

    def __str__(self) -> str:
        tables = "every table" if self.tables is None else ", ".join(self.tables)
        later = ", and on later populations too" if self.later else ""
        quotas = "\n".join(f"  {quota.sentence()}" for quota in self.quotas) or "  no quota"
        return f"{self.name} may ask about {tables}{later}.\n{quotas}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        tables = None if self.tables is None else list(self.tables)
        quotas = {quota.name: quota.to_dict() for quota in self.quotas}
        return {"analyst": self.name, "tables": tables, "later": self.later, "quotas": quotas}


def grant_quota(
    ledger: Ledger, catalog: Catalog, analyst: str, quota: Budget, tables: Iterable[str] | None, later: bool
) -> None:
    """Give an analyst a quota on populations; remember which tables it is for."""
    _require_analyst(analyst)
    named = None if tables is None else _find_tables(catalog, tables)
    if named is not None and later:
        raise UsageError(
            "SF-C117",
            "A grant for some tables cannot be one for later populations too.",
            try_='lab.grant("ada", epsilon=1, later=True)',
        )
    populations = list_populations(catalog.tables.values() if named is None else named)
    if not populations and not later:
        raise UsageError(
            "SF-C117", "There is no table to grant a quota on yet.", try_="lab.register(…) first"
        )
    for population in (*populations, *list_blocks(ledger, populations)):
        ledger.grant(quota_account(population, analyst), quota)
    only = None if named is None else tuple(table.name for table in named)
    catalog.set_grant(analyst, Grant(only, quota if later else None))


def revoke_quota(ledger: Ledger, catalog: Catalog, analyst: str, *, must_hold: bool = True) -> None:
    """Take every quota of an analyst away. What they spent stays spent."""
    _require_analyst(analyst)
    held = [account for account in ledger.list_accounts() if parse_account(account)[1] == analyst]
    if must_hold and not held and analyst not in catalog.contents.grants:
        raise no_quota_error(analyst)
    for account in held:
        if ledger.read_budget(account) != REVOKED:
            ledger.grant(account, REVOKED)
    catalog.set_grant(analyst, None)


def grant_later(ledger: Ledger, contents: CatalogContents, population: str) -> None:
    """Give the quotas that were granted on later populations, on a population that is new."""
    for analyst, grant in contents.grants.items():
        account = quota_account(population, analyst)
        if grant.later is not None and account not in ledger.list_accounts():
            ledger.grant(account, grant.later)


def list_analysts(ledger: Ledger, contents: CatalogContents) -> tuple[Analyst, ...]:
    """Return every analyst with a quota, or with the promise of one."""
    held: dict[str, list[str]] = {name: [] for name in contents.grants}
    for account in ledger.list_accounts():
        analyst = parse_account(account)[1]
        is_person = analyst is not None and not analyst.startswith(PROJECT)
        if analyst is not None and is_person and ledger.read_budget(account) != REVOKED:
            held.setdefault(analyst, []).append(account)
    return tuple(
        Analyst(
            name,
            tuple(view_account(ledger, account) for account in accounts),
            contents.grants.get(name, Grant()).tables,
            contents.grants.get(name, Grant()).later is not None,
        )
        for name, accounts in sorted(held.items())
    )


@dataclass(frozen=True, slots=True)
class GrantedLab:
    """A lab as an analyst sees it who may ask about some tables only. Public tables are for everyone."""

    lab: LabAccess
    analyst: str

    @property
    def ledger(self) -> Ledger:
        return self.lab.ledger

    @property
    def engine(self) -> Engine:
        return self.lab.engine

    @property
    def incidents(self) -> Incidents:
        return self.lab.incidents

    @property
    def streams_folder(self) -> Path:
        return self.lab.streams_folder

    @property
    def synthetic_folder(self) -> Path:
        return self.lab.synthetic_folder

    @property
    def feeds_file(self) -> Path:
        return self.lab.feeds_file

    @property
    def contents(self) -> CatalogContents:
        return self.lab.contents

    def table(self, name: str) -> Table:
        """Return a table, or refuse one that was not granted as one that is not there.

        One refusal for both, or names of tables could be guessed.
        """
        try:
            table = self.lab.table(name)
            if self._may_ask(table):
                return table
        except PolicyError as problem:
            if problem.code != "SF-Q106":
                raise
        raise no_table_error(name, [each.name for each in self.tables()]) from None

    def tables(self) -> tuple[Table, ...]:
        """Return the tables that the analyst may ask about."""
        return tuple(filter(self._may_ask, self.lab.tables()))

    def publications(self) -> tuple[Publication, ...]:
        """Return what was published, which is for everyone."""
        return self.lab.publications()

    def create_beside(self, folder: Path) -> Any:
        """Make a new lab."""
        return self.lab.create_beside(folder)

    def reading(self, snapshots: Collection[str]) -> AbstractContextManager[None]:
        """Keep these snapshots where they are until the block ends."""
        return self.lab.reading(snapshots)

    def _may_ask(self, table: Table) -> bool:
        granted = self.contents.grants.get(self.analyst, Grant()).tables
        return granted is None or table.is_public or table.name in granted


def _require_analyst(analyst: Any) -> None:
    if not isinstance(analyst, str) or not analyst or ":" in analyst:
        raise UsageError(
            "SF-C116", "A grant names an analyst, without a colon.", try_='lab.grant("ada", epsilon=1)'
        )
    if analyst.startswith(PROJECT):
        raise UsageError(
            "SF-C116",
            "This is how the quotas of a project are named, and no analyst.",
            try_="lab.create_project(…), or lab.change_project(…)",
        )


def _find_tables(catalog: Catalog, names: Iterable[str]) -> tuple[Table, ...]:
    if isinstance(names, str):
        raise UsageError(
            "SF-C117", "tables= takes a list of names.", try_='lab.grant("ada", epsilon=1, tables=["visits"])'
        )
    return tuple(catalog.find_table(name) for name in names)
