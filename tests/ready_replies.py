"""Hostile sessions whose replies leave when they are ready, and whose workers have minutes instead of a slot.

The unit tests of slots check, with a clock of their own, how long a slot is and that every reply keeps it. In
all other tests a busy machine that misses a quarter of a second would be a failure without a cause.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from seeded import SeedsItsReader, stream_of_shared

import sfumato.curator.hostile.reading as reading
from sfumato.curator.hostile.host import WorkerHost
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI

    from sfumato.curator.plan.priced import Step
    from sfumato.lab.lab import Lab


class ReadyReader(reading.SlotReader):
    """Reads in workers that may take `PATIENCE` seconds, and replies at once."""

    def _read(self, ask: reading.Ask, slot: float, begun: float, steps: Sequence[Step]) -> str:
        # A worker's stream would otherwise depend on how many workers were forked before.
        first, *others = steps
        return ask(cast(Any, (SeedsItsReader(first), *others)), PATIENCE)


class SharedWorkers(WorkerHost):
    """Workers of one lab, forked by a process that all labs of this test process share.

    That process imports DuckDB and others when it starts, which takes longer than most tests.
    """

    _owner = WorkerHost(Path(), "")

    def __init__(self, folder: Path, schema: str, **limits: Any) -> None:
        super().__init__(folder, schema, **limits)
        self._turn = self._owner._turn

    def _find_forker(self) -> Any:
        shared = self._owner._forker
        if shared is not None and not shared.close.alive:
            self._owner._forker = None
        with stream_of_shared("workers"):
            self._forker = self._owner._find_forker()
        return self._forker

    def close(self) -> None:
        """Keep the process that forks for other labs."""


def share_workers(lab: Lab, clock: reading.SlotClock, **limits: Any) -> None:
    """Let shared workers read for the hostile sessions of this lab. Slots are kept by `clock`."""
    workers = SharedWorkers(lab.folder, lab._schema, **limits)
    workers.start()
    vars(lab)["_slots"] = reading.SlotReader(workers, lab.engine, clock)


def reply_at_once(lab: Lab, **limits: Any) -> None:
    """Let shared workers read for the hostile sessions of this lab, and replies leave when they are ready."""
    workers = SharedWorkers(lab.folder, lab._schema, **limits)
    workers.start()
    vars(lab)["_slots"] = ReadyReader(workers, lab.engine)


def reply_when_ready() -> None:
    """Let all replies of this process leave when they are ready, for processes that tests start."""
    reading.SlotReader._read = ReadyReader._read  # type: ignore[method-assign]


def let_jobs_reply_when_ready() -> None:
    """Let replies in the jobs of this server process leave when they are ready."""
    from sfumato.server.jobs import runner

    first = "import ready_replies; ready_replies.reply_when_ready(); "
    runner._COMMAND = first + runner._COMMAND


# ---- applications for `sfumato serve` ----------------------------------------------------------------------


def make_ready_app() -> FastAPI:
    """Return the application of `sfumato serve`, with replies that leave when they are ready."""
    from sfumato.server.serving import make_app

    reply_when_ready()
    return make_app()


def make_patient_app() -> FastAPI:
    """Return the application of `sfumato serve`: replies leave in their slots, but no worker is too slow."""
    from sfumato.server.serving import make_app

    reading.reading_time = lambda slot: PATIENCE
    return make_app()
