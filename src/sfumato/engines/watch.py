"""Ending what runs too long, or reads a snapshot that is to be erased: one thread looks after all of it.

A steward's process says that a snapshot is to be erased by a file of its name, which every process that reads
the snapshot looks for. Both are public facts, and whoever asked is told neither.
"""

from __future__ import annotations

import os
import time
from _thread import start_new_thread
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import quote

from sfumato.engines.limits import current_limits
from sfumato.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

_EVERY = 0.1
"""Seconds between two looks."""
_AGAIN = 1.0
"""Seconds after which a run that was ended and still runs is ended again."""
_ENDING = ".ending"


class RunEndedError(Exception):
    """A program was ended, which its engine reports in words of its own."""


@dataclass(slots=True, eq=False)
class WatchedRun:
    """A program that runs, how it is ended, and when."""

    end: Callable[[], object]
    deadline: float
    marks: tuple[Path, ...]
    ended: str = ""
    """Why it was ended."""
    again: float = 0.0

    def look(self) -> None:
        now = time.monotonic()
        if now >= self.deadline:
            self.ended = "it ran longer than the lab's limit"
        elif any(mark.exists() for mark in self.marks):
            self.ended = "its snapshot is to be erased"
        # Only what has begun can be ended, and the run may not have begun yet.
        if self.ended and now >= self.again:
            self.again = now + _AGAIN
            # A connection that is closed already has nothing to end.
            with suppress(Exception):
                self.end()


class Watch:
    """The programs that run in this process. A forked child begins with none."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        # Plain locks: Ctrl-C on the way into the block of a condition leaves its lock held.
        self._turn, self._wake = Lock(), Lock()
        self._wake.acquire()
        self._runs: set[WatchedRun] = set()
        self._has_thread = False

    def add(self, run: WatchedRun) -> None:
        with self._turn:
            self._runs.add(run)
            if not self._has_thread:
                start_new_thread(self._look_on, ())
                self._has_thread = True
            if self._wake.locked():
                self._wake.release()

    def remove(self, run: WatchedRun) -> None:
        with self._turn:
            self._runs.discard(run)
        # The process may exit while the thread looks at the run, which then keeps what it refers to. DuckDB
        # would write to standard error that its objects were leaked.
        run.end = bool

    def _look_on(self) -> None:
        while True:
            self._wake.acquire()
            while self._look_once():
                time.sleep(_EVERY)

    def _look_once(self) -> bool:
        """Look at all that runs, and return whether anything does. Nothing is held of a run afterwards."""
        with self._turn:
            runs = list(self._runs)
        for run in runs:
            run.look()
        return bool(runs)


_WATCH = Watch()


@contextmanager
def watch_run(end: Callable[[], object], folder: Path | None, snapshots: Collection[str]) -> Iterator[None]:
    """End what is run inside, by calling `end`, once its time is over or a snapshot is to be erased.

    `folder` is where `end_runs` says so.
    """
    marks = () if folder is None else tuple(_mark(folder, snapshot) for snapshot in snapshots)
    run = WatchedRun(end, time.monotonic() + current_limits().seconds, marks)
    try:
        _WATCH.add(run)
        yield
    except Exception as problem:
        if run.ended:
            raise RunEndedError(run.ended) from problem
        raise
    finally:
        try:
            _WATCH.remove(run)
        except KeyboardInterrupt:
            _WATCH.remove(run)
            raise


@contextmanager
def end_runs(folder: Path, snapshot: str) -> Iterator[None]:
    """Have every process end what it reads of a snapshot, until the block ends."""
    mark = _mark(folder, snapshot)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark.touch(mode=0o600)
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def _mark(folder: Path, snapshot: str) -> Path:
    return folder / f"{quote(snapshot, safe='')}{_ENDING}"


# ---- engines out of reach ----------------------------------------------------------------------------------


@contextmanager
def reach_engine(engine: str, why: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors into one that says that nothing was read; only what opens and describes goes in here.

    Its words are the same for whatever stood in the way, because analysts see them.
    """
    try:
        yield
    except errors:
        raise EngineError(
            "SF-C221",
            "The rows of this table cannot be reached now, so nothing was read.",
            engine=engine,
            why=why,
            try_="the same question later; the steward can start the engine, or lab.advance(…)",
        ) from None
