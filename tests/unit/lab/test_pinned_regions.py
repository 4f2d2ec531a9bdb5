"""Pinned regions: units keep that of their first snapshot, so a new one leaves every account as it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.curator.catalog.catalog import Catalog
from sfumato.curator.plan import admitted_regions, possible_rows
from sfumato.curator.plan.admitted_regions import find_admitted_accounts
from sfumato.errors import EngineError, UsageError
from sfumato.ledger.history import trace_budget
from sfumato.ledger.store import StoredLedger

WARDS = sf.one_of("A", "B", "C", constant=True)
SAID: dict[str, Any] = {
    "unit": sf.Unit("id", max_rows=2, regions=["ward"], pinned=True),
    "columns": {"ward": WARDS, "cost": sf.between(0, 10)},
    "budget": sf.Budget(epsilon=1000),
}
FIRST = {1: "A", 2: "B", 3: "C", 4: None, 5: "elsewhere"}
EVERYONE = ("no region", "ward=A", "ward=B", "ward=C")


def make_visits(places: dict[int, str | None]) -> pa.Table:
    cost = [1.0] * len(places)
    return pa.table({"id": list(places), "ward": pa.array(places.values(), pa.string()), "cost": cost})


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    lab.register("visits", make_visits(FIRST), **SAID)
    return lab


def count(lab: sf.Lab, where: str, epsilon: float = 100) -> int:
    """A count of rows, with so little noise that it is exact."""
    asked = lab.session().sql(f"SELECT COUNT(*) AS n FROM visits WHERE {where}")
    return int(asked.release(epsilon=epsilon).to_arrow()["n"].to_pylist()[0])


def left(lab: sf.Lab) -> tuple[float, ...]:
    regions = lab.budget.to_dict()["population:id"]["regions"]
    return tuple(round(regions[name]["left_epsilon"], 6) for name in EVERYONE)


def test_a_new_snapshot_leaves_every_region_as_it_is(lab: sf.Lab) -> None:
    assert count(lab, "ward = 'A'") == 1
    assert count(lab, "ward = 'B'", 200) == 1
    assert left(lab) == (1000, 900, 800, 1000)
    lab.advance("visits", make_visits({**FIRST, 6: "A"}))
    assert left(lab) == left(sf.open(lab.folder)) == (1000, 900, 800, 1000)
    assert count(lab, "ward = 'A'") == 2
    assert trace_budget(lab.ledger, "population:id where ward=A")[-1].left_epsilon == 800
    lab.ledger.verify()


def test_who_moved_is_left_out_and_who_comes_back_is_there_again(lab: sf.Lab) -> None:
    """Nobody is asked about in a region that has not paid for them."""
    report = lab.advance("visits", make_visits({1: "B", 2: "B", 4: "C", 5: None, 6: "B"}))
    assert report is not None
    assert report.survey.moved == 2
    assert (count(lab, "ward = 'B'"), count(lab, "ward = 'C'"), count(lab, "ward IS NULL")) == (2, 0, 1)
    assert "another region than in their first snapshot: 2 units (40 %)" in str(report)
    assert report.to_dict()["units_in_another_region"] == 2
    # Person 3 was away for a snapshot, and person 6 came in the one before.
    report = lab.advance("visits", make_visits({1: "A", 3: "A", 4: None, 6: "C"}))
    assert report is not None
    assert report.survey.moved == 2
    assert (count(lab, "ward = 'A'"), count(lab, "ward IS NULL")) == (1, 1)


def test_answers_say_who_is_left_out_whether_or_not_anyone_is(lab: sf.Lab) -> None:
    asked = lab.session().sql("SELECT COUNT(*) AS n FROM visits")
    assert "Whoever is in another ward than at first is left out" in asked.quote(epsilon=1).caveats


def test_a_report_says_nothing_of_moves_where_units_may_move(tmp_path: Path) -> None:
    lab, unit = sf.create(tmp_path / "lab"), sf.Unit("id", max_rows=2, regions=["ward"])
    report = lab.register("visits", make_visits({1: "A"}), **{**SAID, "unit": unit})
    assert report is not None
    assert "first snapshot" not in str(report)
    assert "units_in_another_region" not in report.to_dict()


def test_older_snapshots_are_erased_with_what_they_remember(lab: sf.Lab) -> None:
    (before,) = (lab.folder / "snapshots").glob("*.duckdb")
    lab.advance("visits", make_visits(FIRST))
    (after,) = (lab.folder / "snapshots").glob("*.duckdb")
    assert before != after
    lab.drop("visits")
    assert not list((lab.folder / "snapshots").glob("*.duckdb*"))


# ---- whatever does not go on begins anew, from the largest total -------------------------------------------


def test_a_table_that_is_registered_again_begins_anew(lab: sf.Lab) -> None:
    count(lab, "ward = 'A'")
    lab.drop("visits")
    lab.register("visits", make_visits({1: "B"}), **SAID)
    assert left(lab) == (900,) * 4
    assert count(lab, "ward = 'B'") == 1


def test_other_values_begin_anew(lab: sf.Lab) -> None:
    count(lab, "ward = 'A'")
    other = {**SAID["columns"], "ward": sf.one_of("A", "B", "C", "elsewhere", constant=True)}
    report = lab.advance("visits", make_visits({**FIRST, 1: "B"}), columns=other)
    assert report is not None
    assert report.survey.moved == 0
    assert left(lab) == (900,) * 4


def test_values_in_another_order_begin_anew(lab: sf.Lab) -> None:
    """The accounts are the same, but what was remembered means other values."""
    count(lab, "ward = 'A'")
    other = {**SAID["columns"], "ward": sf.one_of("B", "A", "C", constant=True)}
    lab.advance("visits", make_visits({1: "A", 2: "B"}), columns=other)
    assert left(lab) == (900,) * 4
    assert (count(lab, "ward = 'A'"), count(lab, "ward = 'B'")) == (1, 1)


def test_rows_from_another_place_begin_anew(lab: sf.Lab) -> None:
    table = lab.table("visits")
    assert replace(table, identity="b" * 32).can_remember(table)
    assert not replace(table, home="postgres:0123").can_remember(table)
    unpinned = replace(table, protects=replace(table.unit, pinned=False))
    assert not table.can_remember(unpinned)
    assert not unpinned.can_remember(table)


def test_a_crash_before_the_entry_counts_for_nothing(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    count(lab, "ward = 'A'")
    with monkeypatch.context() as patch:
        patch.setattr(StoredLedger, "note_snapshot", crash)
        with pytest.raises(RuntimeError):
            lab.advance("visits", make_visits({6: "A", **FIRST}))
    assert count(lab, "ward = 'A'", 200) == 1
    # Person 6 was remembered by a snapshot that nobody could ask about.
    lab.advance("visits", make_visits({6: "B", **FIRST}))
    assert left(lab) == (1000, 700, 1000, 1000)
    assert count(lab, "ward = 'B'") == 2


def test_a_crash_after_the_entry_begins_anew_from_the_largest(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    count(lab, "ward = 'A'")
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "add_table", crash)
        with pytest.raises(RuntimeError):
            lab.advance("visits", make_visits({6: "A", **FIRST}))
    assert left(lab) == (1000, 900, 1000, 1000)
    # The ledger counts by a snapshot that is lost, so all regions are charged until the next one.
    count(lab, "ward = 'A'", 200)
    assert left(lab) == (800, 700, 800, 800)
    lab.advance("visits", make_visits({6: "B", **FIRST}))
    assert left(lab) == (700,) * 4
    count(lab, "ward = 'B'")
    lab.advance("visits", make_visits(FIRST))
    assert left(lab) == (700, 700, 600, 700)


def test_after_a_crash_a_source_that_is_refused_stops_nobody(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "add_table", crash)
        with pytest.raises(RuntimeError):
            lab.advance("visits", make_visits(FIRST))
    rounded = pa.table({"id": [1.5e18, 2.0], "ward": ["A", "B"], "cost": [1.0, 1.0]})
    for _ in range(2):
        with pytest.raises(UsageError, match="SF-C207"):
            lab.advance("visits", rounded)
        assert count(lab, "ward = 'A'") == 1
    assert left(lab) == (900,) * 4
    people = {at: "ABC"[at % 3] for at in range(100, 300)}
    lab.advance("visits", make_visits({**people, 1: "A"}), max_rows=sf.choose(epsilon=50))
    assert left(lab) == (850,) * 4
    assert count(lab, "ward = 'A'") == 67
    lab.ledger.verify()


def crash(*_: object) -> None:
    raise RuntimeError("the power fails")


@pytest.mark.parametrize("damage", ["missing", "cut", "of no table"])
def test_without_what_was_remembered_there_is_no_new_snapshot(lab: sf.Lab, damage: str) -> None:
    table = lab.table("visits")
    path = lab.folder / "snapshots" / f"{table.snapshot_name}.duckdb"
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "of no table":
            lab.engine.prepare(
                make_visits(FIRST),
                replace(table.make_preparation(b"k"), memory=None),  # type: ignore[call-arg]
                "other",
            )
            path.write_bytes((path.parent / "other.duckdb").read_bytes())
    for more in ({}, {"max_rows": sf.choose(epsilon=50)}):
        with pytest.raises(EngineError, match="SF-C248"):
            lab.advance("visits", make_visits(FIRST), **more)
    assert lab.table("visits") == table
    assert left(lab) == (1000,) * 4  # no bound was bought for a snapshot that there cannot be


def test_memory_that_cannot_be_read_now_is_not_lost(lab: sf.Lab) -> None:
    (path,) = (lab.folder / "snapshots").glob("*.duckdb")
    with duckdb.connect(str(path)), pytest.raises(duckdb.Error, match="conflict"):
        lab.advance("visits", make_visits(FIRST))
    lab.advance("visits", make_visits(FIRST))


@pytest.mark.parametrize("chosen", [False, True])
def test_the_steward_may_begin_anew_from_the_largest(lab: sf.Lab, chosen: bool) -> None:
    """After a disaster without snapshots, and also to have those back who have moved."""
    people = {at: "ABC"[at % 3] for at in range(100, 300)}
    count(lab, "ward = 'A'")
    shutil.rmtree(lab.folder / "snapshots")
    lab, more = sf.open(lab.folder), {"max_rows": sf.choose(epsilon=50)} if chosen else {}
    lab.advance("visits", make_visits({**people, 1: "B"}), forget_regions=True, **more)
    assert left(lab) == (850 if chosen else 900,) * 4
    assert count(lab, "ward = 'B'") == 68
    report = lab.advance("visits", make_visits({1: "A", 2: "C"}))
    assert report is not None
    assert report.survey.moved == 1
    assert left(lab)[1:3] == ((850, 750) if chosen else (900, 800))
    lab.ledger.verify()


# ---- units without a row -----------------------------------------------------------------------------------


def add_stays(lab: sf.Lab) -> None:
    source = pa.table({"id": [1, 2, 7], "nights": [1, 2, 3]})
    lab.register(
        "stays", source, unit=sf.Unit("id", max_rows=1), columns={"nights": sf.between(0, 9, step=1)}
    )


ABSENT = {
    "nobody found": "FROM stays LEFT JOIN visits USING (id) WHERE visits.ward IS NULL",
    "not in": "FROM stays WHERE id NOT IN (SELECT id FROM visits)",
    "other rows": "FROM stays WHERE nights > 1",
}
PRESENT = {
    "joined": "FROM stays JOIN visits USING (id) WHERE visits.ward IS NULL",
    "missing": "FROM visits WHERE ward IS NULL",
}


@pytest.mark.parametrize("name", [*ABSENT, *PRESENT])
def test_units_without_a_row_may_be_in_any_region(
    lab: sf.Lab, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if more were known of left joins, by which a unit with a row and a ward would surely find it."""
    add_stays(lab)
    plan = lab.session().sql(f"SELECT COUNT(*) AS n {(ABSENT | PRESENT)[name]}").quote(epsilon=1).plan
    monkeypatch.setattr(possible_rows.Known, "widen", lambda known: known)
    admitted_regions._admit_rows.cache_clear()
    regions = lab.table("visits").find_regions()
    assert regions is not None
    found = find_admitted_accounts([step.program for step in plan.steps], regions)
    admitted_regions._admit_rows.cache_clear()
    assert (found == set(regions.list_accounts())) is (name in ABSENT)


