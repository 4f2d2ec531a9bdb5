"""Reads a ledger without writing to its folder: on a read-only medium, or from a copy that someone was given.

SQLite cannot read its log without writing beside it. So the files are copied to a private folder, which is
removed when the ledger is closed, and opened there.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from sfumato.errors import LedgerError
from sfumato.ledger.failures import missing_error, unreadable_error
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.sqlite.database import SqliteDatabase
from sfumato.ledger.sqlite.files import identify_file
from sfumato.ledger.sqlite.ledger import SqliteLedger
from sfumato.ledger.sqlite.mark import Mark
from sfumato.ledger.store import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.books import Books
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")


class AuditedLedger(SqliteLedger):
    """A private copy of a ledger that answers every call that changes nothing."""

    _folder: tempfile.TemporaryDirectory[str]
    _original: str

    @classmethod
    def read(
        cls, path: str | Path, *, missing: bool = False, shorter: bool = False, timeout: float = TIMEOUT
    ) -> Self:
        """Copy a ledger and verify the copy.

        `missing` accepts a ledger without a mark, and `shorter` one that lacks entries that its mark names.
        """
        original = Path(path).absolute()
        folder = tempfile.TemporaryDirectory(prefix="sfumato-audit-")
        copy = Path(folder.name) / original.name
        try:
            _copy_files(original, copy, timeout)
            database = SqliteDatabase(str(copy), timeout, identify_file(str(copy)))
            database.adopt_mark(missing=missing, shorter=shorter)
            database.close()
            ledger = cls(copy, timeout)
            ledger._folder, ledger._original = folder, str(original)
            return ledger._start()
        except BaseException:
            folder.cleanup()
            raise

    def close(self) -> None:
        super().close()
        self._folder.cleanup()

    def _load_checkpoint(self) -> None:
        """Use none: who audits a ledger decides every entry again."""

    def _save_checkpoint(self, books: Books) -> None:
        """Leave none behind."""

    def _write(self, name: str, work: Callable[[Transaction], T], carry: object = None) -> T:
        raise LedgerError(
            "SF-L110", "This ledger was opened for reading only.", try_="open it where it can be written"
        )

    def _find_key(self) -> SigningKey:
        return SigningKey.beside_ledger(self._original)


def _copy_files(original: Path, copy: Path, timeout: float) -> None:
    """Copy the ledger, its log, its mark and its witness while nobody writes."""
    mark = Mark(str(original.resolve()))
    try:
        with mark.sharing(timeout):
            shutil.copyfile(original, copy)
            for ending in ("-wal", ".mark"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{original.resolve()}{ending}", f"{copy}{ending}")
            mark.witness.carry_to(str(copy.resolve()))
    except FileNotFoundError as error:
        raise missing_error() from error
    except OSError as error:
        raise unreadable_error() from error
    finally:
        mark.close()
