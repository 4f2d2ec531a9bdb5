"""Which streams a lab has begun, so that they are found again by a short name. Nothing in it is secret."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.question.measurement import CountOf, DistinctUnits, MeanOf, SumOf
from sfumato.curator.question.relation import Name
from sfumato.errors import UsageError
from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_folder, lock_folder, replace_file
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION = 1
_FILE = "listed.json"
_AMOUNTS = {"epsilon", "delta", "rho", "share"}


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """What was typed for a stream, ready for JSON: `s.stream(**typed)` is the same stream."""

    request: str
    typed: Mapping[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """What `s.stream` takes."""
        said = {name: value for name, value in self.typed.items() if value is not None}
        return said | {name: Fraction(said[name]) for name in _AMOUNTS & said.keys()}


def read_records(folder: Path) -> tuple[StreamRecord, ...]:
    """Return the streams that were begun, oldest first."""
    path = folder / _FILE
    if not path.exists():
        return ()
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return tuple(StreamRecord(each["request"], each["typed"]) for each in body["streams"])
    except (ValueError, KeyError, TypeError) as problem:
        raise UsageError("SF-C112", "The file of streams cannot be read.", file=path.name) from problem


def add_record(folder: Path, request: str, typed: Mapping[str, Any]) -> None:
    """Note a stream, unless it is noted already or its measure cannot be written as text."""
    if any(each.request == request for each in read_records(folder)):
        return
    measure = write_measure(typed["measure"])
    if measure is None:
        return
    said = {name: _write(name, value) for name, value in {**typed, "measure": measure}.items()}
    with name_disk_errors():
        create_private_folder(folder)
        with lock_folder(folder):
            known = [{"request": each.request, "typed": each.typed} for each in read_records(folder)]
            if any(each["request"] == request for each in known):
                return  # by another process in between
            listed = [*known, {"request": request, "typed": said}]
            body = json.dumps({"version": VERSION, "streams": listed}, indent=1, ensure_ascii=False)
            replace_file(folder / _FILE, body.encode(), private=True)


def write_measure(measure: Any) -> str | None:
    """Return an aggregate of a plain column as SQL; None for others."""
    match measure:
        case str():
            return measure
        case CountOf(None):
            return "COUNT(*)"
        case CountOf(Name(column)):
            return f'COUNT("{column}")'
        case SumOf(Name(column)):
            return f'SUM("{column}")'
        case MeanOf(Name(column)):
            return f'AVG("{column}")'
        case DistinctUnits(Name(column)):
            return f'COUNT(DISTINCT "{column}")'
    return None


def _write(name: str, value: Any) -> Any:
    """Return what was typed as JSON holds it: dates as texts, amounts exactly, other numbers as they are."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    return str(parse_exact(value, name)) if name in _AMOUNTS else float(value)
