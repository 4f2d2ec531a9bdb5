"""The regions of a population: which values of which columns have an account each, and what it is called.

A unit is in the region that its own rows name, and in none where a value is missing. All of this is public.

Because : docs/proofs/regions.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import ListedColumn
from sfumato.errors import UsageError
from sfumato.ledger.api import MAX_NAME_LENGTH, RegionAccounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.catalog.domains import Scalar
    from sfumato.privacy.units import Unit

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
    pinned: bool = False
    """Whether units keep the region of the first snapshot that they were in."""

    def list_codes(self) -> Iterator[Codes]:
        """Yield every combination of values, those with a missing one included."""
        return product(*((None, *range(len(values))) for values in self.values))

    def name_account(self, codes: Codes) -> str:
        """Return the account of units with these values; without one of them, the population's own."""
        named = zip(self.columns, self.values, codes, strict=True)
        words = [f"{name}={values[code]}" for name, values, code in named if code is not None]
        region = f"{WHERE}{', '.join(words)}" if len(words) == len(self.columns) else ""
        return f"population:{self.population}{region}"

    def make_accounts(self, identity: str, follows: str = "") -> RegionAccounts:
        """Return what the ledger notes with a new snapshot of this identity.

        `follows` is the identity of the snapshot whose memory of pinned units it carries on.
        """
        known = follows if self.pinned else None
        return RegionAccounts(self.population, identity, self.list_accounts(), known)

    def continues(self, before: Regions | None) -> bool:
        """Return whether the same codes name the same regions as before, and units keep theirs."""
        return self.pinned and before is not None and replace(before, snapshot=self.snapshot) == self

    def list_accounts(self) -> tuple[str, ...]:
        """Return the accounts of all regions, and of those who are in none."""
        return tuple(sorted({self.name_account(codes) for codes in self.list_codes()}))


def name_region(account: str) -> str:
    """Return the region that an account is of, for people."""
    return account.partition(WHERE)[2] or NO_REGION


def check_regions(table: str, unit: Unit, columns: Mapping[str, DeclaredColumn]) -> None:
    """Refuse regions that are not public, not fixed by a unit's own rows, or too many."""
    values = tuple(_list_values(name, unit, columns) for name in unit.regions)
    if not values:
        return
    count = math.prod(map(len, values))
    if count > MOST_REGIONS or len(values) > MOST_COLUMNS:
        raise UsageError(
            "SF-C245",
            f"'{table}' would have too many regions.",
            regions=f"{count:,} of {len(values)} columns",
            most=f"{MOST_REGIONS} of {MOST_COLUMNS} columns",
            try_=f'regions=["{unit.regions[0]}"]',
        )
    _require_names(table, Regions("", unit.population(table), unit.regions, values), count)


def _list_values(name: str, unit: Unit, columns: Mapping[str, DeclaredColumn]) -> tuple[Scalar, ...]:
    """Return the values of a column that regions can be named by."""
    column = columns.get(name)
    if isinstance(column, ListedColumn) and (column.constant or unit.max_rows == 1):
        return column.values
    raise UsageError(
        "SF-C245",
        f"Regions need columns with listed values that are constant per unit; '{name}' is not one.",
        why="a unit must count in one region, whichever of its rows are read",
        try_=f'columns={{"{name}": sf.one_of("A", "B", constant=True), …}}',
    )


def _require_names(table: str, regions: Regions, count: int) -> None:
    """Refuse values by which the ledger could not name an account."""
    names = regions.list_accounts()
    plain = all(len(name) <= MAX_NAME_LENGTH and name.count(":") == 1 for name in names)
    if not plain or len(names) != count + 1:
        raise UsageError(
            "SF-C245",
            f"The values of the regions of '{table}' cannot name accounts.",
            why="an account has a name of its own, without a colon, in at most 200 characters",
            try_="shorter values without colons and commas",
        )
