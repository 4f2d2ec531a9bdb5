"""A snapshot is whole and durable under its name, or it is not there; and it holds no raw value."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import threading

import pyarrow as pa
import pytest

from sfumato.engines.duckdb import prepare
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredText, StoredTime

COLUMNS = (StoredGrid("cost", 0, 100), StoredCodes("ward", ("AAAA-ward", "BBBB-ward")))
PREPARATION = Preparation("who", 3, COLUMNS, b"\x01key")
COUNT = "SELECT count(*), sum(c0) FROM rows"


def visits(units: int = 20, each: int = 10) -> pa.Table:
    size = units * each
    return pa.table(
        {
            "who": [f"person-{i % units:04}" for i in range(size)],
            "cost": [float(i % 77) for i in range(size)],
            "ward": ["AAAA-ward"] * size,
        }
    )


def permissions(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_look(store):
    store.folder.mkdir(parents=True, mode=0o755)
    previous = os.umask(0)
    try:
        store.prepare(visits(), PREPARATION, "t")
    finally:
        os.umask(previous)
    assert permissions(store.folder) == 0o700
    assert [(path.name, permissions(path)) for path in store.folder.iterdir()] == [("t.duckdb", 0o600)]


def test_the_file_holds_codes_and_no_raw_value(store):
    store.prepare(visits(units=300, each=40), PREPARATION, "t")
    (file,) = store.folder.iterdir()
    content = file.read_bytes()
    assert b"cost" in content
    for raw in (b"person-", b"AAAA-ward", b"01key", b"\x01key"):
        assert raw not in content
    columns = store.read("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'rows'")
    assert columns == [("unit", "BIGINT"), ("place", "UINTEGER"), ("c0", "INTEGER"), ("c1", "UTINYINT")]
    columns = store.read("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'units'")
    assert columns == [("unit", "BIGINT"), ("person", "UUID"), ("rows", "BIGINT"), ("block", "USMALLINT")]
    units = store.read("SELECT min(unit), max(unit), count(DISTINCT unit), count(*) FROM rows")
    assert units == [(0, 299, 300, 900)]
    assert store.read("SELECT count(*), min(rows), max(rows) FROM units") == [(300, 40, 40)]


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (StoredGrid("x", 0, 2**31 - 1), "INTEGER"),
        (StoredGrid("x", -(2**31), 0), "INTEGER"),
        (StoredGrid("x", 0, 2**31), "BIGINT"),
        (StoredGrid("x", -(2**31) - 1, 0), "BIGINT"),
        (StoredCodes("x", tuple(map(float, range(256)))), "UTINYINT"),
        (StoredCodes("x", tuple(map(float, range(257)))), "USMALLINT"),
        (StoredCodes("x", tuple(map(float, range(65_537)))), "UINTEGER"),
        (StoredCodes("x", ()), "UTINYINT"),
        (StoredTime("x", 0, 20_000, False), "INTEGER"),
        (StoredTime("x", 0, 2**32, True), "BIGINT"),
        (StoredText("x"), "VARCHAR"),
    ],
)
def test_types_come_from_the_declaration(store, column, stored):
    store.prepare(pa.table({"x": ["0"]}), Preparation(None, 1, (column,), b"k"), "t")
    assert store.read("SELECT typeof(c0) FROM rows") == [(stored,)]


@pytest.mark.parametrize("step", ["_read", "_keep", "_describe", "_settle"])
def test_a_failure_at_any_step_leaves_nothing(store, monkeypatch, step):
    done = getattr(prepare, step)

    def fails(*arguments):
        if step != "_settle":
            done(*arguments)
        raise OSError("no space left")

    monkeypatch.setattr(prepare, step, fails)
    with pytest.raises(OSError, match="no space"):
        store.prepare(visits(), PREPARATION, "t")
    assert list(store.folder.iterdir()) == []


def test_a_failure_leaves_the_snapshot_that_was_there(store, monkeypatch):
    store.prepare(visits(), PREPARATION, "t")
    before = store.read(COUNT)
    monkeypatch.setattr(prepare, "_describe", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        store.prepare(visits(units=2), PREPARATION, "t")
    assert store.read(COUNT) == before


def test_what_a_killed_preparation_left_is_removed_by_the_next(store):
    child = os.fork()
    if child == 0:
        prepare._keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        store.prepare(visits(), PREPARATION, "t")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert [path.name for path in store.folder.iterdir()] == ["preparing"]
    assert permissions(store.folder / "preparing") == 0o700
    store.prepare(visits(), PREPARATION, "t")
    assert [path.name for path in store.folder.iterdir()] == ["t.duckdb"]


def test_one_that_gives_up_waiting_leaves_the_other_alone(store, monkeypatch):
    def gives_up(*_):
        raise KeyboardInterrupt

    (store.folder / "preparing").mkdir(parents=True)
    monkeypatch.setattr(prepare.fcntl, "flock", gives_up)
    with pytest.raises(KeyboardInterrupt):
        store.prepare(visits(), PREPARATION, "t")
    assert (store.folder / "preparing").is_dir()


def test_preparations_side_by_side_wait_for_each_other(store):
    names = [f"t{i}" for i in range(4)]
    work = [threading.Thread(target=store.prepare, args=(visits(), PREPARATION, name)) for name in names[:2]]
    fork = multiprocessing.get_context("fork")
    work += [fork.Process(target=store.prepare, args=(visits(), PREPARATION, name)) for name in names[2:]]
    for one in reversed(work):
        one.start()
    for one in work:
        one.join()
    answers = {str(store.read(COUNT, name)) for name in names}
    assert len(answers) == 1
    assert sorted(path.name for path in store.folder.iterdir()) == [f"{name}.duckdb" for name in names]


def test_what_does_not_fit_in_memory_goes_to_the_lab_and_away(store, monkeypatch):
    def small(path, spill, threads, real=prepare.open_writer):
        connection = real(path, spill, 1)
        connection.execute("SET memory_limit = '25MB'")
        spills.append(spill)
        return connection

    def describe(connection, preparation, real=prepare._describe):
        spilt.append(spills[0].parent == store.folder / "preparing" and spills[0].exists())
        real(connection, preparation)

    spills, spilt = [], []
    table = visits(units=10_000, each=30)
    store.prepare(table, PREPARATION, "t")
    roomy = store.read(COUNT)
    monkeypatch.setattr(prepare, "open_writer", small)
    monkeypatch.setattr(prepare, "_describe", describe)
    store.prepare(table, PREPARATION, "t")
    assert spilt == [True]
    assert store.read(COUNT) == roomy
    assert [path.name for path in store.folder.iterdir()] == ["t.duckdb"]
