"""Long work on a server: sent once, watched, and waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from sfumato.lab.remote.connection import quote_path
from sfumato.lab.remote.problems import raise_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from sfumato.lab.remote.connection import Connection

    Made = Callable[[str, Mapping[str, Any]], Any]


_FIRST_LOOK, _LONGEST_LOOK = 0.2, 5.0
"""Seconds between looks at a job; each is a half longer than the one before, up to the longest."""


@dataclass(slots=True)
class RemoteJob:
    """Long work on a server. `wait` gives what it makes; another session finds it again by its name."""

    connection: Connection
    said: Mapping[str, Any]
    make: Made | None = None

    @property
    def id(self) -> str:
        """The name of the job."""
        return str(self.said["job"])

    @property
    def state(self) -> str:
        """waiting, running, done, failed, cut off or cancelled, when it was looked at last."""
        return str(self.said["state"])

    @property
    def rounds(self) -> int:
        """How many rounds were answered, when it was looked at last."""
        return int(self.said["progress"]["rounds"])

    def look(self) -> RemoteJob:
        """Ask the server how far the job is."""
        self.said = self.connection.get(f"/api/jobs{quote_path(self.id)}").read_json()
        return self

    def cancel(self) -> RemoteJob:
        """End the job. What it charged stays charged; one that waits is never begun, and costs nothing."""
        self.said = self.connection.post(f"/api/jobs{quote_path(self.id)}/cancel", {})
        return self

    def wait(self, seconds: float | None = None) -> Any:
        """Return what the job makes, or raise why it failed. The job goes on if this is stopped."""
        until, pause = None if seconds is None else time.monotonic() + seconds, _FIRST_LOOK
        while self.state in ("waiting", "running"):
            if until is not None and time.monotonic() > until:
                return None
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)
            self.look()
        if self.said["problem"] is not None:
            raise_problem(self.said["problem"])
        return self.said["result"] if self.make is None else self.make(self.id, self.said["result"])

    def __repr__(self) -> str:
        return f"{self.said['kind']} {self.id[:12]}: {self.state}, {self.rounds} rounds answered"


def read_parquet(body: bytes) -> pa.Table:
    """Return a table that was sent as a Parquet file."""
    from pyarrow import parquet

    return parquet.read_table(BytesIO(body))
