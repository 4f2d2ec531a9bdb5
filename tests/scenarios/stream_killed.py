"""Forks children that follow a stream and die by SIGKILL at a named step; prints what each one left.

The parent opens no table, so that a child may. It imports everything first, so that a child need not.
"""

import json
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sfumato as sf
from sfumato.cli import clinic
from sfumato.curator.streams.state import StreamState
from sfumato.ledger import failpoints
from sfumato.noise.continual.planning import plan_buffers

BEGINNING = ("charge:written", "charge:durable", "stream:begun", "release:written", "release:durable")
TICK = (
    "tick:read",
    "tick:drawn",
    "tick:written",
    "tick:kept",
    "charge:begun",
    "charge:written",
    "charge:durable",
    "release:begun",
    "release:written",
    "release:durable",
)
RHO = 10.0**5


def open_stream(folder: str, horizon: int, least: int = 0) -> Any:
    return (
        sf.open(folder)
        .session()
        .stream(
            "visits",
            time="day",
            measure=sf.count(),
            horizon=horizon,
            participations=4,
            separation=7,
            where=f"cost >= {least}",
            rho=RHO,
        )
    )


def run_and_die(folder: str, horizon: int, least: int, step: str) -> None:
    asked = open_stream(folder, horizon, least)

    def reach(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.reach = reach
    asked.run()
    os._exit(3)  # not reached: every run passes every step


def in_child(work: Any, *arguments: Any) -> int:
    pid = os.fork()
    if pid == 0:
        work(*arguments)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def say(seen: dict[str, Any]) -> None:
    """Flushed at once: what waits to be printed would be printed by children too."""
    print(json.dumps(seen), flush=True)


def finish(folder: str, horizon: int, least: int) -> None:
    told = open_stream(folder, horizon, least).run()
    say({"least": least, "values": told.values().tolist()})


def main(folder: str, horizon: int, rounds: int, beginning: tuple[str, ...], tick: tuple[str, ...]) -> None:
    with TemporaryDirectory() as elsewhere:
        warm = sf.create(Path(elsewhere) / "warm")
        days = {"day": sf.between(0, 9, step=1), "cost": sf.between(0, 9, step=1)}
        table = clinic.visits(5, 9).append_column("day", [[1] * 9])
        warm.register("visits", table, unit=sf.ROW, columns=days, budget=sf.Budget(10**7, 1e-6))
        warm.set_through("visits", day=1)
        warm.session().stream("visits", time="day", measure=sf.count(), horizon=2, rho=RHO).run()
        warm.ledger.close()
    plan_buffers(2, 2, 7)
    plan_buffers(horizon, 4, 7)
    for turn in range(rounds):
        # The first is the long stream; each of the others is a short one, begun again after every death.
        ticks = horizon if turn == 0 else 2
        for step in beginning:
            say({"step": step, "signal": in_child(run_and_die, folder, ticks, turn, step)})
        if turn:
            in_child(finish, folder, ticks, turn)
    request = open_request(folder, horizon)
    for _ in range(rounds):
        for step in tick:
            killed = in_child(run_and_die, folder, horizon, 0, step)
            state = StreamState(Path(folder) / "streams", request)
            kept = state.read()
            assert kept is not None
            answer = state.read_answer(kept.ticks - 1) if kept.ticks else None
            say({"step": step, "signal": killed, "ticks": kept.ticks, "answer": answer})
    in_child(finish, folder, horizon, 0)


def open_request(folder: str, horizon: int) -> str:
    """The identity of the stream, from a child: the parent opens no ledger either."""
    reader, writer = os.pipe()
    in_child(lambda: os.write(writer, open_stream(folder, horizon).request.encode()))
    os.close(writer)
    with open(reader, "rb") as pipe:
        return pipe.read().decode()


if __name__ == "__main__":
    few = (
        ("charge:durable", "release:written"),
        ("tick:drawn", "tick:kept", "charge:durable", "release:written"),
    )
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *(few if "few" in sys.argv else (BEGINNING, TICK)))
