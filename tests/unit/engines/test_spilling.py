"""What does not fit in DuckDB's memory goes to a folder of the lab's, which goes with its process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import duckdb
import pytest

from sfumato.engines.duckdb.connection import open_reader
from sfumato.engines.duckdb.spilling import SpillFolder, open_spill_folder
from sfumato.engines.limits import RunLimits, limit_runs

if TYPE_CHECKING:
    from pathlib import Path

MANY = "SELECT count(*) FROM (SELECT DISTINCT hash(range) || 'abcdefghijklmnop' FROM range(2000000))"
LITTLE = 48 * 2**20


def test_more_than_fits_in_memory_is_answered_by_way_of_the_disk(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path)
    with limit_runs(RunLimits(memory=LITTLE)), open_reader({}, 1, spill.path) as connection:
        assert connection.execute(MANY).fetchall() == [(2_000_000,)]


@pytest.mark.parametrize("spill", [0, 2**20])
def test_neither_memory_nor_disk_is_exceeded(tmp_path: Path, spill: int) -> None:
    folder = SpillFolder(tmp_path)
    limits = RunLimits(memory=LITTLE, spill=spill)
    with limit_runs(limits), open_reader({}, 1, folder.path) as connection, pytest.raises(duckdb.Error):
        connection.execute(MANY)


def test_the_folder_is_its_owners_and_goes_with_its_user(tmp_path: Path) -> None:
    folder = open_spill_folder(tmp_path)
    assert folder is not None
    assert folder.path.parent == tmp_path / "spilling"
    assert {each.stat().st_mode & 0o777 for each in (folder.path, folder.path.parent)} == {0o700}
    del folder
    assert list((tmp_path / "spilling").iterdir()) == []


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    mine = SpillFolder(tmp_path)
    child = os.fork()
    if child == 0:
        theirs = SpillFolder(tmp_path)
        (theirs.path / "rows").write_text("of people")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list((tmp_path / "spilling").iterdir())) == 2
    new = SpillFolder(tmp_path)
    assert set((tmp_path / "spilling").iterdir()) == {mine.path, new.path}


def test_where_nothing_can_be_written_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "spilling").write_text("a file in its place")
    assert open_spill_folder(tmp_path) is None
