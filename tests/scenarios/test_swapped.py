"""Folders of labs that were swapped, copied or put back: no refund, and no answer about other rows."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.conformance import servers

import sfumato as sf
from sfumato.errors import LedgerError, SfumatoError, UsageError
from sfumato.ledger import PostgresLedger
from sfumato.ledger.sqlite.backup import accept_ledger

if TYPE_CHECKING:
    from sfumato.curator.answers.release import Release

MEAN = "SELECT AVG(x) AS m FROM t"
PEOPLE = "population:who"


def rows(mean: float) -> pa.Table:
    return pa.table({"who": np.arange(1000), "x": np.full(1000, mean)})


def make_lab(folder: Path, mean: float, ledger: str | None = None) -> sf.Lab:
    lab = sf.create(folder, ledger=ledger)
    columns, budget = {"x": sf.between(0, 1)}, sf.Budget(epsilon=6)
    lab.register("t", rows(mean), unit=sf.Unit("who", max_rows=1), columns=columns, budget=budget)
    return lab


def ask(lab: sf.Lab, sql: str = MEAN) -> Release:
    return lab.session().sql(sql).release(epsilon=1)


def mean_of(release: Release) -> float:
    return float(release.to_arrow().to_pydict()["m"][0])


def require_own(release: Release, mean: float) -> None:
    """The noise at ε = 1 is far below the distance between the tables."""
    assert abs(mean_of(release) - mean) < 0.2


def put(source: Path, target: Path) -> None:
    """As tools that restore files do it: a new file takes the name of the old one."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy2(source, target)


def refuses(code: str, folder: Path) -> None:
    with pytest.raises(SfumatoError, match=code):
        ask(sf.open(folder))


def test_the_ledger_of_another_lab_is_refused(tmp_path: Path) -> None:
    for name, mean in (("a", 0.1), ("b", 0.9)):
        with closing(make_lab(tmp_path / name, mean).ledger):
            pass
    whole = ("ledger.sqlite", "ledger.sqlite.key", "ledger.sqlite.mark")
    put(tmp_path / "a" / whole[0], tmp_path / "b" / whole[0])
    refuses("SF-L132", tmp_path / "b")
    for name in whole:
        put(tmp_path / "a" / name, tmp_path / "b" / name)
    refuses("SF-L131", tmp_path / "b")
    accept_ledger(tmp_path / "b" / whole[0], unproven=True)
    refuses("SF-L121", tmp_path / "b")
    (tmp_path / "b" / "ledger.identity").unlink()
    refuses("SF-L121", tmp_path / "b")


def test_a_copied_folder_is_no_second_budget(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "a", 0.1)
    first = ask(lab)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    refuses("SF-L131", tmp_path / "b")
    again = ask(lab)
    assert again.receipt.replayed
    assert mean_of(again) == mean_of(first)
    assert sf.create(tmp_path / "c").ledger.verify().entries == 1  # the claim


@pytest.mark.parametrize("how", ["cp -a ../night/. .", "tar -xf ../night.tar --overwrite"])
def test_yesterdays_folder_put_back_in_place_is_no_refund(tmp_path: Path, how: str) -> None:
    """Both write over the files that are there, which keep their inodes."""
    folder = tmp_path / "lab"
    make_lab(folder, 0.1).ledger.close()
    subprocess.run("cp -a . ../night && tar -cf ../night.tar .", shell=True, check=True, cwd=folder)
    lab = sf.open(folder)
    ask(lab)
    lab.ledger.close()
    subprocess.run(how, shell=True, check=True, cwd=folder)
    for _ in range(2):
        refuses("SF-L132", folder)