def test_who_moved_counts_with_everyone(lab: sf.Lab) -> None:
    """Person 1 is left out in ward B, and a question that counts who is not there is charged to all."""
    add_stays(lab)
    lab.advance("visits", make_visits({1: "B", 2: "B"}))
    sql = f"SELECT COUNT(*) AS n {ABSENT['nobody found']}"
    asked = lab.session().sql(sql)
    assert asked.quote(epsilon=100).regions == ()
    assert asked.release(epsilon=100).to_arrow()["n"].to_pylist() == [2]
    assert left(lab) == (900,) * 4


# ---- declarations ------------------------------------------------------------------------------------------


def test_pinned_needs_regions() -> None:
    for wrong in ({"pinned": True}, {"regions": ["ward"], "pinned": 1}):
        with pytest.raises(UsageError, match="SF-C247") as refused:
            sf.Unit("id", max_rows=2, **wrong)  # type: ignore[arg-type]
    eval(refused.value.facts["try"], {"sf": sf})


def test_pinned_is_kept_shown_and_written(lab: sf.Lab, tmp_path: Path) -> None:
    lab.advance("visits", make_visits(FIRST), max_rows=1)
    opened = sf.open(lab.folder)
    assert opened.table("visits").unit == sf.Unit("id", max_rows=1, regions=["ward"], pinned=True)
    assert "ward, which a unit keeps from its first snapshot on" in str(lab.session().tables)
    assert "regions are pinned: a new snapshot leaves each as it is" in str(lab.budget)
    assert lab.budget.to_dict()["population:id"]["pinned"] is True
    text = lab.draft_schema(make_visits(FIRST), **SAID)
    assert "pinned = true" in text
    (tmp_path / "visits.toml").write_text(text)
    second = sf.create(tmp_path / "second")
    second.register("visits", make_visits({1: "A"}), schema=tmp_path / "visits.toml")
    assert second.table("visits").unit == SAID["unit"]


