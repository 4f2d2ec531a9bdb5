"""Analysts: their quotas, the tables that they may ask about, and what becomes of both.

Quotas are accounts of the ledger. Who spends a quota together, and which tables it is for, is in the catalog:
it decides who may ask, and no promise to the people in a table rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.catalog import no_table_error
from sfumato.curator.catalog.grants import Grant, find_quota_holder
from sfumato.curator.payer import REVOKED, no_quota_error, population_account, quota_account
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.lab.budget_view import AccountView, list_blocks, list_populations, view_account
from sfumato.ledger.api import parse_account
from sfumato.ledger.chain import require_utf8

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
    """An analyst, or a team with one quota: their quotas, and the tables that they may ask about."""

    name: str
    quotas: tuple[AccountView, ...]
    tables: tuple[str, ...] | None
    """None where they may ask about every table of the populations that they have a quota on."""
    later: bool
    """Whether they get the same quota on populations that are registered later."""
    members: tuple[str, ...] = ()
    """The analysts of a team."""
    warnings: tuple[str, ...] = ()
    """What is probably not meant about the quotas, one sentence each."""

    def __str__(self) -> str:
        tables = "every table" if self.tables is None else ", ".join(self.tables)
        later = ", and on later populations too" if self.later else ""
        quotas = "\n".join(f"  {quota.sentence()}" for quota in self.quotas) or "  no quota"
        team = f" ({', '.join(self.members)})" if self.members else ""
        noted = "".join(f"\n  {warning}" for warning in self.warnings)
        return f"{self.name}{team} may ask about {tables}{later}.\n{quotas}{noted}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        tables = None if self.tables is None else list(self.tables)
        quotas = {quota.name: quota.to_dict() for quota in self.quotas}
        members = list(self.members)
        return {
            "analyst": self.name,
            "members": members,
            "tables": tables,
            "later": self.later,
            "quotas": quotas,
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }


def grant_quota(
    ledger: Ledger,
    catalog: Catalog,
    analyst: str,
    quota: Budget,
    tables: Iterable[str] | None,
    later: bool,
    members: Iterable[str] = (),
) -> None:
    """Give an analyst or a team a quota on populations; remember whose it is and which tables it is for."""
    require_analyst_name(analyst)
    team = _parse_members(members)
    _require_one_quota(ledger, catalog.contents, analyst, team)
    named = None if tables is None else _find_tables(catalog, tables)
    if named is not None and later:
        raise UsageError(
            "SF-U104",
            "A grant for some tables cannot be one for later populations too.",
            try_='lab.grant("ada", epsilon=1, later=True)',
        )
    populations = list_populations(catalog.tables.values() if named is None else named)
    if not populations and not later:
        raise UsageError(
            "SF-U104", "There is no table to grant a quota on yet.", try_="lab.register(…) first"
        )
    accounts = [quota_account(each, analyst) for each in (*populations, *list_blocks(ledger, populations))]
    for account in accounts:
        parse_account(account)  # before anything is written down
    # First who it is for: a quota that was set and not assigned would be spent by one analyst of its name.
    only = None if named is None else tuple(table.name for table in named)
    catalog.set_grant(analyst, Grant(only, quota if later else None, team))
    for account in accounts:
        ledger.grant(account, quota)


def revoke_quota(ledger: Ledger, catalog: Catalog, analyst: str) -> None:
    """Take every quota of an analyst or a team away, or take a member out of a team."""
    require_analyst_name(analyst)
    team = find_quota_holder(catalog.contents.grants, analyst)
    if team != analyst:
        grant = catalog.contents.grants[team]
        rest = tuple(name for name in grant.members if name != analyst)
        if rest:
            catalog.set_grant(team, replace(grant, members=rest))
            return
        analyst = team  # without members it would be the quota of an analyst of this name
    held = [account for account in ledger.list_accounts() if parse_account(account)[1] == analyst]
    if not held and analyst not in catalog.contents.grants:
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
        if analyst is not None and ledger.read_budget(account) != REVOKED:
            held.setdefault(analyst, []).append(account)
    return tuple(
        Analyst(
            name,
            tuple(view_account(ledger, account) for account in accounts),
            grant.tables,
            grant.later is not None,
            grant.members,
            tuple(filter(None, (_describe_large_quota(ledger, account) for account in accounts))),
        )
        for name, accounts in sorted(held.items())
        for grant in [contents.grants.get(name, Grant())]
    )


def _describe_large_quota(ledger: Ledger, account: str) -> str:
    """Return a warning about a quota that is larger than the budget it is a part of; empty for others."""
    population, analyst = parse_account(account)
    quota, budget = (ledger.read_budget(each) for each in (account, population_account(population)))
    parts = (("ε", quota.epsilon, budget.epsilon), ("δ", quota.delta, budget.delta))
    larger = [part for part in parts if part[1] > part[2]]
    if not larger:
        return ""
    given = " and ".join(f"{letter} = {format_number(more)}" for letter, more, _ in larger)
    whole = " and ".join(f"{letter} = {format_number(most)}" for letter, _, most in larger)
    return f"The quota of '{analyst}' on {population} is {given}, but the whole budget is {whole}."


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
        grants = self.contents.grants
        granted = grants.get(find_quota_holder(grants, self.analyst), Grant()).tables
        return granted is None or table.is_public or table.name in granted


def require_analyst_name(analyst: Any) -> str:
    """Return the name of an analyst or a team."""
    if isinstance(analyst, str) and analyst.strip() and ":" not in analyst:
        require_utf8(analyst)
        return analyst
    raise UsageError(
        "SF-C113", "A grant names an analyst, without a colon.", try_='lab.grant("ada", epsilon=1)'
    )


def _parse_members(members: Iterable[str]) -> tuple[str, ...]:
    """Return the members of a team, each once, sorted."""
    if isinstance(members, str):
        raise UsageError("SF-C113", "members= takes a list of names.", try_=f'members=["{members[:40]}"]')
    return tuple(sorted({require_analyst_name(each) for each in members}))


def _require_one_quota(
    ledger: Ledger, contents: CatalogContents, analyst: str, members: tuple[str, ...]
) -> None:
    """Refuse a grant after which somebody could spend two quotas: it would not be clear which one pays."""
    for name in (analyst, *members):
        holder = find_quota_holder(contents.grants, name)
        if holder not in (name, analyst):
            raise PolicyError(
                "SF-P110",
                f"'{name}' is a member of '{holder}' and spends its quota.",
                try_=f'lab.revoke("{name}") first; what was spent stays spent',
            )
    for name in members:
        if name == analyst or name in contents.grants or holds_quota(ledger, name):
            raise PolicyError(
                "SF-P110",
                f"'{name}' has a quota and cannot be a member of '{analyst}' too.",
                try_=f'lab.revoke("{name}") first; what was spent stays spent',
            )


def has_quota(lab: LabAccess, analyst: str) -> bool:
    """Return whether an analyst may spend a quota, their own or their team's."""
    return holds_quota(lab.ledger, find_quota_holder(lab.contents.grants, analyst))


def holds_quota(ledger: Ledger, name: str) -> bool:
    """Return whether a quota of this name was granted and not taken away."""
    held = [account for account in ledger.list_accounts() if parse_account(account)[1] == name]
    return any(ledger.read_budget(account) != REVOKED for account in held)


def _find_tables(catalog: Catalog, names: Iterable[str]) -> tuple[Table, ...]:
    if isinstance(names, str):
        raise UsageError(
            "SF-U104", "tables= takes a list of names.", try_='lab.grant("ada", epsilon=1, tables=["visits"])'
        )
    return tuple(catalog.find_table(name) for name in names)
