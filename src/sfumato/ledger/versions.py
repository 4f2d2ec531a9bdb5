"""Versions of the tables: which one is current, and what older ones kept beside the chain.

Version 1 had no reservations, and its ledgers had no identity. Version 2 kept totals and keys in tables.
Version 3 keeps the chain, where it ends, and the answers; everything else is in memory. Version 4 has the
same tables and more kinds of entries, which older code would call a broken chain; a file has a mark beside
it. Version 5 has the same tables and kinds; new accounts may have a filter of Gaussian DP, by which this
code admits what older code would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger.api import write_cost
from sfumato.ledger.books import Books, replay_entries
from sfumato.ledger.failures import require_agreement
from sfumato.ledger.tables import read_entries

if TYPE_CHECKING:
    from sfumato.ledger.tables import SqlConnection

VERSION = 5


def check_older_tables(db: SqlConnection, version: int) -> Books:
    """Replay the chain, and compare with it the totals, requests, keys and reservations of an older version.

    They are about to be dropped, so this is the last time that a difference can be noticed.
    """
    books = replay_entries(read_entries(db))
    totals = {name: (each.terms, write_cost(each.spent)) for name, each in books.accounts.items()}
    found = _read_rows(db, "SELECT account, terms, spent FROM accounts")
    require_agreement(found == totals, "the totals of the accounts")
    found = _read_rows(db, "SELECT seq, request, payers, key FROM charges")
    require_agreement(found == books.charges, "the requests and keys")
    answers = {charge: (seq,) for charge, (seq, _) in books.releases.items()}
    found = _read_rows(db, "SELECT charge, seq FROM answers")
    require_agreement(found == answers, "the kept answers")
    if version > 1:  # version 1 knew no reservations
        counts = {charge: each.counts for charge, each in books.reservations.items()}
        found = _read_rows(db, "SELECT charge, steps, drawn, returned FROM reservations")
        require_agreement(found == counts, "the reservations")
    return books


def newer_version_error(version: int) -> LedgerError:
    """Return the error for a ledger whose tables this code does not know yet."""
    return LedgerError(
        "SF-L103",
        "This ledger was made by a newer version of sfumato.",
        version=f"{version}; this sfumato knows up to {VERSION}",
        try_="pip install --upgrade sfumato",
    )


def _read_rows(db: SqlConnection, query: str) -> dict[Any, tuple[Any, ...]]:
    """Return the rows of a query by their first column."""
    return {first: tuple(rest) for first, *rest in db.execute(query).fetchall()}
