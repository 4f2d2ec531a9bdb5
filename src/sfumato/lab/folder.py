"""What makes a folder a lab: the key that ranks its rows, and that gives the lab its identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_folder

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ranking.key"
KEY_BYTES = 32
DRAFT = ".creating"
"""Folder in which a new lab is made, until it is whole."""
_PARTS = ("catalog.json", "ledger.json", "ledger.sqlite")
"""Files that only labs have; each can be in a lab whose key was lost."""


def make_folder(folder: Path) -> None:
    """Make a folder for a lab, if there is none."""
    try:
        with name_disk_errors():
            create_private_folder(folder)
    except OSError:
        raise UsageError(
            "SF-C118",
            f"No folder can be made at '{folder.name}'.",
            why="a file has this name, or that of a folder above; or no folders can be made in this place",
            try_="sf.create with another path",
        ) from None


def require_vacant(folder: Path) -> None:
    """Refuse to make a lab where there is something else than what an interrupted attempt has left."""
    if _is_vacant(folder):
        return
    _require_key_of_parts(folder)
    if (folder / KEY).exists():
        raise UsageError("SF-C118", f"'{folder.name}' is there already.", try_=f'sf.open("{folder}")')
    raise UsageError(
        "SF-C118",
        f"'{folder.name}' is there already, and is not a lab.",
        why="it has other files",
        try_="sf.create with a new folder",
    )


def require_lab(folder: Path) -> None:
    """Refuse to open what `create` has not made, or not finished."""
    if (folder / KEY).exists():
        return
    if folder.is_dir() and not _is_vacant(folder):
        _require_key_of_parts(folder)
    elif not folder.exists() or folder.is_dir():
        raise UsageError("SF-C119", f"'{folder.name}' is not a lab.", try_=f'sf.create("{folder}")')
    raise UsageError("SF-C119", f"'{folder.name}' is not a lab.", try_="sf.open with the folder of one")


def read_ranking_key(folder: Path) -> bytes:
    """Return the key of a lab. Whatever else is in its place would make it another lab."""
    try:
        key = (folder / KEY).read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) != KEY_BYTES:
        raise _lost_key_error(folder)
    return key


def _is_vacant(folder: Path) -> bool:
    draft = folder / DRAFT
    return (draft / KEY).exists() or not any(each != draft for each in folder.iterdir())


def _require_key_of_parts(folder: Path) -> None:
    if not (folder / KEY).exists() and any((folder / name).exists() for name in _PARTS):
        raise _lost_key_error(folder)


def _lost_key_error(folder: Path) -> UsageError:
    return UsageError(
        "SF-C112",
        f"The key of the lab '{folder.name}' is missing or damaged, so it cannot be opened.",
        why=f"{KEY} is not the file that was made with the lab",
        try_=f"put {KEY} back from a copy of the folder",
    )
