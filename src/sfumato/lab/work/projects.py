"""Projects: people who work on one purpose, with a quota of their own, until a day.

A project's quota is an account of the ledger, held by "project/<name>" as an analyst's is by their name.
Purpose, members and the last day are in the lab's folder: they decide who may ask, and no promise rests on
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.curator.payer import REVOKED, quota_account
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.budget_view import AccountView, list_blocks, list_populations, view_account
from sfumato.lab.work.names import (
    is_project_name,
    parse_last_day,
    parse_members,
    read_today,
    require_project_name,
    require_text,
    show_name,
)
from sfumato.ledger.api import name_project, parse_account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.lab.work.store import Fields, WorkStore
    from sfumato.ledger import Ledger
    from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Project:
    """A project as the steward and its members see it."""

    name: str
    purpose: str
    members: tuple[str, ...]
    until: date | None
    """Last day on which its members may ask, in UTC; None if it has none."""
    tables: tuple[str, ...] | None
    """Tables that its members may ask about; None for every table of the populations it has a quota on."""
    created: str
    closed: bool
    quotas: tuple[AccountView, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether its members may ask today."""
        return not self.closed and (self.until is None or read_today() <= self.until)

    @property
    def state(self) -> str:
        """One word for people: open, expired or closed."""
        return "closed" if self.closed else "open" if self.is_open else "expired"

    def __str__(self) -> str:
        ends = "" if self.until is None else f", until {self.until}"
        tables = "every table of its populations" if self.tables is None else ", ".join(self.tables)
        lines = [
            f"{self.name} ({self.state}{ends}): {self.purpose}",
            f"  members  {', '.join(self.members) or 'none'}",
            f"  tables   {tables}",
            *(f"  {quota.sentence()}" for quota in self.quotas),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "project": self.name,
            "purpose": self.purpose,
            "members": list(self.members),
            "until": None if self.until is None else self.until.isoformat(),
            "tables": None if self.tables is None else list(self.tables),
            "created": self.created,
            "state": self.state,
            "quotas": {quota.name: quota.to_dict() for quota in self.quotas},
        }


def read_project(name: str, fields: Fields, quotas: tuple[AccountView, ...] = ()) -> Project:
    """Return the project that was stored."""
    until, tables = fields["until"], fields["tables"]
    return Project(
        name,
        fields["purpose"],
        tuple(fields["members"]),
        None if until is None else date.fromisoformat(until),
        None if tables is None else tuple(tables),
        fields["created"],
        fields["closed"],
        quotas,
    )


def list_projects(store: WorkStore, ledger: Ledger, member: str | None = None) -> tuple[Project, ...]:
    """Return every project with its quotas, or those of one member."""
    held: dict[str, list[str]] = {}
    for account in ledger.list_accounts():
        holder = parse_account(account)[1]
        if holder is not None and ledger.read_budget(account) != REVOKED:
            held.setdefault(holder, []).append(account)
    return tuple(
        read_project(
            name, fields, tuple(view_account(ledger, each) for each in held.get(name_project(name), ()))
        )
        for name, fields in store.read_projects().items()
        if member is None or member in fields["members"]
    )


def find_project(store: WorkStore, ledger: Ledger, name: str) -> Project:
    """Return one project with its quotas, or refuse a name that there is none of."""
    for each in list_projects(store, ledger):
        if each.name == name:
            return each
    raise unknown_project_error(name)


def create_project(
    store: WorkStore,
    ledger: Ledger,
    catalog: Catalog,
    name: str,
    quota: Budget,
    *,
    purpose: str,
    members: Iterable[str],
    until: Any,
    tables: Iterable[str] | None,
) -> None:
    """Write a project down, then open its quotas. Said again after a crash, it goes on where it was."""
    last = parse_last_day(until)
    fields: Fields = {
        "purpose": require_text(purpose, "The purpose of a project"),
        "members": parse_members(members),
        "until": last,
        "tables": None if tables is None else _find_tables(catalog, tables),
    }
    if last is not None and date.fromisoformat(last) < read_today():
        raise UsageError("SF-P112", "The last day of a project lies in the past.", got=last)
    accounts = _list_accounts(ledger, catalog, require_project_name(name), fields["tables"])
    with store.changing() as change:
        _require_new(change.list_projects(), name, fields)
        known = change.find_project(name)
        day = read_today().isoformat() if known is None else known["created"]
        change.put_project(name, {**fields, "created": day, "closed": False})
    # Only now: without its project a quota would be nobody's. If the file with the projects was lost, one of
    # the same name has the old accounts, and what was spent from them stays spent.
    for account in accounts:
        ledger.grant(account, quota)


