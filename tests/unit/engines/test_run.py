"""Exact integers in threads and after a fork."""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from _thread import start_new_thread
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine, run
from sfumato.engines.duckdb.run import SNAPSHOTS, _dense
from sfumato.engines.program import (
    CellHistogram,
    CellKey,
    CellSums,
    Counted,
    KeyedSums,
    SumsByKey,
    Total,
    UnitFigures,
)
from sfumato.engines.rows import ALL, Largest, Scan
from sfumato.engines.snapshot import Preparation, StoredGrid
from sfumato.engines.values import Add, AtLeast, Column, Constant
from sfumato.errors import EngineError
from waiting import PATIENCE

X = Column(0, "x")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    engine = DuckDBEngine(tmp_path_factory.mktemp("lab"))
    engine.prepare(
        pa.table({"x": np.arange(1_000_000) % 1000}),
        Preparation(None, 1, (StoredGrid("x", 0, 999),), b"k"),
        "t",
    )
    return engine


def above(value: int) -> CellSums:
    return CellSums(Scan("t"), AtLeast(X, value), (), (Counted(), Total(X)))


def expected(value: int) -> list[list[int]]:
    return [[1000 * (1000 - value)], [1000 * sum(range(value, 1000))]]


def in_child(work) -> int:
    """The exit status of a child that does this, ends as a program does, and is not waited for for ever."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            status = 0 if work() else 1
        except BaseException:
            status = 2
        os._exit(status)
    return os.waitpid(child, 0)[1]


def test_many_threads_share_one_snapshot(engine):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda value: engine.run(above(value)).tolist(), range(0, 1000, 20)))
    assert answers == [expected(value) for value in range(0, 1000, 20)]


def test_a_snapshot_is_opened_once(engine, monkeypatch):
    engine.run(above(0))
    monkeypatch.setattr("sfumato.engines.duckdb.run.open_reader", None)
    assert DuckDBEngine(engine.folder).run(above(999)).tolist() == expected(999)


def test_only_the_last_few_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.engines.duckdb.run.KEPT_OPEN", 2)
    SNAPSHOTS._open.clear()
    engine = DuckDBEngine(tmp_path)
    for name in "abc":
        engine.prepare(pa.table({"x": [1]}), Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k"), name)
    for name in "abacabc":
        assert engine.run(CellSums(Scan(name), AtLeast(X, 0), (), (Counted(),))).tolist() == [[1]]
        assert len(SNAPSHOTS._open) <= 2
    assert [paths[0].stem for paths, _ in SNAPSHOTS._open] == ["b", "c"]


def test_parent_and_child_both_answer_after_a_fork(engine):
    assert engine.run(above(1)).tolist() == expected(1)
    assert in_child(lambda: engine.run(above(2)).tolist() == expected(2)) == 0
    assert in_child(lambda: in_child(lambda: engine.run(above(3)).tolist() == expected(3)) == 0) == 0
    assert engine.run(above(4)).tolist() == expected(4)


def test_a_child_holds_no_connection_of_its_parent(engine):
    engine.run(above(1))
    assert in_child(lambda: not SNAPSHOTS._open) == 0


def test_a_fork_in_the_middle_of_other_threads_questions(engine):
    stop = threading.Event()
    wrong = []

    def ask():
        while not stop.is_set():
            if engine.run(above(7)).tolist() != expected(7):
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_child(lambda: engine.run(above(8)).tolist() == expected(8)) for _ in range(5)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 5
    assert not wrong


def test_a_child_ends_as_any_program_does(tmp_path, engine):
    """Through the interpreter's own shutdown, which would wait for the parent's threads if it had them."""
    script = f"""
import os, sys, pathlib, signal
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import Counted, CellSums
from sfumato.engines.rows import ALL, Scan
engine = DuckDBEngine(pathlib.Path({str(engine.folder)!r}))
count = CellSums(Scan("t"), ALL, (), (Counted(),))
assert engine.run(count).tolist() == [[1_000_000]]
child = os.fork()
if child == 0:
    signal.alarm({int(PATIENCE)})
    assert engine.run(count).tolist() == [[1_000_000]]
    sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    run = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (3, b"")


