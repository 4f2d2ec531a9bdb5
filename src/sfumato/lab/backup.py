"""Backups of a lab's ledger, and their return. Snapshots are made again from their sources."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.files.disk_errors import name_disk_errors
from sfumato.lab.folder import require_lab
from sfumato.ledger import SqliteLedger
from sfumato.ledger.location import find_sqlite_file
from sfumato.ledger.sqlite.backup import accept_ledger, back_up_ledger, restore_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.ledger.api import Verified


def back_up(folder: Path, file: str | Path) -> Verified:
    """Copy the ledger of a lab to a new file while it is in use, and verify the copy."""
    with closing(SqliteLedger.open(find_sqlite_file(folder))) as entries:
        return back_up_ledger(entries, file)


def restore(
    path: str | Path, file: str | Path, *, receipts: Iterable[str | Path] = (), unproven: bool = False
) -> Verified:
    """Put a backup in the place of a lab's ledger, if it forgets nothing that was spent.

    `receipts` are files with signed receipts that the backup must hold. `unproven` goes on although charges
    may be forgotten. Every process must have closed the lab: this one with `lab.ledger.close()`.
    """
    return restore_ledger(_find_ledger(path), file, _read_texts(receipts), unproven=unproven)


def accept(path: str | Path, *, receipts: Iterable[str | Path] = (), unproven: bool = False) -> Verified:
    """Go on with a lab whose folder was copied or moved here. The original must be gone.

    `receipts` are files with signed receipts that its ledger must hold. `unproven` goes on although charges
    may be forgotten.
    """
    return accept_ledger(_find_ledger(path), _read_texts(receipts), unproven=unproven)


def _find_ledger(path: str | Path) -> Path:
    folder = Path(path).resolve()
    with name_disk_errors():
        require_lab(folder)
    return find_sqlite_file(folder)


def _read_texts(files: Iterable[str | Path]) -> list[str]:
    return [Path(name).read_text(encoding="utf-8") for name in files]