def test_yesterdays_catalog_with_todays_ledger_gets_no_answer_about_other_rows(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    lab = make_lab(folder, 0.1)
    require_own(ask(lab), 0.1)
    shutil.copytree(folder, tmp_path / "night")
    lab.advance("t", rows(0.5))
    require_own(ask(lab), 0.5)
    lab.ledger.close()
    for name in ("catalog.json", "snapshots"):
        put(tmp_path / "night" / name, folder / name)
    stale = sf.open(folder)
    spent = stale.ledger.read_spent(PEOPLE)
    for act in (lambda: ask(stale), lambda: stale.advance("t", rows(0.9))):
        with pytest.raises(LedgerError, match="SF-L136"):
            act()
    assert stale.ledger.read_spent(PEOPLE) == spent
    # The next step that the error names. The number of the snapshot is one that was used before.
    stale.drop("t")
    stale.register("t", rows(0.9), unit=sf.Unit("who", max_rows=1), columns={"x": sf.between(0, 1)})
    assert stale.table("t").snapshot == 2
    answer = ask(stale)
    assert not answer.receipt.replayed
    require_own(answer, 0.9)


def test_an_older_version_does_not_take_the_ledger_for_one_in_a_database(tmp_path: Path) -> None:
    make_lab(tmp_path / "a", 0.1).ledger.close()
    assert not (tmp_path / "a" / "ledger.json").exists()
    (tmp_path / "a" / "ledger.identity").unlink()  # as in older labs, which get one
    sf.open(tmp_path / "a").ledger.close()
    assert (tmp_path / "a" / "ledger.identity").exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "{}", '{"identity": 3}', '{"identity": "x", "address": "y"}', "\x00"]
)
@pytest.mark.parametrize("name", ["ledger.identity", "ledger.json"])
def test_a_damaged_note_is_named(tmp_path: Path, name: str, content: str) -> None:
    sf.create(tmp_path / "a").ledger.close()
    (tmp_path / "a" / name).write_text(content)
    with pytest.raises(LedgerError, match=f"SF-L106  The note {name}"):
        sf.open(tmp_path / "a")


def test_the_snapshot_of_another_lab_is_not_read(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "a", 0.1)
    make_lab(tmp_path / "b", 0.9)
    put(tmp_path / "b" / "snapshots", tmp_path / "a" / "snapshots")
    spent = lab.ledger.read_spent(PEOPLE)
    refuses("SF-C221", tmp_path / "a")
    assert lab.ledger.read_spent(PEOPLE) == spent


