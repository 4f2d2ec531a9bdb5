"""A small clinic behind the server, for tests of several rooms, with a token for each role."""

from __future__ import annotations

import os
import socket
import sys
import warnings
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf
import warm
from sfumato.curator.hostile.host import WorkerHost, _Forker, _stop
from sfumato.curator.hostile.reading import SlotReader
from sfumato.curator.hostile.slots import SlotClock
from sfumato.server.app import create_app
from sfumato.server.settings import ServerSettings

with warnings.catch_warnings():
    # It would rather have another client, which does the same.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

    from sfumato.lab.lab import Lab
    from sfumato.server.context import ServerContext

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
ROLES = ("steward", "analyst", "auditor", "public")
NAMES = {"steward": "grace", "analyst": "ada", "auditor": "kurt"}


def make_rows(units: int = 300) -> pa.Table:
    """Return visits of so many patients, two each, the same in every run."""
    rng = np.random.default_rng(0)
    rows = 2 * units
    return pa.table(
        {
            "patient_id": np.arange(rows) // 2,
            "age": rng.integers(0, 111, rows),
            "cost": rng.gamma(2.0, 300.0, rows),
            "ward": rng.choice(["A", "B", "C"], rows),
            "ill": rng.integers(0, 2, rows),
        }
    )


def make_lab(folder: Path, rows: pa.Table | None = None) -> Lab:
    """Return a lab with the table visits, a quota for ada on it, and one for bob on another table only."""
    lab = sf.create(folder)
    columns = {
        "age": sf.between(0, 110),
        "cost": sf.between(0, 5000),
        "ward": sf.one_of("A", "B", "C"),
        "ill": sf.one_of(0, 1),
    }
    budget = sf.Budget(epsilon=400, delta=1e-6)
    unit = sf.Unit("patient_id", max_rows=2)
    lab.register("visits", make_rows() if rows is None else rows, unit=unit, columns=columns, budget=budget)
    staff = pa.table({"nurse": np.arange(20), "shift": ["day", "night"] * 10})
    lab.register(
        "staff",
        staff,
        unit=sf.Unit("nurse", max_rows=1),
        columns={"shift": sf.one_of("day", "night")},
        budget=sf.Budget(epsilon=4),
    )
    lab.grant("ada", epsilon=100, delta=1e-7, tables=["visits"])
    lab.grant("bob", epsilon=1, tables=["staff"])
    return lab


class InstantClock(SlotClock):
    """A clock by which every slot ends at once. How long slots last is tested where they are made."""

    def wait_until(self, moment: float) -> None:
        """Return at once."""


class WarmForker(_Forker):
    """The process that forks workers, started by `warm`: it need not import the package again.

    That it starts in a new interpreter is tested with hostile sessions.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        ours, theirs = socket.socketpair()
        with theirs, open(os.devnull, "wb") as nothing:
            process: Any = warm.start(
                [Path(__file__).with_name("hostile_worker.py"), theirs.fileno()],
                stdout=nothing.fileno(),
                stderr=nothing.fileno(),
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._orders, self.ready = ours, False
        self.close = weakref.finalize(self, _stop, process, ours, self.owner)


class WarmHost(WorkerHost):
    """Workers whose first process starts at once."""

    def _find_forker(self) -> _Forker:
        if self._forker is None or self._forker.owner != os.getpid():
            self._forker = WarmForker()
        return self._forker


def answer_at_once(lab: Lab) -> None:
    """Let replies of hostile sessions leave when they are there, however busy the machine is."""
    for table in lab.tables():
        lab.set_pace(table.name, seconds=10)
    workers = WarmHost(lab.folder, lab._schema)
    workers.start()
    vars(lab)["_slots"] = SlotReader(workers, lab.engine, InstantClock())


@dataclass(frozen=True, slots=True)
class ServedClinic:
    """An application over a lab, and a client for each role."""

    app: FastAPI
    client: TestClient
    tokens: dict[str, str]

    @property
    def context(self) -> ServerContext:
        context: ServerContext = self.app.state.context
        return context

    @property
    def lab(self) -> Lab:
        return self.context.lab

    def headers(self, role: str) -> dict[str, str]:
        """Return the headers of a role; none for the public."""
        return {} if role == "public" else {"Authorization": f"Bearer {self.tokens[role]}"}

    def send(self, method: str, path: str, role: str = "analyst", **more: Any) -> Any:
        """Send a request as a role, and return the answer."""
        return self.client.request(method, path, headers=self.headers(role) | more.pop("headers", {}), **more)

    def ask(self, sql: str = COUNT, role: str = "analyst", key: str | None = None, **spend: Any) -> Any:
        """Release a question in SQL, and return the answer."""
        body: dict[str, Any] = {"question": {"sql": sql}, "spend": spend}
        return self.send("POST", "/api/release", role, json=body if key is None else body | {"key": key})


@contextmanager
def serve_clinic(
    folder: Path, settings: ServerSettings | None = None, lab: Lab | None = None
) -> Iterator[ServedClinic]:
    """Yield an application in this process with a person of every role."""
    lab = lab or make_lab(folder)
    answer_at_once(lab)
    app = create_app(lab, settings or ServerSettings(address="http://testserver"))
    people = app.state.context.people
    for role, name in NAMES.items():
        people.add_person(name, role)
    tokens = {role: people.make_token(name) for role, name in NAMES.items()}
    with TestClient(app, raise_server_exceptions=True, follow_redirects=False) as client:
        yield ServedClinic(app, client, tokens)
