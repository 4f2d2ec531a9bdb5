"""What a steward does with tables: register, advance, drop; and what stays of them."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Catalog, CatalogContents, Table
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.privacy.neighbours import Neighbours

VISITS = pa.table({"who": [1, 2, 2, 3], "x": [1, 2, 3, 4], "z": ["a", "b", "a", "b"]})
COLUMNS = {"x": sf.between(0, 9, step=1), "z": sf.one_of("a", "b")}
UNIT = sf.Unit("who", max_rows=2)
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


@pytest.fixture
def visits(lab: sf.Lab) -> sf.Lab:
    lab.register("visits", VISITS, unit=UNIT, columns=COLUMNS, budget=sf.Budget(4))
    return lab


def snapshots(lab: sf.Lab) -> set[str]:
    """Names of the snapshots that lie there, without their identities."""
    files = (lab.folder / "snapshots").glob("*.duckdb")
    return {file.name.partition(".")[0] for file in files}


def refused(code: str, act: object, kind: type[SfumatoError] = UsageError) -> SfumatoError:
    with pytest.raises(kind) as refusal:
        act()  # type: ignore[operator]
    assert refusal.value.code == code
    return refusal.value


# ---- public tables -----------------------------------------------------------------------------------------


def test_of_a_public_table_rows_and_multiplicities_are_kept(lab: sf.Lab) -> None:
    source = pa.table({"z": ["a", "b", "b", None, None], "k": ["q", "r", "q", "q", ""], "x": [None] * 5})
    promises = {"z": sf.one_of("a", "b"), "k": sf.text(), "x": sf.between(0, 1)}
    lab.register("regions", source, unit=sf.PUBLIC, columns=promises)
    for found in (lab.table("regions"), sf.open(lab.folder).table("regions")):
        assert found.is_public
        assert found.public_rows == 5
        assert found.multiplicity == {"z": 2, "k": 3, "x": 1}
        assert not found.is_constant("z")


def test_a_public_table_has_no_budget_and_no_population(lab: sf.Lab) -> None:
    source = pa.table({"z": ["a"]})
    refused("SF-U104", lambda: lab.register("r", source, unit=sf.PUBLIC, budget=sf.Budget(1)))
    refused("SF-C205", lambda: lab.register("r", source.slice(0, 0), unit=sf.PUBLIC))
    assert snapshots(lab) == set()
    lab.register("r", source, unit=sf.PUBLIC)
    assert lab.populations() == ()
    assert lab.ledger.list_accounts() == ()
    refused("SF-U104", lambda: lab.advance("r", source, max_rows=2))
    lab.advance("r", pa.concat_tables([source, source]))
    assert lab.table("r").public_rows == 2


def test_a_public_table_alone_is_not_asked(lab: sf.Lab) -> None:
    lab.register("r", pa.table({"z": ["a"]}), unit=sf.PUBLIC, columns={"z": sf.one_of("a")})
    with pytest.raises(PolicyError):
        lab.session().sql("SELECT COUNT(*) AS n FROM r").release(epsilon=1)


# ---- neighbours --------------------------------------------------------------------------------------------


def test_under_replace_one_the_number_of_rows_is_said_and_checked(lab: sf.Lab) -> None:
    def register(rows: int | None, **other: object) -> None:
        said = {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "budget": sf.Budget(1)} | other
        lab.register("visits", VISITS, rows=rows, **said)  # type: ignore[arg-type]

    wrong = refused("SF-C205", lambda: register(5))
    assert (wrong.facts["declared"], wrong.facts["found"]) == ("5", "4")
    assert snapshots(lab) == set()
    refused("SF-U104", lambda: register(None))
    refused("SF-U104", lambda: register(4, unit=UNIT))
    refused("SF-U104", lambda: register(4, unit=sf.PUBLIC))
    refused("SF-U104", lambda: register(4, neighbours=sf.ADD_REMOVE))
    refused("SF-U104", lambda: register(4, neighbours="replace-one"))
    register(4)
    for found in (lab.table("visits"), sf.open(lab.folder).table("visits")):
        assert found.neighbours is Neighbours.REPLACE_ONE
        assert found.public_rows == 4
    refused("SF-C205", lambda: lab.advance("visits", VISITS.slice(1)))
    lab.advance("visits", VISITS.slice(1), rows=3)
    assert lab.table("visits").public_rows == 3


def test_a_population_has_one_relation_even_after_its_tables(lab: sf.Lab) -> None:
    replace_one = {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "rows": 4}
    lab.register("visits", VISITS, budget=sf.Budget(1), **replace_one)  # type: ignore[arg-type]
    same = sf.Unit("who", max_rows=1, of="visits")
    refused("SF-N303", lambda: lab.register("more", VISITS, unit=same), PolicyError)
    lab.drop("visits")
    refused("SF-N303", lambda: lab.register("visits", VISITS, unit=sf.ROW), PolicyError)
    lab.register("visits", VISITS, **replace_one)  # type: ignore[arg-type]


def test_a_catalog_with_other_neighbours_than_the_ledger_is_charged_nothing(visits: sf.Lab) -> None:
    """The account was opened for adding or removing a unit, whatever the catalog says by now."""
    visits.session().sql(COUNT).release(epsilon=1)
    file = visits.folder / "catalog.json"
    body = json.loads(file.read_text())
    body["tables"]["visits"] |= {"neighbours": "replace-one", "public_rows": 4}
    file.write_text(json.dumps(body))
    swapped = sf.open(visits.folder)
    refused("SF-N303", lambda: swapped.session().sql(COUNT).release(epsilon=0.5), PolicyError)
    assert swapped.budget.accounts[0].left_epsilon == 3


# ---- advancing and dropping --------------------------------------------------------------------------------


def test_the_next_snapshot_has_the_same_promises_and_budget(visits: sf.Lab) -> None:
    first = visits.session().sql(COUNT).release(epsilon=1)
    visits.advance("visits", VISITS)
    table = visits.table("visits")
    assert (table.snapshot, table.columns, table.unit) == (2, COLUMNS, UNIT)
    assert snapshots(visits) == {"visits-2"}
    assert visits.budget.accounts[0].left_epsilon == 3
    again = visits.session().sql(COUNT).release(epsilon=1)
    assert (first.receipt.replayed, again.receipt.replayed) == (False, False)


def test_the_next_snapshot_may_have_other_promises(visits: sf.Lab) -> None:
    visits.advance(
        "visits", VISITS, columns={"x": sf.between(0, 3, constant=True)}, max_rows=3, confirm_losses=True
    )
    table = visits.table("visits")
    assert list(table.columns) == ["x"]
    assert table.is_constant("x")
    assert table.unit == sf.Unit("who", max_rows=3)
    refused("SF-N101", lambda: visits.advance("visits", VISITS, max_rows=0))
    refused("SF-Q106", lambda: visits.advance("other", VISITS), PolicyError)


def test_a_source_that_cannot_be_read_leaves_the_table_as_it_was(visits: sf.Lab) -> None:
    refused("SF-C205", lambda: visits.advance("visits", VISITS.drop_columns(["x"])))
    assert visits.table("visits").snapshot == 1
    assert snapshots(visits) == {"visits-1"}
    visits.session().sql(COUNT).release(epsilon=1)


def test_a_dropped_table_is_gone_and_its_account_stays(visits: sf.Lab) -> None:
    visits.session().sql(COUNT).release(epsilon=1)
    visits.drop("visits")
    assert snapshots(visits) == set()
    assert visits.tables() == ()
    refused("SF-Q106", lambda: visits.session().sql(COUNT), PolicyError)
    refused("SF-Q106", lambda: visits.drop("visits"), PolicyError)
    visits.register("visits", VISITS, unit=UNIT, columns=COLUMNS)
    assert visits.table("visits").snapshot == 2
    assert visits.budget.accounts[0].left_epsilon == 3
    assert not visits.session().sql(COUNT).release(epsilon=1).receipt.replayed


def test_registering_twice_is_refused(visits: sf.Lab) -> None:
    refused("SF-C110", lambda: visits.register("visits", VISITS, unit=UNIT), PolicyError)
    assert snapshots(visits) == {"visits-1"}


def killed_at(lab: sf.Lab, owner: object, method: str, act: object) -> None:
    """Run in a child that dies when it comes to the method."""
    child = os.fork()
    if child == 0:
        setattr(owner, method, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        act(sf.open(lab.folder))  # type: ignore[operator]
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.parametrize(
    ("method", "snapshot", "lying"),
    [
        ("begin_snapshot", 1, {"visits-1"}),
        ("add_table", 1, {"visits-1", "visits-2"}),
        ("forget_snapshot", 2, {"visits-2"}),
    ],
)
def test_an_interrupted_advance_is_one_or_none(
    visits: sf.Lab, method: str, snapshot: int, lying: set[str]
) -> None:
    killed_at(visits, Catalog, method, lambda lab: lab.advance("visits", VISITS))
    assert visits.table("visits").snapshot == snapshot
    assert snapshots(visits) == lying
    visits.session().sql(COUNT).release(epsilon=1)
    visits.advance("visits", VISITS)
    assert snapshots(visits) == {f"visits-{snapshot + 1}"}


def test_an_interrupted_drop_is_finished_by_the_next_change(visits: sf.Lab) -> None:
    killed_at(visits, type(visits.engine), "erase", lambda lab: lab.drop("visits"))
    assert visits.tables() == ()
    assert snapshots(visits) == {"visits-1"}
    visits.register("other", VISITS, unit=UNIT)
    assert snapshots(visits) == {"other-1"}


# ---- the catalog's file ------------------------------------------------------------------------------------


def test_tables_survive_the_file(tmp_path: Path) -> None:
    columns = {"day": sf.between(date(2020, 1, 1), date(2021, 1, 1), constant=True), "t": sf.text()}
    tables = [
        Table("a", UNIT, COLUMNS, 7),
        Table("b", sf.ROW, columns, 1, Neighbours.REPLACE_ONE, 12),
        Table("c", sf.PUBLIC, columns, 2, public_rows=5, multiplicity={"day": 2, "t": 5}),
    ]
    catalog = Catalog(tmp_path / "catalog.json")
    for table in tables:
        catalog.add_table(table)
    assert Catalog(tmp_path / "catalog.json").tables == {table.name: table for table in tables}
    contents = catalog.contents
    assert contents.relations == {"who": Neighbours.ADD_REMOVE, "b": Neighbours.REPLACE_ONE}
    assert CatalogContents.from_dict(json.loads(json.dumps(contents.to_dict()))) == contents


def test_a_catalog_of_another_version_says_so(visits: sf.Lab) -> None:
    file = visits.folder / "catalog.json"
    body = json.loads(file.read_text()) | {"version": 1}
    file.write_text(json.dumps(body))
    error = refused("SF-C112", lambda: sf.open(visits.folder).tables())
    assert (error.facts["version"], error.facts["needed"]) == ("1", "2")
    file.write_text("{}")
    refused("SF-C112", lambda: sf.open(visits.folder).tables())


def test_columns_are_constant_where_promised_or_where_a_unit_has_one_row() -> None:
    table = Table("t", UNIT, {"x": sf.text(constant=True), "y": sf.text()})
    assert (table.is_constant("x"), table.is_constant("y")) == (True, False)
    assert table.make_preparation(b"k").constant == ("x",)
    assert replace(table, protects=sf.ROW).is_constant("y")
    assert table.domain_of("x") == sf.text().domain


# ---- names -------------------------------------------------------------------------------------------------


def test_names_of_tables_ignore_case(visits: sf.Lab) -> None:
    paid = visits.session().sql(COUNT).release(epsilon=1)
    again = visits.session().sql("SELECT COUNT(*) AS n FROM Visits AS V WHERE v.X >= 0").quote(epsilon=1)
    assert again.plan.resolved.table.name == "visits"
    free = visits.session().sql(COUNT.replace("visits", "VISITS")).release(epsilon=1)
    assert free.to_arrow() == paid.to_arrow()
    assert visits.session().table("VISITS").count().quote(epsilon=1).plan.resolved.table.name == "visits"
    refused("SF-C110", lambda: visits.register("Visits", VISITS, unit=UNIT, columns=COLUMNS), PolicyError)
    visits.advance("VISITS", VISITS)
    assert [table.name for table in visits.tables()] == ["visits"]


def test_two_tables_that_differ_in_case_need_their_very_names(visits: sf.Lab) -> None:
    """An old lab may have them."""
    catalog = Catalog(visits.folder / "catalog.json")
    catalog.add_table(replace(catalog.find_table("visits"), name="VISITS"))
    assert visits.table("VISITS").name == "VISITS"
    assert visits.table("visits").name == "visits"
    assert "VISITS" in str(refused("SF-Q133", lambda: visits.table("Visits"), PolicyError))
