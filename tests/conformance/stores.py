"""The kinds of ledger that the same tests are put to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from tests.conformance import servers

from sfumato.ledger import Ledger, PostgresLedger, SqliteLedger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = ("sqlite", "postgres")

_numbers = count()


@dataclass(frozen=True)
class Store:
    """Where a ledger lives: made once, opened as often as wished."""

    create: Callable[..., Ledger]
    open: Callable[..., Ledger]


def store_of(kind: str, folder: Path) -> Store:
    """A place for one ledger, with nothing in it yet."""
    if kind == "sqlite":
        path = folder / "ledger.sqlite"
        return Store(partial(SqliteLedger.create, path), partial(SqliteLedger.open, path))
    address, schema = servers.running().address, f"ledger_{os.getpid()}_{next(_numbers)}"
    known = {"schema": schema, "key": folder / "ledger.key"}
    return Store(
        partial(PostgresLedger.create, address, **known), partial(PostgresLedger.open, address, **known)
    )
