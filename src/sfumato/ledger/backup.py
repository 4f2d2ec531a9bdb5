"""Copies of a SQLite ledger, and the way back, which never forgets what was spent.

A copy is taken while others write. It is put back only where something shows that nothing is lost by it: the
ledger that lies there, if it is sound and the copy holds its newest entry, or a receipt whose entry the copy
holds.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.errors import LedgerError
from sfumato.files.durable import rename_path, sync_path
from sfumato.ledger import receipts
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.sqlite.database import CODED
from sfumato.ledger.sqlite.ledger import SqliteLedger, create_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.ledger.api import Verified


def backup(ledger: SqliteLedger, to: str | Path) -> Verified:
    """A copy of all that is committed now, where there is no file yet, verified from its first entry."""
    path = str(Path(to).absolute())
    create_file(path)
    with ledger.reading() as db, CODED, closing(sqlite3.connect(path)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, that can be carried away
    with closing(SqliteLedger.open(path)) as copied:
        return copied.verify()


def restore(path: str | Path, copy: str | Path, held: Sequence[str] = ()) -> Verified:
    """Put a copy in the ledger's place; `held` are texts of receipts. What lay there stays, renamed.

    Nobody may have the ledger open: they would go on with the old file and, when they end, take the log of
    the new one for theirs.
    """
    place = Path(path).absolute()
    draft = place.with_name(f"{place.name}.{secrets.token_hex(4)}.new")
    try:
        _copy(Path(copy), draft)
        with closing(SqliteLedger.open(draft)) as fresh:
            verified, sound = fresh.verify(), _is_sound(place)
            with _alone(place) as newest:
                _require_newest(fresh, place, newest if sound else None, held)
                fresh.close()
                _put(draft, place)
    finally:
        for leftover in place.parent.glob(f"{draft.name}*"):
            leftover.unlink()
    return verified


def _require_newest(fresh: SqliteLedger, place: Path, newest: str | None, held: Sequence[str]) -> None:
    for text in held:
        receipts.check(fresh, text, receipts.Key.beside(str(place)))
    if newest not in (None, GENESIS) and fresh.holds(str(newest)) is None:
        raise LedgerError(
            "SF-L116", "The ledger that lies there holds entries that this copy lacks.", try_="a newer copy"
        )
    if newest is None and not held:
        raise LedgerError(
            "SF-L117",
            "Nothing shows that this copy holds all that was spent.",
            try_="sfumato ledger restore COPY --receipt FILE, the newest receipt that anyone has",
        )


def _is_sound(place: Path) -> bool:
    with suppress(LedgerError), closing(SqliteLedger.open(place)) as ledger:
        ledger.verify()
        return True
    return False


@contextmanager
def _alone(place: Path) -> Iterator[str | None]:
    """The head of what lies there, while nobody else has it open or can open it; none where it is damaged.

    To leave the write-ahead log SQLite needs the file to itself, and in this locking mode it stays so.
    """
    try:
        db = sqlite3.connect(f"file:{quote(str(place))}?mode=rw", 0, isolation_level=None, uri=True)
    except sqlite3.Error:
        yield None
        return
    with closing(db):
        yield _head_of(db)


def _head_of(db: sqlite3.Connection) -> str | None:
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE").fetchone()
        db.execute("BEGIN EXCLUSIVE")
        row = db.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerError(
                "SF-L122",
                "The ledger is in use, so nothing was put back.",
                try_="end every process of the lab",
            ) from error
        return None
    return GENESIS if row is None else str(row[0])


def _copy(copy: Path, draft: Path) -> None:
    create_file(str(draft))
    shutil.copyfile(copy, draft)
    sync_path(draft)


def _put(draft: Path, place: Path) -> None:
    """A log that is still there is of a damaged ledger: it goes first, not to be taken for the new one's."""
    aside = f"{place}.{secrets.token_hex(4)}.old"
    for ending in ("-shm", "-wal"):
        with suppress(FileNotFoundError):
            os.rename(f"{place}{ending}", f"{aside}{ending}")
    with suppress(FileNotFoundError):
        os.link(place, aside)
    rename_path(draft, place)
