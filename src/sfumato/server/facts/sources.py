"""Files that a steward registers tables from: sent to the server, or in folders that its settings name.

A file that was sent holds protected rows. It lies in a private folder of the lab until its table is
registered, and for a day at most.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from sfumato.errors import PolicyError, UsageError
from sfumato.files.durable import create_private_folder

if TYPE_CHECKING:
    from sfumato.server.context import ServerContext

SUFFIXES: Final = (".csv", ".parquet")
KEPT_SECONDS: Final = 24 * 3600
"""How long a file is kept that was sent and whose table was never registered."""
_SENT = re.compile(r"sent/[0-9a-f]{32}\.(csv|parquet)\Z")
_LISTED = re.compile(r"folder/(\d{1,3})/([^/\\\0]{1,200})\Z")


def keep_sent_file(context: ServerContext, name: str, content: IO[bytes]) -> str:
    """Keep a file that was sent, readable by its owner alone, and return the name of the source."""
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError("SF-W193", "This is neither a CSV nor a Parquet file.", try_="visits.parquet")
    folder = _sent_folder(context)
    create_private_folder(folder)
    _forget_old_files(folder)
    kept = f"{secrets.token_hex(16)}{suffix}"
    descriptor = os.open(folder / kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        shutil.copyfileobj(content, target)
    return f"sent/{kept}"


def find_source(context: ServerContext, source: str) -> Path:
    """Return where the file of a source lies; whatever is no such file is refused in one way."""
    path: Path | None = None
    if _SENT.match(source):
        path = _sent_folder(context) / source.removeprefix("sent/")
    elif listed := _LISTED.match(source):
        path = dict(list_sources(context)).get(f"folder/{listed[1]}/{listed[2]}")
    if path is None or not path.is_file():
        raise PolicyError("SF-W192", "There is no such file to register.", try_="send the file once more")
    return path


def list_sources(context: ServerContext) -> list[tuple[str, Path]]:
    """Return the files in the folders of the settings, each with the name of its source."""
    found = []
    for at, folder in enumerate(context.settings.sources):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.suffix.lower() in SUFFIXES and path.is_file():
                found.append((f"folder/{at}/{path.name}", path))
    return found


def forget_source(context: ServerContext, source: str) -> None:
    """Remove a file that was sent; files in folders of the settings stay."""
    if _SENT.match(source):
        (_sent_folder(context) / source.removeprefix("sent/")).unlink(missing_ok=True)


def _sent_folder(context: ServerContext) -> Path:
    return context.lab.folder / "sent"


def _forget_old_files(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_file() and path.stat().st_mtime < time.time() - KEPT_SECONDS:
            path.unlink(missing_ok=True)
