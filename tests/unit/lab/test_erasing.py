"""Changes of a lab while questions run: none waits for other tables, and a drop ends what reads its own."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.conformance.endless import SAID, TABLE, check_drop_ends_questions, finish, plan_endless

import sfumato as sf
from sfumato.curator.payer import Payer
from sfumato.errors import SealedError
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    for name in ("big", "small"):
        lab.register(name, TABLE, **SAID, budget=sf.Budget(epsilon=100))
    return lab


@contextmanager
def reading_elsewhere(lab: sf.Lab, snapshot: str) -> Iterator[None]:
    """Another process reads a snapshot until the block ends."""
    begun, over = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with lab.reading({snapshot}):
            os.write(begun[1], b"x")
            os.read(over[0], 1)
        os._exit(0)
    os.read(begun[0], 1)
    try:
        yield
    finally:
        os.write(over[1], b"x")
        os.waitpid(child, 0)


def test_changes_do_not_wait_for_questions_about_other_tables(lab: sf.Lab) -> None:
    big = lab.table("big").snapshot_name
    with reading_elsewhere(lab, big), lab.reading({big}):
        finish(lambda: lab.advance("small", TABLE))
        finish(lambda: lab.register("third", TABLE, **SAID))
        finish(lambda: lab.drop("small"))
    left = {path.stem for path in (lab.folder / "snapshots").glob("*.duckdb")}
    assert left == {table.snapshot_name for table in lab.tables()}


def test_a_snapshot_that_is_read_is_not_erased(lab: sf.Lab) -> None:
    catalog, big = lab._catalog, lab.table("big").snapshot_name
    with reading_elsewhere(lab, big), catalog.lock_for_erasing(big, 0) as alone:
        assert not alone
    with catalog.lock_for_erasing(big, 0) as alone:
        assert alone
    with lab.reading({big}), catalog.lock_for_erasing(big, 0) as alone:
        assert not alone


def test_a_drop_ends_questions_that_read_the_table(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    check_drop_ends_questions(lab, "big", monkeypatch)
    assert not list((lab.folder / "snapshots").glob("big-1*"))


def test_a_question_that_exceeds_the_labs_limits_says_the_one_sentence(lab: sf.Lab) -> None:
    lab.limit_questions(seconds=0.2, memory=2**30)
    assert (lab.limits.seconds, sf.open(lab.folder).limits) == (0.2, lab.limits)
    with pytest.raises(SealedError, match="SF-X901"):
        Payer(lab, None).pay(plan_endless(lab, "big"), "endless")
    lab.limit_questions(seconds=PATIENCE, memory=2**30)  # a busy machine may need more for any question
    assert lab.session().sql("SELECT COUNT(*) AS n FROM big").release(epsilon=1)
    for wrong in ({"seconds": 0}, {"memory": -1}, {"spill": 0.5}, {"seconds": "long"}):
        with pytest.raises(sf.errors.UsageError, match="SF-N101"):
            lab.limit_questions(**wrong)  # type: ignore[arg-type]
