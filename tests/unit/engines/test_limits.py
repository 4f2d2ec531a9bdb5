"""Limits of a run hold inside their block, for the thread that is in it."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from sfumato.engines.duckdb.connection import open_reader
from sfumato.engines.limits import RunLimits, current_limits, limit_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NO_FILES: Mapping[str, Path] = {}


def test_limits_hold_inside_their_block_and_in_no_other_thread() -> None:
    usual, seen = current_limits(), []
    with limit_runs(RunLimits(2, 2**30)):
        assert current_limits() == RunLimits(2, 2**30)
        other = Thread(target=lambda: seen.append(current_limits()))
        other.start()
        other.join()
    assert seen == [usual] == [current_limits()]


@pytest.mark.parametrize(("seconds", "memory"), [(0, None), (-1, None), (float("nan"), None), (1, 0)])
def test_limits_are_above_zero(seconds: float, memory: int | None) -> None:
    with pytest.raises(ValueError, match="above zero"):
        RunLimits(seconds, memory)


def test_duckdb_takes_no_more_memory_than_it_is_allowed() -> None:
    with limit_runs(RunLimits(memory=64 * 2**20)), open_reader(NO_FILES, 1) as connection:
        found = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    assert found == ("64.0 MiB",)
