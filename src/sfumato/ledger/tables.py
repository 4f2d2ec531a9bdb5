"""The tables of a ledger, in SQL that every database reads: the chain, where it ends, and the kept answers.

Everything else follows from the chain and is held in memory as books. Before a process decides anything, it
reads what others have added meanwhile, and checks each of those entries as at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import UsageError
from sfumato.ledger.api import Released, is_digest
from sfumato.ledger.books import Books, replay_entries
from sfumato.ledger.chain import Entry
from sfumato.ledger.failures import require_agreement, require_same_ledger
from sfumato.ledger.receipts.commitment import commit_to_answer
from sfumato.privacy.account import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = 1000
"""Entries that are read at once, which bounds the memory of a replay. No privacy depends on it."""

_SELECT_ENTRIES = "SELECT seq, kind, body, prev, hash FROM entries WHERE seq >= ? ORDER BY seq LIMIT ?"
_SELECT_ANSWER = (
    "SELECT a.nonce, a.answer, e.hash FROM answers a JOIN entries e ON e.seq = ? WHERE a.charge = ?"
)


class SqlConnection(Protocol):
    """What the ledger uses of a connection. sqlite3's has it; others are wrapped to look alike."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any: ...


# ---- reading -----------------------------------------------------------------------------------------------


def query_newer(db: SqlConnection, books: Books) -> Any:
    """Ask for the newest entry that the books know, and a page of those after it."""
    return db.execute(_SELECT_ENTRIES, (books.seq, PAGE + 1))


def add_newer(db: SqlConnection, books: Books, rows: Any) -> None:
    """Add to the books the entries that `query_newer` found, and any pages after them."""
    while True:
        page = rows.fetchall()
        # The first row is the newest entry that is known. If it is another, this is not the same chain.
        if books.seq:
            same = bool(page) and (page[0][0], page[0][4]) == (books.seq, books.head)
            require_same_ledger(same, "its chain lacks an entry that was in it")
        for row in page[1 if books.seq else 0 :]:
            books.add_entry(Entry(*row))
        if len(page) <= PAGE:
            return
        rows = query_newer(db, books)


def read_answer(db: SqlConnection, books: Books, charge: int) -> Released:
    """Return the kept answer to a charge, compared once more with its commitment in the chain."""
    # Answers lie outside of the chain, so someone may have changed this one since the start.
    seq, commitment = books.releases[charge]
    row = db.execute(_SELECT_ANSWER, (seq, charge)).fetchone()
    require_agreement(row is not None and _commit(row[0], row[1]) == commitment, "the kept answers")
    return Released(charge, row[2], NOTHING, row[1], replayed=True, entry=seq)


def has_entry(db: SqlConnection, seq: int, head: str) -> bool:
    """Return whether the chain has an entry of this number and hash."""
    row = db.execute("SELECT 1 FROM entries WHERE seq = ? AND hash = ?", (seq, head)).fetchone()
    return row is not None


def find_entry(db: SqlConnection, head: str) -> int | None:
    """Return the number of the entry with this hash. Rarely asked, so there is no index for it."""
    row = db.execute("SELECT seq FROM entries WHERE hash = ?", (head,)).fetchone()
    return None if row is None else int(row[0])


def read_head(db: SqlConnection, seq: int | None) -> tuple[int, str]:
    """Return the number and hash of an entry, or of the newest."""
    which = "ORDER BY seq DESC LIMIT 1" if seq is None else "WHERE seq = ?"
    query = f"SELECT seq, hash FROM entries {which}"  # noqa: S608 - one of two texts
    row = db.execute(query, () if seq is None else (seq,)).fetchone()
    if row is None:
        raise UsageError("SF-U101", "The ledger has no such entry.", try_="sfumato ledger list")
    return int(row[0]), str(row[1])


def read_page(db: SqlConnection, after: int) -> list[Entry]:
    """Return the first entries after this number, as many as fit a page."""
    return [Entry(*row) for row in db.execute(_SELECT_ENTRIES, (after + 1, PAGE)).fetchall()]


def read_entries(db: SqlConnection) -> Iterator[Entry]:
    """Yield all entries. The caller holds one unchanging state of the database."""
    after = 0
    while page := read_page(db, after):
        yield from page
        after = page[-1].seq


def read_identity(db: SqlConnection) -> str:
    """Return the random text drawn when the ledger was created. It is outside the chain."""
    return str(db.execute("SELECT identity FROM ledger").fetchone()[0])


# ---- checking ----------------------------------------------------------------------------------------------


def check_tables(db: SqlConnection, books: Books | None = None) -> Books:
    """Replay the chain, and compare with it where the tables say it ends, and every kept answer.

    `books` are those of a checkpoint that the chain was found to agree with. Only what follows is replayed.
    """
    if books is None:
        books = replay_entries(read_entries(db))
    else:
        add_newer(db, books, query_newer(db, books))
    noted = db.execute("SELECT entries, head FROM ledger").fetchall()
    require_agreement([tuple(row) for row in noted] == [(books.seq, books.head)], "where the chain ends")
    found = db.execute("SELECT charge, nonce, answer FROM answers")
    kept = {charge: _commit(nonce, answer) for charge, nonce, answer in found}
    released = {charge: commitment for charge, (_, commitment) in books.releases.items()}
    require_agreement(kept == released, "the kept answers")
    return books


def _commit(nonce: str, answer: str) -> str | None:
    """Return the commitment, or None for a nonce that was never drawn by us.

    A nonce with line breaks would let someone move the answer's first lines into it without a trace.
    """
    return commit_to_answer(nonce, answer) if is_digest(nonce) else None
