"""Schemas, new snapshots and dropping from the shell."""

import json
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
    return run("table", "add", "visits", source, "--lab", str(folder / "lab"), "--schema", schema, *more)


def test_a_schema_says_it_all(lab: Path) -> None:
    added = add(lab)
    assert added.exit_code == 0, added.output
    shown = run("table", "show", "visits", "--lab", str(lab / "lab")).stdout
    assert "between 2020-01-01 and 2024-12-31, to the day" in shown
    assert "in steps of 0.0001221; constant" in shown
    assert "one of A, B, C; missing values count as C" in shown


def test_a_wrong_schema_is_refused_with_its_place(lab: Path) -> None:
    assert add(lab, "--row").exit_code == 2
    (lab / "visits.toml").write_text(SCHEMA.replace("[0, 110]", "[110, 0]"))
    refused = add(lab)
    assert refused.exit_code == 2
    assert "visits.toml: columns.age.between: " in refused.stderr


def test_advance_and_drop(lab: Path) -> None:
    assert add(lab).exit_code == 0
    folder, source = str(lab / "lab"), str(lab / "visits.parquet")
    advanced = run("table", "advance", "visits", source, "--lab", folder, "--max-rows", "5", "--json")
    assert json.loads(advanced.stdout)["snapshot"] == 2
    assert json.loads(advanced.stdout)["unit"]["max_rows"] == 5
    assert run("table", "drop", "visits", "--lab", folder).exit_code == 0
    assert json.loads(run("table", "list", "--lab", folder, "--json").stdout) == []
    assert run("table", "drop", "visits", "--lab", folder).exit_code == 4
