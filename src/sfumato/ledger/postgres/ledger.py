"""The ledger in a PostgreSQL schema, shared by several machines.

A writer locks one row until its commit is on disk: the chain has one end, so it has one writer at a time. The
threads of a process share a commit. Entries can only be added: a trigger refuses everything else, and the
role that `writer` names lacks the rights even to try.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sfumato.errors import UsageError
from sfumato.ledger.postgres import schema as schema_tables
from sfumato.ledger.postgres.address import DEFAULT_SCHEMA
from sfumato.ledger.postgres.database import PostgresDatabase
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.store import TIMEOUT, StoredLedger

if TYPE_CHECKING:
    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import SqlConnection

# Names that need no quotes, since they are written into statements.
_NAME = re.compile("[a-z_][a-z0-9_]{0,62}")


class PostgresLedger(StoredLedger):
    """A ledger at `address`, which psycopg connects to. `Ledger` says what each call promises."""

    def __init__(self, address: str, schema: str, key: str | Path | None, timeout: float) -> None:
        _require_name(schema)
        self._address, self._schema = address, schema
        self._key_file = None if key is None else Path(key).absolute()
        super().__init__(timeout)

    def __repr__(self) -> str:
        # The address may hold a password.
        return f"PostgresLedger(schema={self._schema!r})"

    @classmethod
    def create(
        cls,
        address: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        key: str | Path | None = None,
        writer: str | None = None,
        timeout: float = TIMEOUT,
    ) -> Self:
        """Create a ledger in a new schema.

        `key` is a local file for the signing key. `writer` is a role that gets the rights to charge, and no
        others.
        """
        for name in (schema, writer or "none"):
            _require_name(name)
        database = PostgresDatabase(address, schema, timeout)
        with closing(database), database.lend_connection() as db:
            schema_tables.create_tables(db, schema, writer)
        if key is not None:
            SigningKey(Path(key).absolute()).create()
        return cls.open(address, schema=schema, key=key, timeout=timeout)

    @classmethod
    def open(
        cls,
        address: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        key: str | Path | None = None,
        timeout: float = TIMEOUT,
    ) -> Self:
        """Open a ledger and verify all of it."""
        return cls(address, schema, key, timeout)._start()

    def _make_database(self) -> PostgresDatabase:
        return PostgresDatabase(self._address, self._schema, self._timeout)

    def _check(self, db: SqlConnection) -> Books:
        return schema_tables.check_ledger(db)

    def _find_key(self) -> SigningKey:
        if self._key_file is None:
            raise UsageError(
                "SF-L115",
                "This ledger was opened without a key for receipts.",
                try_="PostgresLedger.open(…, key=…)",
            )
        return SigningKey(self._key_file)


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            "SF-L302", "The ledger cannot keep this.", rule="a schema or role is a plain lower-case name"
        )
