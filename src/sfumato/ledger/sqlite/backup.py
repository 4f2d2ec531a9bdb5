"""Copies of a SQLite ledger, and restores that never forget what was spent.

A copy can be made while others write. It is restored only if something shows that no charge is lost by that:
the present ledger, if it is sound and the copy holds its newest entry, its mark, whose entries the copy holds
or is given, or a receipt whose entry the copy holds.
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
from sfumato.ledger.chain import GENESIS
from sfumato.ledger.receipts.checking import check_receipt
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.database import SqliteDatabase
from sfumato.ledger.sqlite.errors import SqliteErrors, is_busy
from sfumato.ledger.sqlite.files import identify_file
from sfumato.ledger.sqlite.ledger import SqliteLedger, create_file
from sfumato.ledger.sqlite.mark import Mark
from sfumato.ledger.store import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.ledger.api import Verified


def back_up_ledger(ledger: SqliteLedger, to: str | Path) -> Verified:
    """Copy everything that is committed now to a new file, and verify the copy from its first entry."""
    path = str(Path(to).absolute())
    create_file(path)
    with ledger.open_copy_source() as db, SqliteErrors(), closing(sqlite3.connect(path)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # no log beside it: one file that can be carried away
    with closing(AuditedLedger.read(path, missing=True)) as copied:
        return copied.verify()


def accept_ledger(path: str | Path, receipts: Sequence[str] = (), *, unproven: bool = False) -> Verified:
    """Give the ledger at this path a new mark, because it was copied or moved here or its mark is lost.

    `receipts` are texts of receipts that it has to hold. `unproven` goes on without any, and with entries
    missing: what was charged in them is forgotten.
    """
    place = Path(path).absolute()
    with closing(AuditedLedger.read(place, missing=True, shorter=unproven)) as copy:
        verified = copy.verify()
        _check_receipts(copy, place, receipts)
    if not receipts and not unproven:
        raise _unproven_error("sfumato ledger accept --receipt FILE")
    with closing(SqliteDatabase(str(place), TIMEOUT, identify_file(str(place)))) as database:
        database.adopt_mark(missing=True, shorter=unproven)
    return verified


def restore_ledger(
    path: str | Path, copy: str | Path, receipts: Sequence[str] = (), *, unproven: bool = False
) -> Verified:
    """Put a copy in the ledger's place. The old files stay beside it, renamed.

    `receipts` are texts of receipts that the copy has to hold. `unproven` restores a copy although entries
    are known to be missing from it, or nothing shows that none are. Nobody may have the ledger open: they
    would go on with the old file and, when they end, delete the log of the new one by its name.
    """
    # Behind a link, or the old file would stay where it is and be a second budget.
    given, place = Path(path).absolute(), Path(os.path.realpath(path))
    draft = place.with_name(f"{place.name}.{secrets.token_hex(4)}.new")
    try:
        _copy_file(Path(copy), draft)
        with closing(_open_draft(draft, place, unproven)) as fresh:
            # Checked before the locks are taken, as both take long. The ends are read after it: charges made
            # until then count.
            verified, sound = fresh.verify(), _is_sound(place)
            with _holding_mark(place) as mark, _locking_out_others(place) as newest:
                _check_receipts(fresh, given, receipts)
                if not unproven:
                    is_marked = _require_marked(fresh, mark)
                    _require_newest(fresh, newest if sound else None, bool(receipts) or is_marked)
                fresh.close()  # so that its log is written back into the one file that is moved
                _put_in_place(draft, place)
                mark.begin_anew((verified.entries, verified.head))
    finally:
        for leftover in place.parent.glob(f"{draft.name}*"):
            leftover.unlink()
    return verified


def _open_draft(draft: Path, place: Path, unproven: bool) -> SqliteLedger:
    """Open a copy, with the newest entries that the present mark holds and the copy lacks."""
    mark = Mark(os.path.realpath(place))
    with closing(mark), mark.sharing(TIMEOUT), suppress(FileNotFoundError):
        mark.witness.carry_to(os.path.realpath(draft))
        shutil.copyfile(mark.path, f"{draft}.mark")
    with closing(SqliteDatabase(str(draft), TIMEOUT, identify_file(str(draft)))) as database:
        database.adopt_mark(missing=True, shorter=unproven)
    return SqliteLedger.open(draft)


def _check_receipts(ledger: SqliteLedger, place: Path, receipts: Sequence[str]) -> None:
    for text in receipts:
        check_receipt(ledger, text, SigningKey.beside_ledger(str(place)))


def _require_newest(fresh: SqliteLedger, newest: str | None, proven: bool) -> None:
    """Refuse a copy that may lack a charge. `newest` is the head of the present ledger, if it is sound."""
    if newest not in (None, GENESIS) and fresh.find_entry(str(newest)) is None:
        raise _lacking_error()
    if newest is None and not proven:
        raise _unproven_error("sfumato ledger restore COPY --receipt FILE")


def _lacking_error() -> LedgerError:
    return LedgerError(
        "SF-L132", "The present ledger holds entries that this copy lacks.", try_="a newer copy"
    )


def _in_use_error() -> LedgerError:
    return LedgerError(
        "SF-L122", "The ledger is in use, so nothing was restored.", try_="end every process of the lab"
    )


def _unproven_error(command: str) -> LedgerError:
    return LedgerError(
        "SF-L132",
        "Nothing shows that this copy holds everything that was spent.",
        try_=f"{command}, with the newest receipt that anyone has",
    )


@contextmanager
def _holding_mark(place: Path) -> Iterator[Mark]:
    """Yield the mark of the present ledger, or an empty one, while nobody can write."""
    mark = Mark(os.path.realpath(place))
    mark.create()
    with closing(mark):
        if not mark.try_lock():
            raise _in_use_error()
        yield mark


def _require_marked(fresh: SqliteLedger, mark: Mark) -> bool:
    """Refuse a copy without an entry that the present mark or witness tells of. Returns if there are any."""
    told = mark.witness.list_ends()
    if not mark.is_blank():
        told.append(mark.read(copied=True))
    told = [end for end in told if end[0]]
    if any(fresh.find_entry(head) != seq for seq, head in told):
        raise _lacking_error()
    return bool(told) and not mark.is_blank()


def _is_sound(place: Path) -> bool:
    with suppress(LedgerError), closing(SqliteLedger.open(place)) as ledger:
        ledger.verify()
        return True
    return False


@contextmanager
def _locking_out_others(place: Path) -> Iterator[str | None]:
    """Yield the head of the present ledger, or None if it is missing or damaged, while nobody can open it."""
    try:
        db = sqlite3.connect(f"file:{quote(str(place))}?mode=rw", 0, isolation_level=None, uri=True)
    except sqlite3.Error:
        yield None
        return
    with closing(db):
        yield _lock_and_read_head(db)


def _lock_and_read_head(db: sqlite3.Connection) -> str | None:
    try:
        # To leave the write-ahead log, SQLite needs the file to itself. In this locking mode it keeps it so.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE").fetchone()
        db.execute("BEGIN EXCLUSIVE")
        row = db.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        if is_busy(error):
            raise _in_use_error() from error
        return None
    return GENESIS if row is None else str(row[0])


def _copy_file(copy: Path, draft: Path) -> None:
    create_file(str(draft))
    shutil.copyfile(copy, draft)
    sync_path(draft)


def _put_in_place(draft: Path, place: Path) -> None:
    aside = f"{place}.{secrets.token_hex(4)}.old"
    # A log that is still there belongs to a damaged ledger. It goes first, or SQLite would apply it to the
    # copy.
    for ending in ("-shm", "-wal"):
        with suppress(FileNotFoundError):
            os.rename(f"{place}{ending}", f"{aside}{ending}")
    # A second name for the old file, so that at every moment some ledger lies at the path.
    with suppress(FileNotFoundError):
        os.link(place, aside)
    rename_path(draft, place)
