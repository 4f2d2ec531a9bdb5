"""A schema file says what `lab.register` takes, and every error says where in the file it is."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.catalog.schema_file import Schema, read_schema, write_schema
from sfumato.errors import UsageError
from sfumato.privacy.neighbours import Neighbours

WHOLE = """
[unit]
column = "patient_id"
max_rows = 20
of = "patients"

[columns.age]
between = [0, 110]
step = 1
missing = 40
constant = true

[columns.weight]
between = [0.5, 200.1]

[columns.ward]
one_of = ["A", "B"]
missing = "B"

[columns.day]
between = [2020-01-01, 2024-12-31]

[columns."seen at"]
between = [2020-01-01T00:00:00Z, 2024-12-31T12:00:00]

[columns.note]
text = true
constant = true

[budget]
epsilon = 4
delta = "1e-7"
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "visits.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_says_what_register_takes(tmp_path: Path) -> None:
    assert read_schema(write(tmp_path, WHOLE)) == Schema(
        sf.Unit("patient_id", max_rows=20, of="patients"),
        {
            "age": sf.between(0, 110, step=1, missing=40, constant=True),
            "weight": sf.between(Decimal("0.5"), Decimal("200.1")),
            "ward": sf.one_of("A", "B", missing="B"),
            "day": sf.between(date(2020, 1, 1), date(2024, 12, 31)),
            "seen at": sf.between(datetime(2020, 1, 1), datetime(2024, 12, 31, 12)),
            "note": sf.text(constant=True),
        },
        sf.Budget(4, Decimal("1e-7")),
        Neighbours.ADD_REMOVE,
        None,
    )


def test_the_share_of_side_delta_is_read_and_written(tmp_path: Path) -> None:
    text = 'unit = "row"\n[budget]\nepsilon = 1\ndelta = "1e-6"\nside_share = "0.9"'
    found = read_schema(write(tmp_path, text))
    assert found.budget == sf.Budget(1, Decimal("1e-6"), side_share=Decimal("0.9"))
    assert read_schema(write(tmp_path, write_schema(found))) == found
    usual = Schema(sf.ROW, {}, sf.Budget(1, Decimal("1e-6")), Neighbours.ADD_REMOVE, None)
    assert "side_share" not in write_schema(usual)


def test_rows_public_tables_and_neighbours(tmp_path: Path) -> None:
    text = 'unit = "row"\nneighbours = "replace-one"\nrows = 7\n[budget]\nepsilon = 0.1'
    found = read_schema(write(tmp_path, text))
    assert (found.unit, found.neighbours, found.rows) == (sf.ROW, sf.REPLACE_ONE, 7)
    assert found.budget == sf.Budget(Decimal("0.1"))
    assert read_schema(write(tmp_path, 'unit = "public"')).unit == sf.PUBLIC
    assert read_schema(write(tmp_path, "")) == Schema(None, {}, None, Neighbours.ADD_REMOVE, None)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("[columns.age]\nbetween = [110, 0]", "SF-C104", "columns.age.between"),
        ("[columns.age]\nbetween = [0]", "SF-C127", "columns.age.between"),
        ("[columns.age]\nbetween = 7", "SF-C127", "columns.age.between"),
        ('[columns.age]\nbetween = ["a", "b"]', "SF-C104", "columns.age.between"),
        ("[columns.age]\nbetween = [0, 1]\nstep = 4", "SF-C104", "columns.age.between"),
        ("[columns.age]\nbetween = [0, 1]\nmissing = 3", "SF-C114", "columns.age.between"),
        ("[columns.age]\nbetween = [0, 1]\nconstant = 1", "SF-C127", "columns.age.constant"),
        ("[columns.age]\nbetween = [0, 1]\ntext = true", "SF-C127", "columns.age"),
        ("[columns.age]\nmissing = 1", "SF-C127", "columns.age"),
        ("[columns.age]\nbetwen = [0, 1]", "SF-C127", "columns.age.betwen"),
        ("[columns]\nage = 7", "SF-C127", "columns.age"),
        ("columns = 7", "SF-C127", "columns"),
        ('[columns.w]\none_of = "A"', "SF-C127", "columns.w.one_of"),
        ("[columns.w]\none_of = []", "SF-C107", "columns.w.one_of"),
        ('[columns.w]\none_of = ["A", 1]', "SF-C107", "columns.w.one_of"),
        ('[columns.w]\none_of = ["A"]\nstep = 1', "SF-C127", "columns.w.step"),
        ("[columns.t]\ntext = false", "SF-C127", "columns.t.text"),
        ("[columns.t]\ntext = true\nmissing = 1", "SF-C127", "columns.t.missing"),
        ('unit = "person"', "SF-C127", "unit"),
        ("unit = 7", "SF-C127", "unit"),
        ("[unit]\nmax_rows = 2", "SF-C114", "unit"),
        ('[unit]\ncolumn = "who"', "SF-U104", "unit"),
        ('[unit]\ncolumn = "who"\nmax_rows = 0', "SF-N101", "unit"),
        ('[unit]\ncolumn = "who"\nmaxrows = 0', "SF-C127", "unit.maxrows"),
        ('neighbours = "none"', "SF-C127", "neighbours"),
        ("neighbours = []", "SF-C127", "neighbours"),
        ("[budget]\nepsilon = 0", "SF-N101", "budget"),
        ('[budget]\nepsilon = "much"', "SF-C127", "budget.epsilon"),
        ('[budget]\nepsilon = 1\ndelta = "NaN"', "SF-N105", "budget"),
        ("[budget]\ndelta = 0.1", "SF-C127", "budget"),
        ("[budget]\nepsilon = 1\ngamma = 1", "SF-C127", "budget.gamma"),
        ("[budget]\nepsilon = 1\ndelta = 0.1\nside_share = 2", "SF-N101", "budget"),
        ("[tables]", "SF-C127", "tables"),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path: Path, text: str, code: str, place: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_schema(write(tmp_path, text))
    assert refusal.value.code == code
    assert refusal.value.sentence.startswith(f"visits.toml: {place}: ")


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    for file, code in ((tmp_path / "nowhere.toml", "SF-C202"), (write(tmp_path, "unit ="), "SF-C127")):
        with pytest.raises(UsageError) as refusal:
            read_schema(file)
        assert refusal.value.code == code
        assert file.name in str(refusal.value)


def test_a_table_is_registered_by_its_schema_alone(tmp_path: Path) -> None:
    import pyarrow as pa

    text = '[unit]\ncolumn = "who"\nmax_rows = 2\n[columns.x]\nbetween = [0, 9]\n[budget]\nepsilon = 1'
    file = write(tmp_path, text)
    lab = sf.create(tmp_path / "lab")
    source = pa.table({"who": [1, 1], "x": [1, 2]})
    with pytest.raises(UsageError) as refusal:
        lab.register("visits", source, schema=file, budget=sf.Budget(1))
    assert refusal.value.code == "SF-U104"
    lab.register("visits", source, schema=str(file))
    assert lab.table("visits").columns == {"x": sf.between(0, 9)}
    assert lab.budget.accounts[0].epsilon == 1
