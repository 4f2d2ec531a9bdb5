"""What a steward says about time: up to where all rows are there, and which blocks have their own budgets."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.blocks import BudgetBlocks, parse_every
from sfumato.curator.catalog.calendar import count_periods, parse_moment
from sfumato.curator.catalog.columns import DateColumn, NumberColumn
from sfumato.curator.payer import population_account
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.analysts import grant_later
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.catalog import CatalogContents, Table
    from sfumato.ledger import Ledger
    from sfumato.privacy.budget import Budget


def declare_blocks(table: Table, time: str, every: Any, budget: Budget, since: Any) -> Table:
    """Return the table with blocks of time. Once they are set, they stay."""
    promise = table.columns.get(time)
    if not isinstance(promise, DateColumn | NumberColumn):
        raise UsageError("SF-S113", f"'{time}' is no declared date or number of '{table.name}'.")
    domain: Any = promise.domain
    first = domain.low if since is None else _find_place(table, time, since)
    blocks = BudgetBlocks(time, parse_every(every), first, budget)
    blocks.find_block(domain, first)
    if table.blocks not in (None, blocks):
        raise PolicyError("SF-S113", f"The blocks of '{table.name}' are fixed.", set_=repr(table.blocks))
    return replace(table, blocks=blocks)


def open_blocks(ledger: Ledger, contents: CatalogContents, table: Table) -> None:
    """Open the accounts of all blocks that have begun, and of the next one."""
    blocks = table.blocks
    if blocks is None:
        return
    through = table.through.get(blocks.column, blocks.since - 1)
    known = set(ledger.list_accounts())
    for name in blocks.list_names(table.domain_of(blocks.column), through):
        population = replace(table, block=name).population
        if population_account(population) not in known:
            ledger.open_account(population_account(population), blocks.budget, table.relation)
            grant_later(ledger, contents, population)


def move_through(table: Table, through: Mapping[str, Any]) -> Table:
    """Return the table with what the steward says to be complete, by column. It never moves back."""
    moved = dict(table.through)
    for name, value in through.items():
        place = _find_place(table, name, value)
        if place < moved.get(name, place):
            raise PolicyError(
                "SF-S103",
                f"'{table.name}' was said to be complete beyond this already.",
                why="ticks up to there may have been released, and a tick is released once",
                try_="a later one",
            )
        moved[name] = place
    return replace(table, through=moved)


def _find_place(table: Table, name: str, value: Any) -> int:
    """Return the stored integer of a date or a number in a declared column."""
    promise = table.columns.get(name)
    moment = parse_moment(value) if isinstance(value, str) else value
    if isinstance(promise, DateColumn) and isinstance(moment, date):
        return math.floor(count_periods(moment, promise.unit))
    if isinstance(promise, NumberColumn) and not isinstance(moment, str | date | None):
        return math.floor(parse_exact(moment, name) / promise.step)
    raise UsageError(
        "SF-S103",
        f"'{name}' is no declared date or number of '{table.name}', or this is no value of it.",
        try_='lab.set_through("visits", day="2026-01-31")',
    )
