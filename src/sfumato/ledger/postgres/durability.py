"""What makes a commit durable on a server: its settings, its tables, and a later commit that is confirmed.

A commit that is visible may still be lost: the server's disk, or a synchronous standby, has not confirmed it
yet, or the wait for a standby was cancelled. The log is sequential, so one later commit that is confirmed
makes everything durable that was visible before. docs/proofs/durability.md proves what the ledger needs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError
from sfumato.ledger.failures import silent_error

if TYPE_CHECKING:
    from sfumato.ledger.postgres.connection import PostgresConnection

# A transaction by itself that writes to the log, so that its commit waits for the disk and for standbys; one
# that only takes a number would not. A standby shows what its own disk holds, and cannot write.
CONFIRM = """
    SELECT CASE WHEN pg_is_in_recovery() THEN NULL
        ELSE pg_logical_emit_message(true, 'sfumato', 'confirmed') END
"""

_NEEDED = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "client_min_messages": "warning",
}
_SELECT_SETTINGS = "SELECT " + ", ".join(f"current_setting('{name}')" for name in _NEEDED)
_SELECT_UNLOGGED = """
    SELECT relname FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()::TEXT) AND relpersistence <> 'p' ORDER BY relname
"""


def confirm_all(db: PostgresConnection, timeout: float) -> None:
    """Return once everything that this connection can see is durable, on the server and its standbys.

    If someone cancels the wait, which leaves no trace but a warning, it begins again.
    """
    deadline = time.monotonic() + timeout
    if db.raw.info.transaction_status:
        db.execute("ROLLBACK")  # inside of a transaction, nothing would wait
    db.take_warnings()
    while True:
        db.execute(CONFIRM)
        if not db.take_warnings():
            return
        if time.monotonic() >= deadline:
            raise silent_error()


def require_durable_server(db: PostgresConnection) -> None:
    """Refuse a server that calls a commit durable which a power cut can undo."""
    with db.raw.pipeline():
        settings, unlogged = db.execute(_SELECT_SETTINGS), db.execute(_SELECT_UNLOGGED)
    found = dict(zip(_NEEDED, settings.fetchone(), strict=True))
    wrong = [f"{name} = {value}" for name, value in found.items() if value != _NEEDED[name]]
    if wrong:
        raise LedgerError(
            "SF-C211",
            "This server does not keep what it confirms, so nothing is charged.",
            found=", ".join(wrong),
            needed=", ".join(f"{name} = {_NEEDED[name]}" for name in _NEEDED),
            try_="ALTER SYSTEM SET fsync = on, SELECT pg_reload_conf(), and no pool that drops options",
        )
    tables = [name for (name,) in unlogged.fetchall()]
    if tables:
        raise LedgerError(
            "SF-C211",
            "Tables of the ledger are not written to the server's log, so a crash would empty them.",
            tables=", ".join(tables),
            try_=f"ALTER TABLE {tables[0]} SET LOGGED, as the owner of the schema",
        )
