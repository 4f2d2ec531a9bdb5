"""The ledger in a PostgreSQL schema, shared by several machines.

One row is locked by whoever writes, until its commit is on disk: the chain has one end, so it has one writer
at a time. Threads of a process share a commit. Entries can only be added: a trigger refuses all else, and the
role that `writer` names is not even allowed to try.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sfumato.errors import UsageError
from sfumato.ledger.postgres import schema as server_schema
from sfumato.ledger.postgres.database import ServerDatabase
from sfumato.ledger.receipts import Key
from sfumato.ledger.store import PATIENCE, StoredLedger

if TYPE_CHECKING:
    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import Connection

SCHEMA = "sfumato_ledger"
"""Unless another is named."""

_NAME = re.compile("[a-z_][a-z0-9_]{0,62}")


class PostgresLedger(StoredLedger):
    """See `Ledger` for what each call promises. `address` is what psycopg connects to."""

    def __init__(self, address: str, schema: str, key: str | Path | None, patience: float) -> None:
        _require_name(schema)
        self._address, self._schema = address, schema
        self._key_file = None if key is None else Path(key).absolute()
        super().__init__(patience)

    @classmethod
    def create(
        cls,
        address: str,
        *,
        schema: str = SCHEMA,
        key: str | Path | None = None,
        writer: str | None = None,
        patience: float = PATIENCE,
    ) -> Self:
        """A new ledger in a new schema. `key` is a local file for signing, `writer` a role to charge."""
        for name in (schema, writer or "none"):
            _require_name(name)
        database = ServerDatabase(address, schema, patience)
        with closing(database), database.connected() as db:
            server_schema.create(db, schema, writer)
        if key is not None:
            Key(Path(key).absolute()).make()
        return cls.open(address, schema=schema, key=key, patience=patience)

    @classmethod
    def open(
        cls,
        address: str,
        *,
        schema: str = SCHEMA,
        key: str | Path | None = None,
        patience: float = PATIENCE,
    ) -> Self:
        """An existing ledger, once all of it has been verified. Its owner brings an older one forward."""
        return cls(address, schema, key, patience)._begun()

    def _migrate(self) -> None:
        with self._connected() as db:
            old = server_schema.is_old(db)
        if old:
            with self._well:
                self._database.write(server_schema.migrate)

    def _connection(self) -> ServerDatabase:
        return ServerDatabase(self._address, self._schema, self._patience)

    def _check(self, db: Connection) -> Books:
        return server_schema.check(db)

    def _key(self) -> Key:
        if self._key_file is None:
            raise UsageError(
                "SF-L310",
                "This ledger was opened without a key for receipts.",
                try_="PostgresLedger.open(…, key=…)",
            )
        return Key(self._key_file)


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            "SF-L302", "The ledger cannot keep this.", rule="a schema or role is a plain lower-case name"
        )
