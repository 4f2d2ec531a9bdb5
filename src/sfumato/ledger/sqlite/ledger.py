"""The ledger in one SQLite file, shared by threads and processes of one machine."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sfumato.errors import LedgerError, UsageError
from sfumato.files.durable import create_private_file
from sfumato.ledger.files import identity
from sfumato.ledger.receipts import Key
from sfumato.ledger.sqlite import schema
from sfumato.ledger.sqlite.database import Database
from sfumato.ledger.store import PATIENCE, StoredLedger

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import Connection


class SqliteLedger(StoredLedger):
    """See `Ledger` for what each call promises."""

    def __init__(self, path: str | Path, patience: float) -> None:
        self._path = str(Path(path).absolute())  # now, since the working directory may change
        self._file = identity(self._path)
        super().__init__(patience)

    @classmethod
    def create(cls, path: str | Path, *, patience: float = PATIENCE) -> Self:
        """A new ledger, readable by its owner alone, where there is none yet."""
        file = str(Path(path).absolute())
        create_file(file)
        database = Database(file, patience, identity(file))
        with closing(database), database.connected() as db:
            schema.create(db)
        Key.beside(file).make()
        return cls.open(path, patience=patience)

    @classmethod
    def open(cls, path: str | Path, *, patience: float = PATIENCE) -> Self:
        """An existing ledger, once all of it has been verified. An older one is brought forward."""
        return cls(path, patience)._begun()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own with one unchanging view, for copies."""
        database = self._connection()
        with self._well, closing(database), database.connected() as db:
            yield db

    def _migrate(self) -> None:
        with self._connected() as db:
            old = schema.is_old(db)
        if old:
            with self._well:
                self._database.write(schema.migrate)

    def _connection(self) -> Database:
        return Database(self._path, self._patience, self._file)

    def _check(self, db: Connection) -> Books:
        return schema.check(db)

    def _key(self) -> Key:
        return Key.beside(self._path)


def create_file(path: str) -> None:
    """Empty, its owner's alone, and only where nothing is yet."""
    try:
        create_private_file(Path(path), b"")
    except FileExistsError:
        raise UsageError(
            "SF-L304", "There is a file where the ledger should go.", try_="SqliteLedger.open"
        ) from None
    except OSError as error:
        raise LedgerError("SF-L106", "The ledger cannot be read or written.") from error
