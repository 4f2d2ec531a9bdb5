"""Seconds of processor and clock, taken in turns; and the largest memory of a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Work: TypeAlias = Callable[[], object]


BENCHMARKS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds: of processor, user and system on all threads, and of the clock."""

    cpu: float
    wall: float


def timed(work: Work) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def best_of_turns(questions: Mapping[str, Callable[[], Work]], turns: int) -> dict[str, Cost]:
    """Each in turn, once to warm up and then `turns` times; the best counts, as other work only ever adds.

    A question is called to be made ready, which is not timed, and gives the work to time.
    """
    taken = [{name: timed(ready()) for name, ready in questions.items()} for _ in range(turns + 1)][1:]
    return {
        name: Cost(min(turn[name].cpu for turn in taken), min(turn[name].wall for turn in taken))
        for name in questions
    }


def peak_megabytes() -> float:
    """The most memory this process ever held.

    Linux hands `ru_maxrss` on to a started process, so that a small child seems as large as its parent; the
    high-water mark of its own memory starts anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def restart_peak() -> float:
    """Let the most memory be counted anew from now on; returns what this process holds."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_megabytes()


def from_child(
    script: Path, request: Mapping[str, Any], python: str = sys.executable, limit: float | None = None
) -> dict[str, Any]:
    """What a script answers, in a process of its own: it gets a request and prints an answer, both JSON.

    Without an answer there is `refused`: the last line of what the script complained of.
    """
    paths = [str(BENCHMARKS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    try:
        ran = subprocess.run(
            [python, "-W", "ignore", str(script), json.dumps(request)],
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
    except subprocess.TimeoutExpired:
        return {"refused": f"not done after {limit:.0f} s"}
    if ran.returncode:
        return {"refused": (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]}
    answer: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return answer
