"""What older versions kept beside the chain, which has to agree with it before it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.ledger.api import written
from sfumato.ledger.books import Books, replay
from sfumato.ledger.tables import entries, require

if TYPE_CHECKING:
    from sfumato.ledger.tables import Connection


def check(db: Connection, version: int) -> Books:
    """Replay the chain, and hold totals, requests, keys and reservations against it."""
    books = replay(entries(db))
    totals = {name: (each.terms, written(each.spent)) for name, each in books.accounts.items()}
    require(_rows(db, "SELECT account, terms, spent FROM accounts") == totals, "the totals of the accounts")
    require(
        _rows(db, "SELECT seq, request, payers, key FROM charges") == books.charges, "the requests and keys"
    )
    answers = {charge: (seq,) for charge, (seq, _) in books.releases.items()}
    require(_rows(db, "SELECT charge, seq FROM answers") == answers, "the kept answers")
    if version > 1:
        runs = {charge: run.state for charge, run in books.runs.items()}
        query = "SELECT charge, steps, drawn, returned FROM reservations"
        require(_rows(db, query) == runs, "the reservations")
    return books


def _rows(db: Connection, query: str) -> dict[Any, tuple[Any, ...]]:
    return {first: tuple(rest) for first, *rest in db.execute(query).fetchall()}
