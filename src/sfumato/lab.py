"""What a steward holds: a folder with the catalog, the ledger and the prepared snapshots."""

from __future__ import annotations

import os
import secrets
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog import Catalog, Table, declared
from sfumato.curator.incidents import Incidents
from sfumato.errors import PolicyError, UsageError
from sfumato.ledger import SqliteLedger
from sfumato.privacy.account import caps, left
from sfumato.privacy.budget import Budget
from sfumato.session import AccountView, BudgetView, Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.columns import Promise
    from sfumato.engines.program import Engine
    from sfumato.privacy.exact import Number
    from sfumato.privacy.units import Unit

_KEY = "ranking.key"
_LEDGER = "ledger.sqlite"


class Lab:
    """Tables, whose rows they are, and how much may ever be learnt from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._catalog = Catalog(folder / "catalog.json")
        self.ledger = SqliteLedger.open(folder / _LEDGER)
        self.incidents = Incidents(folder / "incidents.log")

    # ---- the steward ----

    def register(
        self,
        name: str,
        source: Any,
        *,
        unit: Unit | None = None,
        columns: Mapping[str, Promise] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Prepare a table and open its budget.

        `source` is a parquet or csv path, an Arrow table, or a pandas or polars frame. Only the unit and the
        declared columns are kept, each unit with at most `max_rows` rows, numbers within their bounds.
        """
        table = declared(name, unit, columns)
        with self._catalog.changing():
            if name in self._catalog.tables():
                raise PolicyError("SF-C110", f"'{name}' is registered already.", try_="another name")
            account, agreed = population_account(table.population), self._agreed_budget(table, budget)
            self.engine.prepare(source, table.preparation(self._ranking_key()), table.snapshot_name)
            self.ledger.open_account(account, agreed)
            self._catalog.add(table)

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
        return self._catalog.table(name)

    def tables(self) -> tuple[Table, ...]:
        return tuple(self._catalog.tables().values())

    def populations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table.population for table in self.tables()))

    def accounts(self, population: str, analyst: str | None) -> tuple[str, ...]:
        """The accounts one charge touches: the population's, and the analyst's quota on it."""
        quota = () if analyst is None else (quota_account(population, analyst),)
        return (population_account(population), *quota)

    def budget_of(self, analyst: str | None) -> BudgetView:
        names = [
            account for population in self.populations() for account in self.accounts(population, analyst)
        ]
        known = self.ledger.accounts()
        return BudgetView(tuple(self._view(name) for name in names if name in known))

    @cached_property
    def engine(self) -> Engine:
        from sfumato.engines.duckdb import DuckDBEngine

        return DuckDBEngine(self.folder / "snapshots")

    def __repr__(self) -> str:
        return f"Lab({self.folder.name!r}, tables={[table.name for table in self.tables()]})"

    # ---- parts ----

    def _granted(self, analyst: str) -> bool:
        accounts = self.ledger.accounts()
        named = isinstance(analyst, str) and ":" not in analyst
        return named and any(
            quota_account(population, analyst) in accounts for population in self.populations()
        )

    def _agreed_budget(self, table: Table, budget: Budget | None) -> Budget:
        account = population_account(table.population)
        if account in self.ledger.accounts():
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
        agreed = self.ledger.budget(account)
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
        budget = self.ledger.budget(account)
        rest = left(caps(budget), self.ledger.spent(account))
        return AccountView(
            account, float(budget.epsilon), float(budget.delta), rest.share, float(rest.epsilon)
        )


def create(path: str | Path) -> Lab:
    """Make a lab in a new folder."""
    folder = Path(path).resolve()  # a lab stays itself when the process changes its directory
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("SF-C118", f"'{folder.name}' is there already.", try_=f'sf.open("{folder}")')
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_private(folder / _KEY, secrets.token_bytes(32))
    SqliteLedger.create(folder / _LEDGER).close()
    return Lab(folder)


def open(path: str | Path) -> Lab:
    """Open a lab that `create` made."""
    folder = Path(path).resolve()
    if not (folder / _KEY).exists():
        raise UsageError("SF-C119", f"'{folder.name}' is not a lab.", try_=f'sf.create("{folder}")')
    return Lab(folder)


def population_account(population: str) -> str:
    return f"population:{population}"


def quota_account(population: str, analyst: str) -> str:
    return f"quota:{population}:{analyst}"


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
