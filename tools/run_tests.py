"""Run pytest, and leave nothing behind: no process, no listening port, no folder.

    python tools/run_tests.py [options of pytest]

The run gets one temporary folder, in memory if there is room, which is removed at the end. Processes that
tests start stay descendants of this one even if their parents die (PR_SET_CHILD_SUBREAPER), so that it finds
and ends all of them, also after a failure or a kill of pytest. If a run that passed leaves something behind,
this command names it and fails. What earlier runs left that were killed themselves is removed first.

Processes are looked for on Linux only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "sfumato-tests-"
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30
"""Free bytes; containers often have next to none."""
SECONDS_TO_END = 60.0
"""How long descendants may take to exit after pytest, and pytest after SIGTERM."""
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""


def main(arguments: list[str]) -> int:
    base = Path(tempfile.gettempdir())
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        base = MEMORY
    _remove_dead_runs(base)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    folder.chmod(0o755)  # PostgreSQL does not run as root
    lock = _lock(folder)
    _become_reaper()
    try:
        status = _run_pytest(arguments, folder)
        left = _wait_for_descendants() + _list_entries(folder)
        used = os.times()
        print(f"CPU time: {used.children_user + used.children_system:.0f} s")
    finally:
        _end([pid for pid, _ in _descendants()])
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
    for line in left:
        print(f"LEFT BEHIND: {line}", file=sys.stderr)
    return status or int(bool(left))


def _run_pytest(arguments: list[str], folder: Path) -> int:
    caches = {"SPARK_LOCAL_DIRS": folder / "spark", "TORCHINDUCTOR_CACHE_DIR": folder / "torch"}
    environment = os.environ | {"TMPDIR": str(folder)} | {name: str(path) for name, path in caches.items()}
    if "--unseeded" not in arguments:
        environment.setdefault("PYTHONHASHSEED", "0")
    process = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], env=environment)
    # A handler and not SIG_IGN, which pytest would inherit. Ctrl-C in a terminal reaches pytest by itself.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: _stop(process))
    signal.signal(signal.SIGHUP, lambda *_: _stop(process))
    while True:
        pid, status = os.waitpid(-1, 0)  # reaps orphans too
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End pytest as Ctrl-C does, and kill it if it does not end in time."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process.pid, signal.SIGKILL))
    signal.alarm(int(SECONDS_TO_END))
    os.kill(process.pid, signal.SIGINT)


def _become_reaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# ---- what is left ------------------------------------------------------------------------------------------


def _wait_for_descendants() -> list[str]:
    """Return a line for each process that has not ended in time."""
    signal.alarm(0)
    until = time.monotonic() + SECONDS_TO_END
    while (left := _descendants()) and time.monotonic() < until:
        time.sleep(0.05)
    _reap()
    ports = _listening_ports()
    return [_describe(pid, command, ports) for pid, command in left]


def _descendants() -> list[tuple[int, str]]:
    """Return number and command line of each descendant that is not a zombie."""
    parents = {}
    for status in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(status.parent.name)] = int(parent)
    found, last = set[int](), {os.getpid()}
    while last:
        last = {pid for pid, parent in parents.items() if parent in last} - found
        found |= last
    return [(pid, _read_command(pid)) for pid in sorted(found)]


def _read_command(pid: int) -> str:
    with suppress(OSError):
        return (
            (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        )
    return ""


def _describe(pid: int, command: str, ports: dict[str, int]) -> str:
    listens = []
    for file in _PROC.glob(f"{pid}/fd/*"):
        with suppress(OSError):
            port = ports.get(os.readlink(file))
            listens += [str(port)] if port is not None else []
    where = f", listening on {', '.join(listens)}" if listens else ""
    return f"process {pid}{where}: {command[:200]}"


def _listening_ports() -> dict[str, int]:
    """Return the port of each listening socket, by what /proc calls the socket."""
    ports = {}
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    ports[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    return ports


def _list_entries(folder: Path) -> list[str]:
    """Return a line for each entry that is not pytest's own or a cache."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("pytest-of-"))
    return [f"folder or file {name}" for name in names if name not in ("lock", "spark", "torch")]


def _end(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + SECONDS_TO_END
    while any((_PROC / str(pid)).exists() for pid in pids) and time.monotonic() < until:
        _reap()
        time.sleep(0.01)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# ---- runs that were killed ---------------------------------------------------------------------------------


def _lock(folder: Path) -> int:
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _remove_dead_runs(base: Path) -> None:
    """Remove what runs left behind that were killed themselves: nobody holds their locks."""
    for folder in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                os.close(_lock(folder))
                _end(_find_users(folder))
                shutil.rmtree(folder, ignore_errors=True)


def _find_users(folder: Path) -> list[int]:
    """Return the processes whose temporary folder this is."""
    wanted, found = f"TMPDIR={folder}".encode(), []
    for environment in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