def test_kept_answers_are_found_by_the_snapshot_and_not_by_its_number(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab", 0.1)
    first = ask(lab)
    lab.drop("t")
    lab.register("t", rows(0.9), unit=sf.Unit("who", max_rows=1), columns={"x": sf.between(0, 1)})
    body = (tmp_path / "lab" / "catalog.json").read_text()
    # As a steward might who wants the number back.
    (tmp_path / "lab" / "catalog.json").write_text(body.replace('"snapshot": 2', '"snapshot": 1'))
    other = sf.open(tmp_path / "lab")
    assert other.session().sql(MEAN).quote(epsilon=1).plan.request == first.request
    assert not other.session().sql(MEAN).quote(epsilon=1).standing.free


# ---- one ledger in PostgreSQL ------------------------------------------------------------------------------


@pytest.fixture
def address() -> str:
    return f"postgresql://postgres@/postgres?host={servers.running().folder}#swapped_{secrets.token_hex(6)}"


def test_two_labs_cannot_share_an_empty_schema(tmp_path: Path, address: str) -> None:
    place, schema = address.split("#")
    PostgresLedger.create(place, schema=schema).close()
    lab = sf.create(tmp_path / "a", ledger=address)
    with closing(lab.ledger), pytest.raises(UsageError, match="SF-L304"):
        sf.create(tmp_path / "b", ledger=address)


def test_copies_of_a_folder_that_both_advance_get_no_answer_of_each_other(
    tmp_path: Path, address: str
) -> None:
    first = make_lab(tmp_path / "a", 0.1, address)
    require_own(ask(first), 0.1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    second = sf.open(tmp_path / "b")
    assert ask(second).receipt.replayed  # the same rows
    first.advance("t", rows(0.5))
    require_own(ask(first), 0.5)
    for act in (lambda: second.advance("t", rows(0.9)), lambda: ask(second)):
        with pytest.raises(LedgerError, match="SF-L136"):
            act()
    for lab in (first, second):
        lab.ledger.close()


def test_a_copy_is_told_that_another_has_replaced_a_table_in_a_database(tmp_path: Path, address: str) -> None:
    place, schema = address.split("#")
    with psycopg.connect(place) as db:
        db.execute(
            f"CREATE TABLE {schema} AS SELECT n AS who, 0.5 AS x FROM generate_series(1, 9) n".encode()
        )
    source = f"{place}#public.{schema}"
    first = sf.create(tmp_path / "a", ledger=address)
    unit, columns = sf.Unit("who", max_rows=1), {"x": sf.between(0, 1)}
    first.register("t", source, unit=unit, columns=columns, budget=sf.Budget(epsilon=8))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    second = sf.open(tmp_path / "b")
    first.advance("t", source)  # which erases the snapshot that the copy knows
    with closing(first.ledger), closing(second.ledger), pytest.raises(LedgerError, match="SF-L136"):
        ask(second)


# ---- creating ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_whoever_is_killed_while_creating_a_lab_can_create_it_again(tmp_path: Path, rounds: int) -> None:
    events = ("open", "os.link", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "sqlite3.connect")
    for number in range(rounds):
        folder = tmp_path / f"{number}"
        child = os.fork()
        if child == 0:
            seen = [0]

            def die(event: str, _: object, seen: list[int] = seen, last: int = 40 * number // rounds) -> None:
                seen[0] += event in events
                if seen[0] > last:
                    os._exit(0)

            sys.addaudithook(die)
            sf.create(folder)
            os._exit(0)
        os.waitpid(child, 0)
        is_whole = (folder / "ranking.key").exists()
        lab = sf.open(folder) if is_whole else sf.create(folder)
        with closing(lab.ledger):
            assert lab.ledger.verify().entries == 1
        assert not (folder / ".creating").exists()


# ---- many at random ----------------------------------------------------------------------------------------

PARTS = (
    ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"),
    ("ledger.sqlite.mark",),
    ("ledger.sqlite.key",),
    ("ledger.identity",),
    ("catalog.json",),
    ("snapshots",),
    ("ranking.key",),
)


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_parts_of_folders_swapped_at_random(tmp_path: Path, rounds: int) -> None:
    """Parts of a lab come from another lab, or from the night before, in all kinds of combinations."""
    chance, refusals = random.Random(173205), 0
    for number in range(rounds):
        base = tmp_path / f"{number}"
        labs = {"a": make_lab(base / "a", 0.1), "b": make_lab(base / "b", 0.9)}
        kept = mean_of(ask(labs["a"]))
        shutil.copytree(base / "a", base / "night")
        with closing(labs["a"].ledger), closing(labs["b"].ledger):
            for _ in range(3):
                ask(labs["a"], f"SELECT AVG(x) AS m FROM t WHERE x > {chance.random() / 20}")
            ask(labs["b"])
            if chance.random() < 0.5:
                labs["a"].advance("t", rows(0.5))
        own = 0.5 if labs["a"].table("t").snapshot == 2 else 0.1
        for part in chance.sample(PARTS, chance.randint(1, len(PARTS))):
            source = base / chance.choice(["b", "night"])
            for name in part:
                put(source / name, base / "a" / name)
        refusals += require_no_harm(base / "a", own, kept)
    assert refusals > rounds // 2


def require_no_harm(folder: Path, own: float, kept: float) -> bool:
    """Ask on: at most two more answers at ε = 1, all about the lab's own rows. Returns whether it refused."""
    try:
        lab = sf.open(folder)
        with closing(lab.ledger):
            for number in range(4):
                answer = ask(lab, f"SELECT AVG(x) AS m FROM t WHERE x > {number / 1000}")
                assert number < 2, "more than the budget"
                require_own(answer, own)
            again = ask(lab)
            assert again.receipt.replayed is (mean_of(again) == kept)
    except SfumatoError:
        return True
    return False
