"""The tables, in SQL that every database of ours reads: the chain, where it ends, and the kept answers.

Everything else follows from the chain and is kept in memory. Whoever is about to decide takes in what others
have added meanwhile, and checks each entry of it as at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger.api import Released, is_digest
from sfumato.ledger.books import Books, replay
from sfumato.ledger.chain import Entry
from sfumato.ledger.commitment import commitment
from sfumato.ledger.files import require_same
from sfumato.privacy.account import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = 1000
"""Entries that are read at once."""

_FROM = "SELECT seq, kind, body, prev, hash FROM entries WHERE seq >= ? ORDER BY seq LIMIT ?"
_KEPT = "SELECT a.nonce, a.answer, e.hash FROM answers a JOIN entries e ON e.seq = ? WHERE a.charge = ?"


class Connection(Protocol):
    """What is used of a database's connection: sqlite3's has it, and others are dressed alike."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any: ...


# ---- reading -----------------------------------------------------------------------------------------------


def newer(db: Connection, books: Books) -> Any:
    """Ask for the last entry that is known and some after it."""
    return db.execute(_FROM, (books.seq, PAGE + 1))


def take_in(db: Connection, books: Books, rows: Any) -> None:
    """All that `newer` found, and what it did not get to."""
    while True:
        page = rows.fetchall()
        if books.seq:
            same = bool(page) and (page[0][0], page[0][4]) == (books.seq, books.head)
            require_same(same, "its chain lacks an entry that was in it")
        for row in page[1 if books.seq else 0 :]:
            books.add(Entry(*row))
        if len(page) <= PAGE:
            return
        rows = newer(db, books)


def answer(db: Connection, books: Books, charge: int) -> Released:
    """The kept answer to a charge, held once more against what the chain says of it."""
    seq, committed = books.releases[charge]
    row = db.execute(_KEPT, (seq, charge)).fetchone()
    require(row is not None and _committed(row[0], row[1]) == committed, "the kept answers")
    return Released(charge, row[2], NOTHING, row[1], replayed=True, entry=seq)


def holds(db: Connection, seq: int, head: str) -> bool:
    """Whether the chain has this entry."""
    row = db.execute("SELECT 1 FROM entries WHERE seq = ? AND hash = ?", (seq, head)).fetchone()
    return row is not None


def numbered(db: Connection, head: str) -> int | None:
    """The entry with this hash. Rarely asked, so no index is kept for it."""
    row = db.execute("SELECT seq FROM entries WHERE hash = ?", (head,)).fetchone()
    return None if row is None else int(row[0])


def sealed(db: Connection, seq: int | None) -> tuple[int, str]:
    """The number and hash of an entry, or of the newest."""
    which = "ORDER BY seq DESC LIMIT 1" if seq is None else "WHERE seq = ?"
    query = f"SELECT seq, hash FROM entries {which}"  # noqa: S608 - one of two texts
    row = db.execute(query, () if seq is None else (seq,)).fetchone()
    if row is None:
        raise UsageError("SF-L309", "The ledger has no such entry.", try_="sfumato ledger list")
    return int(row[0]), str(row[1])


def page(db: Connection, after: int) -> list[Entry]:
    return [Entry(*row) for row in db.execute(_FROM, (after + 1, PAGE)).fetchall()]


def entries(db: Connection) -> Iterator[Entry]:
    """All of them, in one view of the database."""
    after = 0
    while found := page(db, after):
        yield from found
        after = found[-1].seq


def identity(db: Connection) -> str:
    """Drawn when the ledger was made, and not part of the chain: it tells ledgers apart, nothing more."""
    return str(db.execute("SELECT identity FROM ledger").fetchone()[0])


# ---- checking ----------------------------------------------------------------------------------------------


def check(db: Connection) -> Books:
    """Replay the chain, and hold its noted end and every answer against it."""
    books = replay(entries(db))
    noted = db.execute("SELECT entries, head FROM ledger").fetchall()
    require([tuple(row) for row in noted] == [(books.seq, books.head)], "where the chain ends")
    found = db.execute("SELECT charge, nonce, answer FROM answers")
    kept = {charge: _committed(nonce, answer) for charge, nonce, answer in found}
    require(kept == {charge: committed for charge, (_, committed) in books.releases.items()}, "the answers")
    return books


def _committed(nonce: str, answer: str) -> str | None:
    """With a nonce of another shape, the answer's first lines could be moved into it unnoticed."""
    return commitment(nonce, answer) if is_digest(nonce) else None


def require(agrees: bool, what: str) -> None:
    if not agrees:
        raise LedgerError(
            "SF-L102",
            "The ledger's tables do not agree with its chain, so nothing is answered.",
            what=what,
            try_="put back an untouched copy of the ledger, and check it against a receipt",
        )