def test_a_thread_that_has_read_keeps_nothing_on_its_way_out(monkeypatch):
    """A process that exits at this moment would keep the connection, and DuckDB would report that."""
    may_end = threading.Event()

    def start_slow_to_end(function, arguments):
        return start_new_thread(lambda: (function(*arguments), may_end.wait(PATIENCE)), ())

    class Reading:
        def read(self):
            return 7

    reading = Reading()
    kept = weakref.ref(reading)
    monkeypatch.setattr(run, "start_new_thread", start_slow_to_end)
    assert run._ask(reading.read, lambda: None) == 7
    del reading
    assert kept() is None
    may_end.set()


def test_an_erased_file_is_not_answered_from_memory(tmp_path):
    mine, another = DuckDBEngine(tmp_path), DuckDBEngine(tmp_path)
    mine.prepare(pa.table({"x": [1]}), Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k"), "t")
    assert mine.run(above(0)).tolist() == [[1], [1]]
    assert in_child(lambda: another.erase("t") is None) == 0
    with pytest.raises(EngineError, match="SF-C221"):
        mine.run(above(0))


def test_a_damaged_snapshot_raises(tmp_path):
    engine = DuckDBEngine(tmp_path)
    engine.prepare(
        pa.table({"x": list(range(10))}), Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k"), "t"
    )
    file = tmp_path / "t.duckdb"
    file.write_bytes(file.read_bytes()[:5000] + bytes(400_000))
    with pytest.raises(EngineError, match="SF-C221"):
        engine.run(above(0))


def test_every_cell_is_present(tmp_path):
    engine = DuckDBEngine(tmp_path)
    engine.prepare(pa.table({"x": [2, 2, 5]}), Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k"), "t")
    answer = engine.run(CellSums(Scan("t"), ALL, (CellKey(X, 4), CellKey(X, 4)), (Counted(),)))
    assert answer.shape == (1, 16)
    assert answer.dtype == np.int64
    assert np.flatnonzero(answer[0]).tolist() == [10]


@pytest.fixture
def small(tmp_path):
    engine = DuckDBEngine(tmp_path)
    source = pa.table({"who": [1, 1, 2, 3, 3, None], "x": [2, 2, 5, None, 7, 1]})
    engine.prepare(source, Preparation("who", 2, (StoredGrid("x", 0, 9),), b"k"), "t")
    return engine


def test_a_tally_is_sorted_and_holds_what_occurs(small):
    tally = small.run(CellHistogram(Scan("t"), ALL, (CellKey(Constant(1), 2),), X, 6))
    assert tally.places.tolist() == [8, 8, 11]
    assert tally.triplets().tolist() == [[1, 1], [2, 5], [2, 1]]
    assert small.run(CellHistogram(Scan("t"), AtLeast(X, 9), (), X, 6)).triplets().tolist() == [[], [], []]


def test_keys_that_occur_have_their_units_and_sums(small):
    found = small.run(KeyedSums(Scan("t"), ALL, (X, Add(X, Constant(1))), (Counted(), Total(X))))
    assert isinstance(found, SumsByKey)
    assert {type(part) for key in found.keys for part in key} == {int}
    rows = zip(found.keys, found.units.tolist(), *found.sums.tolist(), strict=True)
    assert sorted(rows) == [((2, 3), 1, 2, 4), ((5, 6), 1, 1, 5), ((7, 8), 1, 1, 7)]
    nothing = small.run(KeyedSums(Scan("t"), AtLeast(X, 9), (X,), (Counted(),)))
    assert (nothing.keys, nothing.units.tolist(), nothing.sums.tolist()) == ([], [], [[]])


def test_figures_of_people_have_a_column_for_each(small):
    answer = small.run(UnitFigures(Scan("t"), ALL, (Counted(), Total(X))))
    assert sorted(zip(*answer.tolist(), strict=True)) == [(1, 5), (2, 4), (2, 7)]
    largest = small.run(UnitFigures(Scan("t"), AtLeast(X, 0), (Largest(X),)))
    assert sorted(largest.tolist()[0]) == [2, 5, 7]


@pytest.mark.parametrize(
    "total",
    [
        0,
        -1,
        1,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        2**64 - 1,
        2**64,
        -(2**64),
        2**120 + 3,
        -(2**120) - 3,
    ],
)
def test_two_words_make_one_integer(total):
    low, high = total & (2**64 - 1), total >> 64
    words = np.array([[low - 2**64 if low >= 2**63 else low, high]], dtype=np.int64)
    dense = _dense(np.array([1]), [words], 3)
    assert dense.tolist() == [[0, total, 0]]
    assert (dense.dtype == np.int64) == (-(2**63) <= total < 2**63)
