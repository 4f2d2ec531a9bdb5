"""Turns every error of PostgreSQL into one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.errors.interrupts import find_interrupt
from sfumato.ledger.chain import invalid_unicode_error
from sfumato.ledger.failures import busy_error, full_error, silent_error, unreachable_error
from sfumato.ledger.postgres.connection import import_psycopg

if TYPE_CHECKING:
    from types import ModuleType

_LOCK_REFUSED = ("55P03", "40P01")  # lock not available, deadlock
_CANCELLED = "57014"
_FULL = ("53100",)
_DAMAGED = ("XX001", "XX002")


class PostgresErrors:
    """Raises our error in place of the driver's at the end of its `with` block."""

    def __enter__(self) -> None:
        import_psycopg()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        psycopg = import_psycopg()
        if isinstance(error, psycopg.Error):
            raise find_interrupt(error) or _translate(psycopg, error) from error
        if isinstance(error, UnicodeEncodeError):
            raise invalid_unicode_error() from None


def is_lock_refused(error: Any) -> bool:
    """Return whether another session holds a lock that this one needs, so that nothing was written."""
    return error.sqlstate in _LOCK_REFUSED


def _translate(psycopg: ModuleType, error: Any) -> LedgerError:
    if is_lock_refused(error) or error.sqlstate == _CANCELLED:
        return busy_error()
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return silent_error()
    if error.sqlstate in _FULL:
        return full_error()
    # Writers add rows under fresh numbers only, so a violated constraint means that a table was changed.
    if error.sqlstate in _DAMAGED or isinstance(error, psycopg.IntegrityError):
        return LedgerError("SF-L101", "The ledger's tables are damaged, so nothing is answered.")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return LedgerError(
            "SF-C210",
            "The server does not let this role do that to the ledger.",
            why="the role lacks a right, or the server's disk is read-only",
            try_="PostgresLedger.create(…, writer=…), which grants a role what it needs",
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return LedgerError("SF-L103", "This schema is not a ledger of this version.")
    return unreachable_error()
