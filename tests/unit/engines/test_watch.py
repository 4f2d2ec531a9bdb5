"""A program that runs too long, or whose snapshot is to be erased, is ended in every process."""

from __future__ import annotations

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.interruption import interrupt_at

from sfumato.engines import watch
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.limits import RunLimits, limit_runs
from sfumato.engines.program import CellSums, Counted
from sfumato.engines.rows import ALL, Joined, Scan
from sfumato.engines.snapshot import Preparation, StoredGrid
from sfumato.engines.watch import RunEndedError, WatchedRun, end_runs, watch_run
from waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3000
SHORT = CellSums(Scan("t"), ALL, (), (Counted(),))


def endless() -> CellSums:
    """Every four rows of one unit: a question of years."""
    rows: Scan | Joined = Scan("t", 0)
    for at in range(1, 4):
        rows = Joined(rows, Scan("t", at), same_unit=True)
    return CellSums(rows, ALL, (), (Counted(),))


@pytest.fixture
def engine(tmp_path: Path) -> DuckDBEngine:
    engine = DuckDBEngine(tmp_path)
    table = pa.table({"who": [1] * ROWS, "x": [n % 10 for n in range(ROWS)]})
    engine.prepare(table, Preparation("who", ROWS, (StoredGrid("x", 0, 9),), b"k"), "t")
    return engine


def test_what_runs_too_long_is_ended_and_the_next_question_is_answered(engine: DuckDBEngine) -> None:
    with limit_runs(RunLimits(seconds=0.2)), pytest.raises(RunEndedError, match="longer than"):
        engine.run(endless())
    assert engine.run(SHORT).tolist() == [[ROWS]]


def test_questions_of_every_process_are_ended_before_their_snapshot_is_erased(engine: DuckDBEngine) -> None:
    child = os.fork()
    if child == 0:
        try:
            engine.run(endless())
        except RunEndedError:
            os._exit(7)
        finally:
            os._exit(1)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(engine.run, endless())
        with end_runs(engine.folder, "t"):
            with pytest.raises(RunEndedError, match="erased"):
                asked.result()
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with end_runs(engine.folder, "another"):
        assert engine.run(SHORT).tolist() == [[ROWS]]
    assert not list(engine.folder.glob("*.ending"))


def test_a_run_that_is_over_keeps_nothing_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that exits at this moment would keep the connection, and DuckDB would report that."""
    looks, may_go_on = Event(), Event()

    def look_slowly(run: WatchedRun) -> None:
        looks.set()
        assert may_go_on.wait(PATIENCE)

    class Connection:
        def interrupt(self) -> None:
            raise AssertionError

    connection = Connection()
    kept = weakref.ref(connection)
    monkeypatch.setattr(WatchedRun, "look", look_slowly)
    with watch_run(connection.interrupt, None, ()):
        assert looks.wait(PATIENCE)
    del connection
    assert kept() is None
    may_go_on.set()


def test_ctrl_c_when_a_run_begins_or_ends_leaves_it_to_nobody() -> None:
    """Else the next question would wait for ever, or be ended in the place of this one."""
    place, interruption = 0, None
    watched = watch_run.__wrapped__  # type: ignore[attr-defined]
    while interruption is None or interruption.left <= 0:
        place += 1
        with interrupt_at(watched, place) as interruption, watch_run(lambda: None, None, ()):
            pass
        assert watch._WATCH._turn.acquire(timeout=PATIENCE)
        watch._WATCH._turn.release()
        assert not watch._WATCH._runs
    assert place > 9
