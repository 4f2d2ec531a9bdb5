"""Budgets by blocks of time: those who come in one block have an account of their own.

Because : docs/proofs/streams.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.calendar import UNITS, count_periods, start_of_period
from sfumato.curator.catalog.domains import Numbers, Periods
from sfumato.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Domain

MOST_BLOCKS = 10_000


@dataclass(frozen=True, slots=True)
class BudgetBlocks:
    """How the time of a table is cut into blocks, and the budget that each of them has."""

    column: str
    every: str | int
    """A period of the calendar, such as month; or so many values of a number."""
    since: int
    """The place in the column at which the first block begins."""
    budget: Budget

    def find_block(self, domain: Domain, place: int) -> int:
        """Return the number of the block that a tick is in, by when it starts."""
        if isinstance(domain, Periods) and isinstance(self.every, str):
            return math.floor(count_periods(start_of_period(place, domain.unit), self.every))
        if isinstance(domain, Numbers) and isinstance(self.every, int):
            return (place - self.since) // self.every
        raise UsageError(
            "SF-S113",
            "Blocks of dates are periods of the calendar, and blocks of numbers so many of them.",
            try_='every="month", or every=30',
        )

    def name_block(self, number: int) -> str:
        """Return the name of a block, which its account has."""
        if isinstance(self.every, str):
            # Names of accounts hold no colon, which hours do.
            return f"{self.every} {start_of_period(number, self.every)}".replace(":", ".")
        return f"{self.every} {self.since + number * self.every}"

    def list_names(self, domain: Domain, through: int) -> list[str]:
        """Return the names of all blocks from the first to the one after this place of the column."""
        first, last = self.find_block(domain, self.since), self.find_block(domain, through + 1)
        if last - first >= MOST_BLOCKS:
            raise UsageError("SF-S113", f"There are at most {MOST_BLOCKS:,} blocks.", try_="since=…")
        return [self.name_block(number) for number in range(first, last + 1)]

    def to_dict(self) -> dict[str, Any]:
        fields = {"column": self.column, "every": self.every, "since": self.since}
        return {**fields, "budget": self.budget.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> BudgetBlocks:
        budget = Budget.from_dict(fields["budget"])
        return cls(fields["column"], fields["every"], fields["since"], budget)


def parse_every(every: Any) -> str | int:
    """Return the length of blocks that a steward typed."""
    return every if isinstance(every, str) and every in UNITS else parse_whole(every, "every")
