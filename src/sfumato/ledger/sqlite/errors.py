"""Turns every error of SQLite into one of ours."""

from __future__ import annotations

import sqlite3

from sfumato.errors import LedgerError
from sfumato.ledger.chain import invalid_unicode_error
from sfumato.ledger.failures import busy_error, full_error, unreadable_error

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# Rows are added under fresh numbers only, so a violated constraint means that a table was changed.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)


class SqliteErrors:
    """Raises our error in place of SQLite's at the end of its `with` block."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        match error:
            case None:
                return
            case sqlite3.Error():
                raise _translate(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) from error
            case UnicodeDecodeError():
                # The message of an error can quote the damage, and then Python cannot read the message.
                raise _translate(sqlite3.SQLITE_CORRUPT) from error
            case UnicodeEncodeError():
                raise invalid_unicode_error() from None
            case OSError():
                raise unreadable_error() from error


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds a lock that this one needs."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


def _translate(extended_code: int) -> LedgerError:
    code = extended_code & 0xFF
    if code in _BUSY:
        return busy_error()
    if code == sqlite3.SQLITE_FULL:
        return full_error()
    if code in _DAMAGED:
        return LedgerError("SF-L101", "The ledger's file is damaged, so nothing is answered.")
    return unreadable_error()
