"""The regions of a population: which values of which columns have an account each, and what it is called.

A unit is in the region that its own rows name, and in none where a value is missing. All of this is public.

Because : docs/proofs/regions.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import ListedColumn
from sfumato.errors import PolicyError, UsageError
from sfumato.ledger.api import MAX_NAME_LENGTH, RegionAccounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.domains import Scalar

MOST_REGIONS = 64
"""The largest number of regions, beside that of units which are in none: a charge may touch them all. Privacy
does not depend on it."""

MOST_COLUMNS = 4
"""The largest number of columns that name a region: every combination is looked at for every question."""

WHERE = " where "
"""What stands between the names of a population and of a region in that of its account. It never changes."""
NO_REGION = "no region"
"""What people read for units without a value that would say which region they are in."""

Codes = tuple[int | None, ...]
"""The place of a unit's value in the list of each column, None where it is missing."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions that a table declares."""

    snapshot: str
    """Name of the snapshot whose rows say which region a unit is in."""
    population: str
    columns: tuple[str, ...]
    values: tuple[tuple[Scalar, ...], ...]
    """The listed values of each column."""

    def list_codes(self) -> Iterator[Codes]:
        """Yield every combination of values, those with a missing one included."""
        return product(*((None, *range(len(values))) for values in self.values))

    def name_account(self, codes: Codes) -> str:
        """Return the account of units with these values; without one of them, the population's own."""
        named = zip(self.columns, self.values, codes, strict=True)
        words = [f"{name}={values[code]}" for name, values, code in named if code is not None]
        region = f"{WHERE}{', '.join(words)}" if len(words) == len(self.columns) else ""
        return f"population:{self.population}{region}"

    def list_accounts(self) -> tuple[str, ...]:
        """Return the accounts of all regions, and of those who are in none."""
        return tuple(sorted({self.name_account(codes) for codes in self.list_codes()}))


def name_region(account: str) -> str:
    """Return the region that an account is of, for people."""
    return account.partition(WHERE)[2] or NO_REGION


def find_regions(table: Table) -> Regions | None:
    """Return the regions that a table declares, if it does."""
    listed = [table.columns[name] for name in table.regions]
    values = tuple(column.values for column in listed if isinstance(column, ListedColumn))
    return Regions(table.snapshot_name, table.population, table.regions, values) if values else None


def make_region_accounts(table: Table) -> RegionAccounts | None:
    """Return what the ledger notes with a new snapshot of a table that declares regions."""
    regions = find_regions(table)
    if regions is None:
        return None
    return RegionAccounts(table.population, table.identity, regions.list_accounts())


def check_regions(table: Table) -> None:
    """Refuse regions that are not public, not fixed by a unit's own rows, or too many."""
    for name in table.regions:
        _require_listed(table, name)
    regions = find_regions(table)
    if regions is None:
        return
    count = math.prod(map(len, regions.values))
    if count > MOST_REGIONS or len(regions.columns) > MOST_COLUMNS:
        raise UsageError(
            "SF-C245",
            f"'{table.name}' would have too many regions.",
            regions=f"{count:,} of {len(regions.columns)} columns",
            most=f"{MOST_REGIONS} of {MOST_COLUMNS} columns",
            try_=f'regions=["{regions.columns[0]}"]',
        )
    _require_names(table, regions, count)


def require_one_divider(tables: Iterable[Table], table: Table) -> None:
    """Refuse a second table that says which region a unit of the same population is in."""
    for other in tables:
        divides = other.regions and other.name != table.name
        if table.regions and divides and other.population == table.population:
            raise PolicyError(
                "SF-C246",
                f"The regions of {table.population} are declared by '{other.name}'.",
                why="each unit is in one region, and the rows of one table say in which",
                try_="leave regions out: WHERE over a join with that table charges regions too",
            )


def _require_listed(table: Table, name: str) -> None:
    column = table.columns.get(name)
    if not isinstance(column, ListedColumn) or not table.is_constant(name):
        raise UsageError(
            "SF-C245",
            f"Regions need columns with listed values that are constant per unit; '{name}' is not one.",
            why="a unit must count in one region, whichever of its rows are read",
            try_=f'columns={{"{name}": sf.one_of("A", "B", constant=True), …}}',
        )


def _require_names(table: Table, regions: Regions, count: int) -> None:
    """Refuse values by which the ledger could not name an account."""
    names = regions.list_accounts()
    plain = all(len(name) <= MAX_NAME_LENGTH and name.count(":") == 1 for name in names)
    if not plain or len(names) != count + 1:
        raise UsageError(
            "SF-C245",
            f"The values of the regions of '{table.name}' cannot name accounts.",
            why="an account has a name of its own, without a colon, in at most 200 characters",
            try_="shorter values without colons and commas",
        )
