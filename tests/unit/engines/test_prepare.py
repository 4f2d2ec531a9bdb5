"""A snapshot is whole and durable under its name, or it is not there; and it holds no raw value."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import threading

import duckdb
import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine, prepare
from sfumato.engines.program import Codes, Every, Grid, Preparation, Program, Rows, Value

COLUMNS = (Grid("cost", 0, 100, 0), Codes("ward", ("AAAA-ward", "BBBB-ward")))
PREPARATION = Preparation("who", 3, COLUMNS, b"\x01key")
COUNT = Program("t", Every(()), (), (Rows(), Value("cost")))


def visits(units: int = 20, each: int = 10) -> pa.Table:
    size = units * each
    return pa.table(
        {
            "who": [f"person-{i % units:04}" for i in range(size)],
            "cost": [float(i % 77) for i in range(size)],
            "ward": ["AAAA-ward"] * size,
        }
    )


@pytest.fixture
def engine(tmp_path):
    return DuckDBEngine(tmp_path / "deep" / "lab")


def permissions(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_look(engine):
    engine.folder.mkdir(parents=True, mode=0o755)
    previous = os.umask(0)
    try:
        engine.prepare(visits(), PREPARATION, "t")
    finally:
        os.umask(previous)
    assert permissions(engine.folder) == 0o700
    assert [(path.name, permissions(path)) for path in engine.folder.iterdir()] == [("t.duckdb", 0o600)]


def test_the_file_holds_codes_and_no_raw_value(engine):
    engine.prepare(visits(units=300, each=40), PREPARATION, "t")
    (file,) = engine.folder.iterdir()
    content = file.read_bytes()
    assert b"cost" in content
    for raw in (b"person-", b"AAAA-ward", b"01key", b"\x01key"):
        assert raw not in content
    with duckdb.connect(str(file), read_only=True) as connection:
        columns = connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'rows'"
        )
        assert columns.fetchall() == [("unit", "BIGINT"), ("c0", "INTEGER"), ("c1", "UTINYINT")]
        units = connection.execute(
            "SELECT min(unit), max(unit), count(DISTINCT unit), count(*) FROM rows"
        ).fetchone()
        assert units == (0, 299, 300, 900)


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (Grid("x", 0, 2**31 - 1, 0), "INTEGER"),
        (Grid("x", -(2**31), 0, 0), "INTEGER"),
        (Grid("x", 0, 2**31, 0), "BIGINT"),
        (Grid("x", -(2**31) - 1, 0, 0), "BIGINT"),
        (Codes("x", tuple(map(float, range(256)))), "UTINYINT"),
        (Codes("x", tuple(map(float, range(257)))), "USMALLINT"),
        (Codes("x", tuple(map(float, range(65_537)))), "UINTEGER"),
        (Codes("x", ()), "UTINYINT"),
    ],
)
def test_types_come_from_the_declaration(engine, column, stored):
    engine.prepare(pa.table({"x": [0]}), Preparation(None, 1, (column,), b"k"), "t")
    with duckdb.connect(str(engine.folder / "t.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT typeof(c0) FROM rows").fetchall() == [(stored,)]


@pytest.mark.parametrize("step", ["_read", "_keep", "_describe", "_settle"])
def test_a_failure_at_any_step_leaves_nothing(engine, monkeypatch, step):
    done = getattr(prepare, step)

    def fails(*arguments):
        if step != "_settle":
            done(*arguments)
        raise OSError("no space left")

    monkeypatch.setattr(prepare, step, fails)
    with pytest.raises(OSError, match="no space"):
        engine.prepare(visits(), PREPARATION, "t")
    assert list(engine.folder.iterdir()) == []


def test_a_failure_leaves_the_snapshot_that_was_there(engine, monkeypatch):
    engine.prepare(visits(), PREPARATION, "t")
    before = engine.run(COUNT).tolist()
    monkeypatch.setattr(prepare, "_describe", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        engine.prepare(visits(units=2), PREPARATION, "t")
    assert engine.run(COUNT).tolist() == before


def test_what_a_killed_preparation_left_is_removed_by_the_next(engine):
    child = os.fork()
    if child == 0:
        prepare._keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        engine.prepare(visits(), PREPARATION, "t")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert [path.name for path in engine.folder.iterdir()] == ["preparing"]
    assert permissions(engine.folder / "preparing") == 0o700
    engine.prepare(visits(), PREPARATION, "t")
    assert [path.name for path in engine.folder.iterdir()] == ["t.duckdb"]


def test_one_that_gives_up_waiting_leaves_the_other_alone(engine, monkeypatch):
    def gives_up(*_):
        raise KeyboardInterrupt

    (engine.folder / "preparing").mkdir(parents=True)
    monkeypatch.setattr(prepare.fcntl, "flock", gives_up)
    with pytest.raises(KeyboardInterrupt):
        engine.prepare(visits(), PREPARATION, "t")
    assert (engine.folder / "preparing").is_dir()


def test_preparations_side_by_side_wait_for_each_other(engine):
    names = [f"t{i}" for i in range(4)]
    work = [threading.Thread(target=engine.prepare, args=(visits(), PREPARATION, name)) for name in names[:2]]
    fork = multiprocessing.get_context("fork")
    work += [fork.Process(target=engine.prepare, args=(visits(), PREPARATION, name)) for name in names[2:]]
    for one in reversed(work):
        one.start()
    for one in work:
        one.join()
    answers = {str(engine.run(Program(name, Every(()), (), (Rows(), Value("cost"))))) for name in names}
    assert len(answers) == 1
    assert sorted(path.name for path in engine.folder.iterdir()) == [f"{name}.duckdb" for name in names]


def test_what_does_not_fit_in_memory_goes_to_the_lab_and_away(engine, monkeypatch):
    def small(path, spill, threads, real=prepare.open_writer):
        connection = real(path, spill, 1)
        connection.execute("SET memory_limit = '25MB'")
        spills.append(spill)
        return connection

    def describe(connection, preparation, real=prepare._describe):
        spilt.append(spills[0].parent == engine.folder / "preparing" and spills[0].exists())
        real(connection, preparation)

    spills, spilt = [], []
    table = visits(units=10_000, each=30)
    engine.prepare(table, PREPARATION, "t")
    roomy = engine.run(COUNT).tolist()
    monkeypatch.setattr(prepare, "open_writer", small)
    monkeypatch.setattr(prepare, "_describe", describe)
    engine.prepare(table, PREPARATION, "t")
    assert spilt == [True]
    assert engine.run(COUNT).tolist() == roomy
    assert [path.name for path in engine.folder.iterdir()] == ["t.duckdb"]
