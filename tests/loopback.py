"""A served clinic on a loopback port, in a thread of the test's process, for clients that speak real HTTP."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import uvicorn

from ready_replies import reply_at_once
from serving import GENEROUS, NAMES, make_lab
from sfumato.lab.remote.session import connect
from sfumato.server.app import create_app
from sfumato.server.connections import TimedConnection
from sfumato.server.jobs.process import run_job
from sfumato.server.jobs.runner import JobRunner
from sfumato.server.settings import ServerSettings
from waiting import PATIENCE, wait_until

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
            try:
                run_job(self.lab, self._store, job.id, worker)
            finally:
                os.close(descriptor)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    @cached_property
    def _threads(self) -> list[threading.Thread]:
        return []

    def close(self) -> None:
        """Start no more jobs, and wait for those that run: the server closes their store next."""
        super().close()
        for thread in self._threads:
            thread.join()


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
    settings = replace(GENEROUS, address=ServerSettings().address)
    lab = lab or make_lab(folder)
    reply_at_once(lab)
    app = create_app(lab, settings)
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
    told["timeout_keep_alive"] = PATIENCE  # a busy test may be slow to send its next request
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False, **told))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server starts")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield LoopbackClinic(app, f"http://127.0.0.1:{port}", tokens)
    finally:
        server.should_exit = True
        thread.join()
        # Only now: until the server has ended, its runner may start the process of one more job.
        app.state.context.runner.end_jobs()
