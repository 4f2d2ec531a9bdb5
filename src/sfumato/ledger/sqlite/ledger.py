"""The ledger in one SQLite file, shared by the threads and processes of one machine."""

from __future__ import annotations

import secrets
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sfumato.errors import LedgerError, UsageError
from sfumato.files.durable import create_empty_private_file, link_draft, sync_path
from sfumato.ledger.checkpoint import STEP, load_books, save_books
from sfumato.ledger.failures import unreadable_error
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.sqlite import schema
from sfumato.ledger.sqlite.connection import open_connection
from sfumato.ledger.sqlite.database import SqliteDatabase
from sfumato.ledger.sqlite.errors import SqliteErrors
from sfumato.ledger.sqlite.files import identify_file
from sfumato.ledger.sqlite.mark import begin_first_mark
from sfumato.ledger.store import TIMEOUT, StoredLedger

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from sfumato.ledger.books import Books
    from sfumato.ledger.tables import SqlConnection


_CHECKPOINT = "books"


class SqliteLedger(StoredLedger):
    """A ledger in a file. `Ledger` says what each call promises."""

    _database: SqliteDatabase
    _saved = 0
    """Number of the entry after which the last checkpoint was made."""

    def __init__(self, path: str | Path, timeout: float) -> None:
        self._path = str(Path(path).absolute())  # now, since the working directory may change
        # Fixed here, over all connections to come: a file put in its place later is another ledger.
        self._file = identify_file(self._path)
        super().__init__(timeout)

    def __repr__(self) -> str:
        return f"SqliteLedger({self._path!r})"

    @classmethod
    def create(cls, path: str | Path, *, timeout: float = TIMEOUT) -> Self:
        """Create a ledger that its owner alone can read, where there is no file yet."""
        file = Path(path).absolute()
        if file.exists():
            raise _taken_error()
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
        try:
            # SQLite would create the file too, but readable by others.
            create_file(str(draft))
            with SqliteErrors(), closing(open_connection(str(draft), timeout)) as db:
                schema.create_tables(db)
            sync_path(draft)
            SigningKey.beside_ledger(str(file)).create()
            begin_first_mark(str(file))
            # Last, and in one step: whoever is killed before has created nothing.
            link_draft(draft, file)
        except FileExistsError:
            raise _taken_error() from None
        finally:
            draft.unlink(missing_ok=True)
        return cls.open(path, timeout=timeout)

    @classmethod
    def open(cls, path: str | Path, *, timeout: float = TIMEOUT) -> Self:
        """Open a ledger and verify all of it."""
        return cls(path, timeout)._start()

    @contextmanager
    def open_copy_source(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own, from which a copy can be made."""
        database = self._make_database()
        with self._guard, closing(database), database.lend_connection() as db:
            yield db

    def _make_database(self) -> SqliteDatabase:
        return SqliteDatabase(self._path, self._timeout, self._file)

    def _start(self) -> Self:
        super()._start()
        try:
            # After the check, so that a broken chain is called that. What this adds is checked when read.
            with self._guard:
                self._database.settle()
                self._database.require_locks()
        except LedgerError:
            self.close()
            raise
        return self

    def _check(self, db: SqlConnection) -> Books:
        return schema.check_ledger(db)

    def _check_at_start(self, db: SqlConnection) -> Books:
        books = schema.check_ledger(db, self._load_checkpoint())
        self._save_checkpoint(books)
        return books

    def close(self) -> None:
        # Only what this process has verified or written, and nothing from a ledger that is refused.
        if self._guard.error is None and self._books is not None:
            self._save_checkpoint(self._books)
        super().close()

    def _load_checkpoint(self) -> Books | None:
        key = self._find_key().derive_secret(_CHECKPOINT)
        books = None if key is None else load_books(Path(f"{self._path}.books"), key)
        self._saved = 0 if books is None else books.seq
        return books

    def _save_checkpoint(self, books: Books) -> None:
        key = self._find_key().derive_secret(_CHECKPOINT) if books.seq - self._saved >= STEP else None
        if key is not None:
            save_books(Path(f"{self._path}.books"), key, books)
            self._saved = books.seq

    def _find_key(self) -> SigningKey:
        return SigningKey.beside_ledger(self._path)


def create_file(path: str) -> None:
    """Create an empty file that its owner alone can read, where there is none yet."""
    try:
        # An empty file needs no draft, and so no hard link, which backups to some disks cannot have.
        create_empty_private_file(Path(path))
    except FileExistsError:
        raise _taken_error() from None
    except OSError as error:
        raise unreadable_error() from error


def _taken_error() -> UsageError:
    return UsageError(
        "SF-L304", "There is already a file where the ledger should go.", try_="SqliteLedger.open"
    )
