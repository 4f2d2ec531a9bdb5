"""Where rows come from: files that were sent, files in folders, and databases that the server was given.

A steward names a source by words that the server knows, and never by an address of their own: the server
would else open whatever it can reach, with its own rights.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sfumato.engines.registry import list_tables
from sfumato.errors import SfumatoError, UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sfumato.server.context import ServerContext

FORMATS = ("parquet", "csv")
_NUMBER = re.compile(r"[0-9a-f]{32}\.(parquet|csv)\Z")
_ABANDONED = 24 * 3600.0
"""Seconds after which a file that was sent and never registered is erased."""


@dataclass(frozen=True, slots=True)
class ListedDatabase:
    """A database that the server was given, and its tables, or why they cannot be listed now."""

    name: str
    tables: tuple[str, ...]
    problem: SfumatoError | None = None


class UploadedTable:
    """A table that a steward sends, written to a private file part by part."""

    def __init__(self, context: ServerContext, format_: str) -> None:
        if format_ not in FORMATS:
            raise UsageError("SF-W104", "A table is sent as Parquet or as CSV.", try_="format=parquet")
        self._folder = _uploads(context)
        remove_old_uploads(context)
        self.name = f"{secrets.token_hex(16)}.{format_}"
        self.bytes = 0
        with name_disk_errors():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._file = os.fdopen(os.open(self._folder / self.name, flags, 0o600), "wb")

    def write(self, part: bytes) -> None:
        """Add a part of the file."""
        with name_disk_errors():
            self.bytes += self._file.write(part)

    def close(self) -> None:
        """End the file."""
        with name_disk_errors():
            self._file.close()

    def erase(self) -> None:
        """Erase what was written, such as when the connection was lost."""
        self._file.close()
        (self._folder / self.name).unlink(missing_ok=True)


def remove_old_uploads(context: ServerContext) -> None:
    """Erase files that were sent and not registered within a day."""
    for file in _uploads(context).iterdir():
        with suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > _ABANDONED:
                file.unlink()


def list_sources(context: ServerContext) -> tuple[str, ...]:
    """Return the files that may be registered, relative to the folders that the server was given."""
    found = set()
    for folder in context.settings.sources:
        root = folder.resolve()
        for kind in FORMATS:
            found |= {str(file.relative_to(root)) for file in root.rglob(f"*.{kind}") if file.is_file()}
    return tuple(sorted(found))


def list_databases(context: ServerContext) -> tuple[ListedDatabase, ...]:
    """Return the databases that the server was given, each with the tables in it that it may read."""
    return tuple(_list_database(*each) for each in name_databases(context.settings.databases).items())


def _list_database(name: str, address: str) -> ListedDatabase:
    try:
        return ListedDatabase(name, tuple(list_tables(address)))
    except SfumatoError as problem:
        return ListedDatabase(name, (), problem)


def name_databases(addresses: Iterable[str]) -> dict[str, str]:
    """Return each address by a name without its password; refuse two that would have one name."""
    named: dict[str, str] = {}
    for address in addresses:
        name = _hide_password(address)
        if name in named:
            raise UsageError("SF-W124", "Two databases of this server have the same name.", name=name)
        named[name] = address
    return named


def find_table(context: ServerContext, database: str, table: str) -> str:
    """Return the source of a table that `list_databases` lists, and of no other."""
    address = name_databases(context.settings.databases).get(database)
    found = None if address is None else list_tables(address).get(table)
    if found is None:
        raise UsageError(
            "SF-W124",
            "There is no such table in the databases that this server may read.",
            try_="sfumato serve LAB --source postgresql://user@host/database",
        )
    return found


def _hide_password(address: str) -> str:
    """Return who opens which database where; all else of an address may hold a secret."""
    parts = urlsplit(address)
    if not parts.netloc and not parts.path.startswith("/"):
        return address  # a schema of Spark, which needs no secret
    who = f"{parts.username}@" if parts.username else ""
    host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    return f"{parts.scheme}://{who}{host}{parts.path}"


@contextmanager
def open_source(context: ServerContext, source: Mapping[str, str], *, erase: bool) -> Iterator[Path | str]:
    """Yield where the rows of a source are. A file that was sent is erased once it has been registered."""
    if "upload" in source:
        path = _find_upload(context, source["upload"])
        yield path
        if erase:
            path.unlink(missing_ok=True)
    elif "database" in source:
        yield find_table(context, source["database"], source.get("table", ""))
    else:
        yield _find_file(context, source.get("path", ""))


def _find_upload(context: ServerContext, name: str) -> Path:
    path = _uploads(context) / name
    if not _NUMBER.match(name) or not path.is_file():
        raise UsageError("SF-U101", "No file of this name was sent.", try_="POST /api/uploads?format=parquet")
    return path


def _find_file(context: ServerContext, name: str) -> Path:
    """Return a file in one of the folders that the server was given; links out of them are not followed."""
    for folder in context.settings.sources:
        root = folder.resolve()
        with suppress(OSError, ValueError):
            path = (root / name).resolve()
            inside = path.is_relative_to(root) and path.suffix.lower().lstrip(".") in FORMATS
            # An engine would read a pattern as several files.
            if inside and path.is_file() and not set("*?[]") & set(str(path)):
                return path
    raise UsageError(
        "SF-W124",
        "There is no such Parquet or CSV file in the folders that this server may read.",
        try_="sfumato serve LAB --source FOLDER, or POST /api/uploads",
    )


def _uploads(context: ServerContext) -> Path:
    folder = context.lab.folder / "uploads"
    with name_disk_errors():
        create_private_folder(folder)
    return folder
