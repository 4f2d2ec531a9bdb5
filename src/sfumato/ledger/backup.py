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
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError
from sfumato.ledger import receipts
from sfumato.ledger.database import coded
from sfumato.ledger.sqlite import SqliteLedger, create_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.ledger.contract import Verified


def backup(ledger: SqliteLedger, to: str | Path) -> Verified:
    """A copy of all that is committed now, where there is no file yet, verified from its first entry."""
    path = str(Path(to).absolute())
    create_file(path)
    with ledger.reading() as db, coded(), closing(sqlite3.connect(path)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, that can be carried away
    with closing(SqliteLedger.open(path)) as copied:
        return copied.verify()


def restore(path: str | Path, copy: str | Path, held: Sequence[str] = ()) -> Verified:
    """Put a copy in the ledger's place; `held` are texts of receipts. What lay there stays, renamed.

    Processes that have the old one open refuse everything from then on. What they charge during the call is
    lost, so end them first.
    """
    place = Path(path).absolute()
    draft = place.with_name(f"{place.name}.{secrets.token_hex(4)}.new")
    try:
        _copy(Path(copy), draft)
        with closing(SqliteLedger.open(draft)) as fresh:
            verified = fresh.verify()
            _require_newest(fresh, place, held)
        _put(draft, place)
    finally:
        for leftover in place.parent.glob(f"{draft.name}*"):
            leftover.unlink()
    return verified


def _require_newest(fresh: SqliteLedger, place: Path, held: Sequence[str]) -> None:
    for text in held:
        receipts.check(fresh, text, receipts.Key.beside(str(place)))
    newest = _newest(place)
    if newest is not None and fresh.holds(newest) is None:
        raise LedgerError(
            "SF-L116", "The ledger that lies there holds entries that this copy lacks.", try_="a newer copy"
        )
    if newest is None and not held:
        raise LedgerError(
            "SF-L117",
            "Nothing shows that this copy holds all that was spent.",
            try_="sfumato ledger restore COPY --receipt FILE, the newest receipt that anyone has",
        )


def _newest(place: Path) -> str | None:
    """The head of the ledger that lies there, if it is sound."""
    with suppress(LedgerError), closing(SqliteLedger.open(place)) as ledger:
        return ledger.verify().head
    return None


def _copy(copy: Path, draft: Path) -> None:
    create_file(str(draft))
    shutil.copyfile(copy, draft)
    _sync(draft)


def _put(draft: Path, place: Path) -> None:
    """The old files go first: their log must not be taken for the new ledger's."""
    aside = f"{place}.{secrets.token_hex(4)}.old"
    for ending in ("-shm", "-wal", ""):
        with suppress(FileNotFoundError):
            os.rename(f"{place}{ending}", f"{aside}{ending}")
    os.rename(draft, place)
    _sync(place.parent)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
