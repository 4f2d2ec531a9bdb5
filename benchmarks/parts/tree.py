"""What a process and all that it started have used, from /proc: Spark works in processes of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TICK = os.sysconf("SC_CLK_TCK")


def measured(work: Callable[[], object], turns: int) -> dict[str, Any]:
    """The best of several turns in seconds, and the most memory of all processes together."""
    taken = [_timed(work) for _ in range(turns)]
    return {
        "cpu": min(cpu for cpu, _ in taken),
        "wall": min(wall for _, wall in taken),
        "peak": sum(_megabytes(process) for process in _tree()),
    }


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = _seconds(), time.perf_counter()
    work()
    return _seconds() - cpu, time.perf_counter() - wall


def _tree() -> list[Path]:
    """This process and its descendants."""
    parents = {path: int(_fields(path)[1]) for path in Path("/proc").glob("[0-9]*") if _fields(path)}
    found = {os.getpid()}
    while more := {int(path.name) for path, parent in parents.items() if parent in found} - found:
        found |= more
    return [path for path in parents if int(path.name) in found]


def _seconds() -> float:
    """User and system time, of ended children too."""
    return sum(sum(map(int, fields[11:15])) for path in _tree() if (fields := _fields(path))) / _TICK


def _fields(path: Path) -> list[str]:
    """What follows the name in a process's `stat`; nothing if it has ended."""
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _megabytes(path: Path) -> float:
    try:
        lines = (path / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
