"""The jobs of all server processes of a lab, in one private SQLite file.

A job moves from waiting to running and from there to done, failed or cut off, and never back once it may have
charged something. Nothing here can create budget: if the file is lost, what was charged stays charged.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, SealedError, SfumatoError
from sfumato.files.durable import create_private_folder
from sfumato.server.stores import PrivateStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MOST_WAITING = 20
"""Jobs of one person that may wait or run at a time."""
MOST_KEPT = 500
"""Jobs of one person that are kept; of those that have ended, the oldest go first."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, analyst TEXT, key TEXT NOT NULL,
    kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL, worker TEXT,
    begun INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0,
    outcome TEXT, made REAL NOT NULL, UNIQUE (owner, key)) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state);
"""
_COLUMNS = "id, owner, analyst, key, kind, body, state, worker, begun, rounds, seconds, outcome, made"


class JobState(StrEnum):
    """What has become of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CUT_OFF = "cut off"
    CANCELLED = "cancelled"


OPEN = (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class ServerJob:
    """One piece of long work, as the file has it."""

    id: str
    owner: str
    analyst: str | None
    """Whose quota pays; None for a steward."""
    key: str
    kind: str
    body: Mapping[str, Any]
    state: JobState
    worker: str | None
    begun: bool
    """Whether it may have charged something."""
    rounds: int
    seconds: float
    """How long the slots of its rounds were, together. Both numbers are public."""
    outcome: Mapping[str, Any] | None
    """The result, or the problem."""
    made: float

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state not in OPEN

    def to_dict(self) -> dict[str, Any]:
        """Return what its owner may know, ready for JSON."""
        done = self.state is JobState.DONE
        return {
            "job": self.id,
            "kind": self.kind,
            "state": self.state.value,
            "progress": {"rounds": self.rounds, "slots": self.seconds},
            "result": self.outcome if done else None,
            "problem": None if done else self.outcome,
        }


class JobStore:
    """The jobs of a lab. Server processes and the processes of jobs share it."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder, self._clock = folder / "jobs", clock
        create_private_folder(self.folder)
        self._store = PrivateStore(folder / "jobs.sqlite", _SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    # ---- for those who ask ----

    def add_job(
        self, owner: str, analyst: str | None, kind: str, body: Mapping[str, Any], key: str
    ) -> ServerJob:
        """Keep a new job and return it; the same key and body give the job that is there already."""
        written = json.dumps(body, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(f"{kind} {written}".encode()).hexdigest()
        old: list[str] = []
        with self._store.change() as file:
            known = file.execute(
                "SELECT digest FROM jobs WHERE owner = ? AND key = ?", (owner, key)
            ).fetchone()
            if known is None:
                old = _make_room(file, owner)
                values = (secrets.token_hex(16), owner, analyst, key, kind, written, digest, self._clock())
                file.execute(
                    "INSERT INTO jobs (id, owner, analyst, key, kind, body, digest, state, made)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)",
                    values,
                )
            elif known[0] != digest:
                raise PolicyError("SF-L204", "This key was used for another job.", try_="a new key")
        for path in (each for id_ in old for each in self.folder.glob(f"{id_}.*")):
            path.unlink(missing_ok=True)
        return self._find("owner = ? AND key = ?", (owner, key))[0]

    def find_job(self, id_: str, owner: str | None) -> ServerJob:
        """Return a job of a person; without a person, of anyone. Jobs of others are not there."""
        found = self._find("id = ? AND (? IS NULL OR owner = ?)", (id_, owner, owner))
        if not found:
            raise PolicyError("SF-U101", "There is no such job of yours.", try_="GET /api/jobs")
        return found[0]

    def cancel_job(self, id_: str, owner: str | None) -> ServerJob:
        """End a job for its owner and return it. Its process notices, and is gone a moment later."""
        for begun in (0, 1):
            outcome = json.dumps(write_job_problem(cancelled_error(begun=bool(begun))))
            with self._store.change() as file:
                file.execute(
                    "UPDATE jobs SET state = 'cancelled', outcome = ? WHERE id = ? AND begun = ?"
                    " AND (? IS NULL OR owner = ?) AND state IN ('waiting', 'running')",
                    (outcome, id_, begun, owner, owner),
                )
        return self.find_job(id_, owner)

    def list_jobs(self, owner: str | None, limit: int = 100) -> tuple[ServerJob, ...]:
        """Return the newest jobs of a person, or of everyone."""
        return self._find("? IS NULL OR owner = ? ORDER BY number DESC LIMIT ?", (owner, owner, limit))

    # ---- for those who run jobs ----

    def claim_job(self, worker: str, most: int) -> ServerJob | None:
        """Give the oldest waiting job to a worker, unless so many run already. People take turns."""
        with self._store.change() as file:
            running = file.execute("SELECT COUNT(*) FROM jobs WHERE state = 'running'").fetchone()[0]
            found = (
                None
                if running >= most
                else file.execute(
                    "SELECT id FROM jobs WHERE state = 'waiting' ORDER BY"
                    " (SELECT COUNT(*) FROM jobs AS other WHERE other.owner = jobs.owner"
                    "  AND other.state = 'running'), number LIMIT 1"
                ).fetchone()
            )
            if found is None:
                return None
            file.execute("UPDATE jobs SET state = 'running', worker = ? WHERE id = ?", (worker, found[0]))
        return self.find_job(found[0], None)

    def mark_begun(self, id_: str, worker: str) -> None:
        """Note that a job may charge from now on. From here it is never begun again."""
        self._change_running(id_, worker, "begun = 1", ())

    def note_round(self, id_: str, worker: str, seconds: float) -> None:
        """Note that the reply to one more round has left, after a slot of so many seconds."""
        self._change_running(id_, worker, "rounds = rounds + 1, seconds = seconds + ?", (seconds,))

    def finish(self, id_: str, worker: str, state: JobState, outcome: Mapping[str, Any]) -> None:
        """Keep the result of a job, or its problem."""
        written = json.dumps(outcome, separators=(",", ":"), allow_nan=False)
        self._change_running(id_, worker, "state = ?, outcome = ?", (state.value, written))

    def settle_dead(self) -> int:
        """Settle the jobs whose process has ended without a word, and return how many there were.

        One that had charged nothing waits again. Any other is cut off: what it charged stays charged.
        """
        dead = [each for each in self._find("state = 'running'", ()) if not self._is_alive(str(each.worker))]
        for each in dead:
            with suppress(PolicyError):
                if each.begun:
                    self.finish(each.id, str(each.worker), JobState.CUT_OFF, write_cut_off())
                else:
                    change = "state = 'waiting', worker = NULL"
                    self._change_running(each.id, str(each.worker), change, ())
            self.forget_worker(str(each.worker))
        return len(dead)

    def count_waiting(self) -> int:
        """Return how many jobs wait."""
        return int(self._store.read_rows("SELECT COUNT(*) FROM jobs WHERE state = 'waiting'")[0][0])

    def lock_worker(self) -> tuple[str, int]:
        """Return a new worker's name and a descriptor: the worker lives as long as anyone has it open."""
        name = secrets.token_hex(8)
        descriptor = os.open(self._lock_path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return name, descriptor

    def release_worker(self, name: str, descriptor: int) -> None:
        """Forget a worker that was given no job."""
        os.close(descriptor)
        self.forget_worker(name)

    def forget_worker(self, name: str) -> None:
        """Remove the lock's file of a worker that has no job any more."""
        self._lock_path(name).unlink(missing_ok=True)

    # ---- files of jobs ----

    def make_path(self, id_: str, name: str) -> Path:
        """Return where a job keeps a file."""
        return self.folder / f"{id_}.{name}"

    # ---- parts ----

    def _lock_path(self, worker: str) -> Path:
        return self.folder / f"{worker}.lock"

    def _is_alive(self, worker: str) -> bool:
        try:
            descriptor = os.open(self._lock_path(worker), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _change_running(self, id_: str, worker: str, change: str, values: tuple[Any, ...]) -> None:
        with self._store.change() as file:
            changed = file.execute(
                f"UPDATE jobs SET {change} WHERE id = ? AND worker = ? AND state = 'running'",  # noqa: S608  texts of ours
                (*values, id_, worker),
            ).rowcount
        if not changed:
            raise PolicyError("SF-U101", "This job is not run by this process any more.", try_="nothing")

    def _find(self, where: str, values: tuple[Any, ...]) -> tuple[ServerJob, ...]:
        rows = self._store.read_rows(f"SELECT {_COLUMNS} FROM jobs WHERE {where}", values)  # noqa: S608  texts of ours
        return tuple(map(_read_job, rows))


def cut_off_error() -> SealedError:
    """Return the one sentence for a job that began and did not end, whatever the reason was."""
    return SealedError(
        "SF-W165",
        "The job was cut off. What it had charged stays charged.",
        try_="send it again under a new key: rounds that were answered are free",
    )


def cancelled_error(*, begun: bool) -> PolicyError:
    """Return what is said of a job that its owner ended."""
    if begun:
        return PolicyError("SF-W165", "The job was cancelled. What it had charged stays charged.")
    return PolicyError("SF-W165", "The job was cancelled before it began; nothing was charged.")


def write_cut_off() -> dict[str, Any]:
    """Return that sentence as a problem document."""
    return write_job_problem(cut_off_error())


def write_job_problem(problem: SfumatoError) -> dict[str, Any]:
    """Return why a job failed, as a problem document that a client raises again."""
    return {**problem.to_dict(), "kind": type(problem).__name__}


def _make_room(file: Any, owner: str) -> list[str]:
    """Refuse one job too many, forget the oldest that have ended, and return the names of those."""
    count = "SELECT COUNT(*) FROM jobs WHERE owner = ? AND state IN ('waiting', 'running')"
    if file.execute(count, (owner,)).fetchone()[0] >= MOST_WAITING:
        raise PolicyError(
            "SF-W166",
            "Too many of your jobs wait or run.",
            most=str(MOST_WAITING),
            try_="again when one of them has ended",
        )
    old = file.execute(
        "DELETE FROM jobs WHERE owner = ? AND state NOT IN ('waiting', 'running') AND number NOT IN"
        " (SELECT number FROM jobs WHERE owner = ? ORDER BY number DESC LIMIT ?) RETURNING id",
        (owner, owner, MOST_KEPT),
    ).fetchall()
    return [each[0] for each in old]


def _read_job(row: Any) -> ServerJob:
    id_, owner, analyst, key, kind, body, state, worker, begun, rounds, seconds, outcome, made = row
    said = None if outcome is None else json.loads(outcome)
    known = (id_, owner, analyst, key, kind, json.loads(body), JobState(state), worker, bool(begun))
    return ServerJob(*known, rounds, seconds, said, made)
