"""Schemas, new snapshots and dropping from the shell."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from sfumato.cli import clinic
from sfumato.cli.main import main

SCHEMA = """
[unit]
column = "patient_id"
max_rows = 10
[columns.age]
between = [0, 110]
constant = true
[columns.ward]
one_of = ["A", "B", "C"]
missing = "C"
[columns.day]
between = [2020-01-01, 2024-12-31]
[budget]
epsilon = 1
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    table = clinic.visits(50, 200)
    pq.write_table(table.append_column("day", [["2023-05-01"] * len(table)]), tmp_path / "visits.parquet")
    (tmp_path / "visits.toml").write_text(SCHEMA)
    assert run("init", str(tmp_path / "lab")).exit_code == 0
    return tmp_path


def add(folder: Path, *more: str) -> Result:
    source, schema = str(folder / "visits.parquet"), str(folder / "visits.toml")
    place = ("--lab", str(folder / "lab"), "--confirm-losses")  # wards D to F are not in the list
    return run("table", "add", "visits", source, *place, "--schema", schema, *more)


def test_a_schema_says_it_all(lab: Path) -> None:
    added = add(lab)
    assert added.exit_code == 0, added.output
    shown = run("table", "show", "visits", "--lab", str(lab / "lab")).stdout
    assert "between 2020-01-01 and 2024-12-31, to the day" in shown
    assert "in steps of 1e-06" in shown
    assert "stay NULL; one per unit" in shown
    assert "count as C" in shown


def test_a_wrong_schema_is_refused_with_its_place(lab: Path) -> None:
    assert add(lab, "--row").exit_code == 2
    (lab / "visits.toml").write_text(SCHEMA.replace("[0, 110]", "[110, 0]"))
    refused = add(lab)
    assert refused.exit_code == 2
    assert "visits.toml: columns.age.between: " in refused.stderr


@pytest.mark.usefixtures("usual_losses")
def test_advance_and_drop(lab: Path) -> None:
    assert add(lab).exit_code == 0
    folder, source = str(lab / "lab"), str(lab / "visits.parquet")
    refused = run("table", "advance", "visits", source, "--lab", folder, "--max-rows", "5")
    assert refused.exit_code == 2
    assert "'ward': " in refused.stderr
    more = ("--max-rows", "5", "--confirm-losses", "--json")
    advanced = run("table", "advance", "visits", source, "--lab", folder, *more)
    assert json.loads(advanced.stdout)["snapshot"] == 2
    assert json.loads(advanced.stdout)["unit"]["max_rows"] == 5
    assert run("table", "drop", "visits", "--lab", folder).exit_code == 0
    assert json.loads(run("table", "list", "--lab", folder, "--json").stdout) == []
    assert run("table", "drop", "visits", "--lab", folder).exit_code == 4


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("usual_losses")
def test_a_check_shows_what_a_declaration_does_and_stores_nothing(lab: Path) -> None:
    declared = ("--unit", "patient_id", "--max-rows", "2", "--one-of", "ward", "1,2", "--epsilon", "1")
    place = (str(lab / "visits.parquet"), "--lab", str(lab / "lab"))
    checked = run("table", "check", "visits", *place, *declared)
    assert checked.exit_code == 0, checked.output
    assert "visits: 200 rows of 50 units (patient_id) read." in checked.stdout
    assert "'ward': 200 values (100 %) not in its list, counted as missing." in checked.stderr
    refused = run("table", "add", "visits", *place, *declared)
    assert refused.exit_code == 2
    assert "'ward': 200 values (100 %) not in its list" in refused.stderr
    assert "--confirm-losses" in refused.stderr
    assert json.loads(run("table", "list", "--lab", str(lab / "lab"), "--json").stdout) == []
    added = json.loads(run("table", "add", "visits", *place, *declared, "--json", "--confirm-losses").stdout)
    assert added["report"]["columns"]["ward"]["unlisted"] == 200


def test_dates_texts_and_public_tables_are_declared_in_the_shell(lab: Path) -> None:
    place = (str(lab / "visits.parquet"), "--lab", str(lab / "lab"))
    declared = (
        "--between",
        "day",
        "2020-01-01",
        "2024-12-31",
        "--text",
        "ward",
        "--whole",
        "age",
        "0",
        "110",
    )
    assert run("table", "add", "public", *place, "--public", *declared).exit_code == 0
    shown = run("table", "show", "public", "--lab", str(lab / "lab")).stdout
    assert "between 2020-01-01 and 2024-12-31, to the day" in shown
    assert "any text" in shown
    assert "between 0 and 110, in steps of 1 " in shown
    assert "because it is public" in shown
    twice = run("table", "add", "more", *place, "--public", "--text", "day", *declared)
    assert twice.exit_code == 2
    assert "a column is declared twice" in twice.stderr


def test_constant_columns_and_the_part_of_delta_are_declared_in_the_shell(lab: Path) -> None:
    place = (str(lab / "visits.parquet"), "--lab", str(lab / "lab"))
    declared = ("--unit", "patient_id", "--max-rows", "2", "--one-of", "ward", "A,B", "--constant", "ward")
    declared += ("--between", "age", "0", "110", "--constant", "age", "--between", "cost", "0", "9")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--side-share", "0.25")
    added = json.loads(
        run("table", "add", "visits", *place, *declared, *budget, "--json", "--confirm-losses").stdout
    )
    constant = {name for name, column in added["columns"].items() if column.get("constant")}
    assert constant == {"ward", "age"}
    accounts = json.loads(run("budget", "--lab", str(lab / "lab"), "--json").stdout)
    assert accounts["population:patient_id"]["side_delta"] == 2.5e-7
    unknown = run("table", "add", "more", *place, *declared, "--constant", "day")
    assert "--constant day: this column is not declared" in unknown.stderr


def test_tables_of_a_copied_folder_are_listed(lab: Path) -> None:
    assert add(lab).exit_code == 0
    shutil.copytree(lab / "lab", lab / "copy")
    assert (
        json.loads(run("table", "list", "--lab", str(lab / "copy"), "--json").stdout)[0]["name"] == "visits"
    )
    assert "patient_id" in run("table", "show", "visits", "--lab", str(lab / "copy")).stdout


def test_the_share_of_side_delta_is_said_and_shown(lab: Path) -> None:
    folder, source = str(lab / "lab"), str(lab / "visits.parquet")
    said = ("--unit", "patient_id", "--max-rows", "20", "--one-of", "ward", "A,B,C")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--side-share", "0.9")
    added = run("table", "add", "visits", source, "--lab", folder, *said, *budget, "--confirm-losses")
    assert added.exit_code == 0, added.output
    shown = run("budget", "--lab", folder)
    assert "side δ: 9e-07 of 9e-07 remaining" in shown.stdout, shown.output
    numbers = json.loads(run("budget", "--lab", folder, "--json").stdout)["population:patient_id"]
    assert (numbers["side_delta"], numbers["left_side_delta"]) == (9e-7, 9e-7)
