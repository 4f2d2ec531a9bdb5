"""Tables: registered, checked, advanced and dropped, from a file on this machine or one that was sent.

Reports have exact counts of protected rows. They go to the steward who asked and are kept nowhere.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.calendar import parse_moment
from sfumato.curator.catalog.schema_file import Schema, parse_schema, read_fields
from sfumato.errors import UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_folder
from sfumato.server.quiet import hush_steward_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sfumato.server.context import ServerContext

FORMATS = ("parquet", "csv")
_NUMBER = re.compile(r"[0-9a-f]{32}\.(parquet|csv)\Z")
_ABANDONED = 24 * 3600.0
"""Seconds after which a file that was sent and never registered is erased."""
_NAME = "declaration"


class UploadedTable:
    """A table that a steward sends, written to a private file part by part."""

    def __init__(self, context: ServerContext, format_: str) -> None:
        if format_ not in FORMATS:
            raise UsageError("SF-W121", "A table is sent as Parquet or as CSV.", try_="format=parquet")
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


def read_declaration(fields: Mapping[str, Any] | None, toml: str | None) -> Schema:
    """Return a declaration that came as JSON, with the keys of a schema file, or as the text of one."""
    if (fields is None) == (toml is None):
        raise UsageError("SF-W122", "A declaration is sent as declaration or as schema, and not as both.")
    if toml is not None:
        return parse_schema(toml, _NAME)
    return read_fields(_with_dates(dict(fields or {})), _NAME)


def register_table(context: ServerContext, name: str, source: Mapping[str, str], said: Schema) -> Any:
    """Register a table; return what the declaration did to its rows, for the steward alone."""
    with _find_source(context, source, erase=True) as path, hush_steward_warnings():
        report = context.lab.register(name, path, **_words(said))
    return None if report is None else report.to_dict()


def check_table(context: ServerContext, name: str, source: Mapping[str, str], said: Schema) -> dict[str, Any]:
    """Return what registering would do to the rows of a source. Nothing is stored."""
    with _find_source(context, source, erase=False) as path, hush_steward_warnings():
        return context.lab.check(name, path, **_words(said)).to_dict()


def list_source_columns(context: ServerContext, source: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a source with the kind of their values, by its types. No row is read."""
    with _find_source(context, source, erase=False) as path:
        return context.lab.engine.list_columns(path)


def draft_table(context: ServerContext, source: Mapping[str, str]) -> str:
    """Return a schema file for a source, in which the steward fills in what is protected."""
    with _find_source(context, source, erase=False) as path:
        return context.lab.draft_schema(path)


def advance_table(
    context: ServerContext, name: str, source: Mapping[str, str], through: Mapping[str, str] | None = None
) -> Any:
    """Make the next snapshot of a table; return what the declaration did to its rows."""
    moments = {column: parse_moment(text) or text for column, text in (through or {}).items()}
    with _find_source(context, source, erase=True) as path, hush_steward_warnings():
        report = context.lab.advance(name, path, through=moments or None)
    return None if report is None else report.to_dict()


def list_sources(context: ServerContext) -> tuple[str, ...]:
    """Return the files that may be registered, relative to the folders that the server was given."""
    found = set()
    for folder in context.settings.sources:
        root = folder.resolve()
        for kind in FORMATS:
            found |= {str(file.relative_to(root)) for file in root.rglob(f"*.{kind}") if file.is_file()}
    return tuple(sorted(found))


@contextmanager
def _find_source(context: ServerContext, source: Mapping[str, str], *, erase: bool) -> Iterator[Path]:
    """Yield the path of a source. A file that was sent is erased once it has been registered."""
    if "upload" in source:
        path = _find_upload(context, source["upload"])
        yield path
        if erase:
            path.unlink(missing_ok=True)
    else:
        yield _find_file(context, source.get("path", ""))


def _find_upload(context: ServerContext, name: str) -> Path:
    path = _uploads(context) / name
    if not _NUMBER.match(name) or not path.is_file():
        raise UsageError("SF-W123", "No file of this name was sent.", try_="POST /api/uploads?format=parquet")
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


def _words(said: Schema) -> dict[str, Any]:
    """Return a declaration as keywords of the lab."""
    words = {"unit": said.unit, "columns": said.columns, "budget": said.budget}
    return words | {"neighbours": said.neighbours, "rows": said.rows}


def _with_dates(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with texts in bounds that write dates as dates, for which JSON has no form."""
    columns = fields.get("columns")
    if not isinstance(columns, dict):
        return fields
    return fields | {"columns": {str(name): _date_bounds(column) for name, column in columns.items()}}


def _date_bounds(column: Any) -> Any:
    if not isinstance(column, dict) or not isinstance(column.get("between"), list):
        return column
    read = {"between": [_read_date(end) for end in column["between"]]}
    return column | read | ({"missing": _read_date(column["missing"])} if "missing" in column else {})


def _read_date(value: Any) -> Any:
    return (parse_moment(value) or value) if isinstance(value, str) else value