def test_a_bound_that_is_chosen_leaves_pinned_regions_as_they_are(lab: sf.Lab) -> None:
    """It is read from a snapshot of its own, with everyone who is in the source, and all are charged."""
    count(lab, "ward = 'A'")
    people = {at: "ABC"[at % 3] for at in range(100, 300)}
    lab.advance("visits", make_visits({**FIRST, **people, 1: "B"}), max_rows=sf.choose(epsilon=50))
    assert left(lab) == (950, 850, 950, 950)
    assert lab.table("visits").unit.pinned
    assert count(lab, "ward = 'A'") == 66  # without person 1, who is in ward B now


def test_the_command_line_declares_pinned_regions(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(make_visits({1: "A", 2: "B"}), tmp_path / "visits.parquet")
    sf.create(tmp_path / "lab")
    place = ["visits", str(tmp_path / "visits.parquet"), "--lab", str(tmp_path / "lab")]
    said = ["--one-of", "ward", "A,B", "--epsilon", "1", "--pinned"]
    run = CliRunner().invoke
    assert "--pinned is about units" in run(main, ["table", "add", *place, "--row", *said]).output
    without = run(main, ["table", "add", *place, "--unit", "id", "--max-rows", "1", *said])
    assert "SF-C247" in without.output
    assert "--unit id --max-rows 20 --region ward --pinned" in without.output
    added = run(main, ["table", "add", *place, "--unit", "id", "--max-rows", "1", "--region", "ward", *said])
    assert added.exit_code == 0, added.output
    moved = run(main, ["table", "advance", *place, "--json"])
    assert json.loads(moved.stdout)["report"]["units_in_another_region"] == 0
    assert json.loads(moved.stdout)["unit"]["pinned"] is True
    shutil.rmtree(tmp_path / "lab" / "snapshots")
    lost = run(main, ["table", "advance", *place])
    assert "or sfumato table advance NAME SOURCE --forget-regions, and all regions" in lost.output
    assert run(main, ["table", "advance", *place, "--forget-regions"]).exit_code == 0
