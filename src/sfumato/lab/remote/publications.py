"""What the steward of a lab on another machine has published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from sfumato.lab.remote.answers import no_other_level_error, read_answer
from sfumato.lab.remote.connection import quote_path
from sfumato.lab.remote.jobs import read_parquet
from sfumato.lab.remote.problems import raise_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.lab.remote.connection import Connection


@dataclass(frozen=True, slots=True, repr=False)
class RemotePublication:
    """An answer or a synthetic table that the steward paid for. `read()` gives it, for nothing."""

    connection: Connection
    said: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The question, or the name of the synthetic table."""
        return str(self.said.get("question") or self.said["synthetic"])

    @property
    def day(self) -> date | None:
        """When it was published, in UTC; None if it is older than such dates."""
        found = self.said["published"]
        return None if found is None else date.fromisoformat(found)

    @property
    def is_current(self) -> bool:
        """Whether the tables still have the snapshots that it is about."""
        return bool(self.said["current"])

    def read(self) -> Any:
        """Return the kept answer, or the synthetic table."""
        if "synthetic" in self.said:
            path = f"/api/publications/synthetic{quote_path(self.said['synthetic'])}"
            return read_parquet(self.connection.get(path).body)
        if "answer" not in self.said:
            raise_problem(self.said["error"])
        return read_answer(self.said["answer"], _no_other_level, None)

    def __repr__(self) -> str:
        return f"{self.text!r}; .read() gives it, for nothing"


def list_remote_publications(connection: Connection) -> tuple[RemotePublication, ...]:
    """Return what was published: questions, then synthetic tables."""
    found = connection.get("/api/publications").read_json()["publications"]
    return tuple(RemotePublication(connection, each) for each in found)


def _no_other_level(_: float, **_more: Any) -> Mapping[str, Any]:
    raise no_other_level_error()