def change_project(
    store: WorkStore,
    ledger: Ledger,
    catalog: Catalog,
    name: str,
    quota: Budget | None,
    changed: dict[str, Any],
) -> None:
    """Change members, last day or tables of a project, and with a quota all its quotas."""
    parsers = {"members": parse_members, "until": parse_last_day, "tables": _parse_tables(catalog)}
    new = {key: parsers[key](value) for key, value in changed.items()}
    with store.changing() as change:
        fields = change.find_project(name) if is_project_name(name) else None
        if fields is None:
            raise unknown_project_error(name)
        require_not_closed(name, fields)
        fields |= new
        change.put_project(name, fields)
    if quota is not None:
        for account in _list_accounts(ledger, catalog, name, fields["tables"]):
            ledger.grant(account, quota)


def close_project(store: WorkStore, ledger: Ledger, name: str) -> None:
    """End a project for ever: nobody asks in it again, and its quotas are taken away."""
    with store.changing() as change:
        fields = change.find_project(name) if is_project_name(name) else None
        if fields is None:
            raise unknown_project_error(name)
        change.put_project(name, {**fields, "closed": True})
    for account in list_project_accounts(ledger, name):
        if ledger.read_budget(account) != REVOKED:
            ledger.grant(account, REVOKED)


def remove_member(store: WorkStore, analyst: str) -> bool:
    """Take an analyst out of every project. Returns whether they were in one."""
    if not any(analyst in fields["members"] for fields in store.read_projects().values()):
        return False
    with store.changing() as change:
        for name, fields in change.list_projects().items():
            if analyst in fields["members"]:
                rest = [each for each in fields["members"] if each != analyst]
                change.put_project(name, {**fields, "members": rest})
    return True


def require_open_project(store: WorkStore, name: str, member: str | None) -> Project:
    """Return a project whose member may ask today; else refuse. The steward may ask in every one."""
    fields = store.read_project(name) if is_project_name(name) else None
    if fields is None or (member is not None and member not in fields["members"]):
        # One sentence for both, or names of projects could be guessed.
        raise PolicyError(
            "SF-P114",
            f"There is no project '{show_name(name)}' that {member or 'the steward'!r} is a member of.",
            try_=f'lab.change_project("{show_name(name)}", members=[…]), by the steward',
        )
    require_not_closed(name, fields)
    project = read_project(name, fields)
    if not project.is_open:
        raise PolicyError(
            "SF-P115",
            f"Project '{name}' has ended, so nothing is charged to it.",
            until=f"{project.until}, by the date in UTC",
            try_=f'lab.change_project("{name}", until="…"), by the steward',
        )
    return project


def list_project_accounts(ledger: Ledger, name: str) -> list[str]:
    """Return the accounts that a project holds."""
    return [each for each in ledger.list_accounts() if parse_account(each)[1] == name_project(name)]


def require_not_closed(name: str, fields: Fields) -> None:
    """Refuse a project that was closed."""
    if fields["closed"]:
        raise PolicyError(
            "SF-P116", f"Project '{name}' was closed.", try_="lab.create_project with another name"
        )


def unknown_project_error(name: Any) -> PolicyError:
    """Return the error for a project that was never created."""
    return PolicyError("SF-P117", f"There is no project '{show_name(name)}'.", try_="lab.projects()")


def _require_new(projects: dict[str, Fields], name: str, fields: Fields) -> None:
    """Refuse a name that is taken, unless the very same project is created again."""
    near = [each for each in projects if each.casefold() == name.casefold()]
    if near == [name] and {**projects[name], **fields} == projects[name] and not projects[name]["closed"]:
        return
    if near:
        raise PolicyError(
            "SF-P118",
            f"There is a project '{near[0]}' already.",
            why="a project keeps its name for ever, because what it spent stays spent",
            try_=f'another name, or lab.change_project("{near[0]}", …)',
        )


def _list_accounts(ledger: Ledger, catalog: Catalog, name: str, tables: list[str] | None) -> list[str]:
    """Return the accounts that a project is to have, one for each population of its tables."""
    chosen = catalog.tables.values() if tables is None else map(catalog.find_table, tables)
    populations = list_populations(chosen)
    if not populations:
        raise UsageError(
            "SF-P119", "A project needs a table whose people are protected.", try_="lab.register(…) first"
        )
    accounts = [
        quota_account(each, name_project(name)) for each in (*populations, *list_blocks(ledger, populations))
    ]
    for account in accounts:
        parse_account(account)  # before anything is written down
    return accounts


def _find_tables(catalog: Catalog, names: Any) -> list[str]:
    if isinstance(names, str):
        raise UsageError("SF-P119", "tables= takes a list of names.", try_=f'tables=["{names[:40]}"]')
    return [catalog.find_table(name).name for name in names]


def _parse_tables(catalog: Catalog) -> Any:
    return lambda names: None if names is None else _find_tables(catalog, names)
