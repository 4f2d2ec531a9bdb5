"""A small clinic behind the server, for tests of several rooms, with a token for each role."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from ready_replies import reply_at_once
from sfumato.server.app import create_app
from sfumato.server.jobs.runner import JobRunner
from sfumato.server.settings import ServerSettings

with warnings.catch_warnings():
    # It would rather have another client, which does the same.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from sfumato.lab.lab import Lab
    from sfumato.server.context import ServerContext

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
ROLES = ("steward", "analyst", "auditor", "public")
NAMES = {"steward": "grace", "analyst": "ada", "auditor": "kurt"}
GENEROUS = ServerSettings(
    address="http://testserver", requests_per_second=1e9, request_burst=10**9, wrong_token_burst=10**9
)
"""Settings under which no test is refused because it was fast."""


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


class IdleRunner(JobRunner):
    """Starts no job, so that only the test decides what becomes of the jobs in the store."""

    def start(self) -> None:
        """Do nothing."""


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
    """Yield an application in this process with a person of every role. It starts no jobs."""
    lab = lab or make_lab(folder)
    reply_at_once(lab)
    app = create_app(lab, settings or GENEROUS)
    context = app.state.context
    app.state.context = replace(context, runner=IdleRunner(lab.folder, context.jobs))
    people = context.people
    for role, name in NAMES.items():
        people.add_person(name, role)
    tokens = {role: people.make_token(name) for role, name in NAMES.items()}
    with TestClient(app, raise_server_exceptions=True, follow_redirects=False) as client:
        yield ServedClinic(app, client, tokens)
