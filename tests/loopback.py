"""A served clinic on a loopback port, in a thread of the test's process, for clients that speak real HTTP."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import uvicorn

from serving import NAMES, InstantClock, WarmHost, make_lab
from sfumato.lab.remote.session import connect
from sfumato.server.app import create_app
from sfumato.server.connections import TimedConnection
from sfumato.server.jobs.process import run_job
from sfumato.server.jobs.runner import JobRunner
from sfumato.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from sfumato.lab.lab import Lab
    from sfumato.lab.remote.session import RemoteSession


class ThreadRunner(JobRunner):
    """Runs jobs in threads of this process, with the clock of its lab."""

    lab: Lab

    def _launch(self, job: Any, worker: str, descriptor: int) -> None:
        def run() -> None:
            run_job(self.lab, self._store, job.id, worker)
            os.close(descriptor)

        threading.Thread(target=run, daemon=True).start()


def wait_for_nothing(lab: Lab) -> Lab:
    """Let workers of a lab have a minute for each question, and replies leave when they are there."""
    for table in lab.tables():
        lab.set_pace(table.name, seconds=10)
    workers = WarmHost(lab.folder, lab._schema, places=lab.reader_places)
    vars(lab)["_slots"] = replace(lab._slots, workers=workers, clock=InstantClock())
    return lab


class LoopbackClinic:
    """A clinic at an address of this machine."""

    def __init__(self, app: FastAPI, address: str, tokens: dict[str, str]) -> None:
        self.app, self.address, self.tokens = app, address, tokens

    @property
    def lab(self) -> Lab:
        lab: Lab = self.app.state.context.lab
        return lab

    def connect(self, role: str = "analyst", **more: Any) -> RemoteSession:
        """Return a session of someone with this role."""
        return connect(self.address, self.tokens[role], **more)


@contextmanager
def serve_on_loopback(
    folder: Path, lab: Lab | None = None, *, processes: bool = False
) -> Iterator[LoopbackClinic]:
    """Yield a clinic at a free port. Jobs run in threads, or in processes which are ended at the end."""
    settings = ServerSettings(requests_per_second=1e6, request_burst=10**6)
    app = create_app(wait_for_nothing(lab or make_lab(folder)), settings)
    context = app.state.context
    people = context.people
    if not processes:
        runner = ThreadRunner(context.lab.folder, context.jobs, most=1)
        runner.lab = context.lab
        app.state.context = replace(context, runner=runner)
    for role, name in NAMES.items():
        people.add_person(name, role)
    tokens = {role: people.make_token(name) for role, name in NAMES.items()}
    told: dict[str, Any] = {"http": TimedConnection, "ws": "none"}  # as `sfumato serve` has them
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False, **told))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield LoopbackClinic(app, f"http://127.0.0.1:{port}", tokens)
    finally:
        app.state.context.runner.end_jobs()
        server.should_exit = True
        thread.join()
