"""What there is can be seen for nothing: tables, their columns, and what is declared about them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import PolicyError

ROWS = pa.table(
    {"who": [1, 2], "age": [10, 20], "day": ["2020-01-01"] * 2, "ward": ["A", "B"], "note": ["", ""]}
)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {
        "age": sf.between(0, 110, step=1, missing=40, constant=True),
        "day": sf.between(date(2020, 1, 1), date(2024, 12, 31)),
        "ward": sf.one_of("A", "B"),
        "note": sf.text(),
    }
    lab.register("visits", ROWS, unit=sf.Unit("who", 3), columns=columns, budget=sf.Budget(1))
    lab.register("names", ROWS, unit=sf.PUBLIC, columns={"ward": sf.one_of("A", "B")})
    lab.grant("ada", epsilon=0.5)
    return lab


DESCRIBED = """visits protects all rows of one who, of which at most 3 are used.
column  type    values                                         missing values
age     number  between 0 and 110, in steps of 1               count as 40; one per unit
day     date    between 2020-01-01 and 2024-12-31, to the day  stay NULL
ward    text    one of A, B                                    stay NULL
note    text    any text                                       stay NULL"""


def test_tables_and_columns_are_shown_for_nothing(lab: sf.Lab) -> None:
    s = lab.session("ada")
    entries = lab.verify().entries
    assert list(s.tables) == ["visits", "names"]
    assert str(s.tables["VISITS"]) == DESCRIBED
    assert str(s.tables).splitlines()[2].split("  ")[0] == "names"
    t = s.table("visits")
    assert t.columns == ["age", "day", "ward", "note"]
    assert str(t.describe()) == DESCRIBED
    assert repr(t) == f"table('visits')\n{DESCRIBED}"
    assert "<td style='text-align:left'>between 0 and 110, in steps of 1</td>" in t._repr_html_()
    assert t.describe().to_arrow()["column"].to_pylist() == t.columns
    assert lab.verify().entries == entries


def test_sql_describes(lab: sf.Lab) -> None:
    ways = ["DESCRIBE visits", "desc table Visits;", 'SHOW COLUMNS FROM "visits"', " describe\nvisits "]
    for text in ways:
        described = lab.session("ada").sql(text)
        assert str(described) == DESCRIBED
        assert described.release(epsilon=1) is described.quote() is described
        with pytest.raises(PolicyError):
            lab.publish(text, epsilon=0.1)
    assert lab.session().sql("SHOW TABLES;").to_dict()["tables"][0]["table"] == "visits"
    with pytest.raises(PolicyError):
        lab.session().sql("DESCRIBE nothing")


def test_an_analyst_sees_the_tables_that_were_granted(lab: sf.Lab) -> None:
    lab.grant("bob", epsilon=0.1, tables=["names", "visits"])
    assert list(lab.session("bob").tables) == ["visits", "names"]
    lab.register("others", ROWS, unit=sf.Unit("who", 3))
    assert list(lab.session("bob").tables) == ["visits", "names"]


def test_rows_made_of_tables_are_described(lab: sf.Lab) -> None:
    t = lab.session().table("visits")
    assert t.where("age > 3").columns == t.columns
    made = t.select(old="age >= 65", decade="age / 10", month="date_trunc('month', day)").describe()
    assert [(column.name, column.type) for column in made.columns] == [
        ("old", "boolean"),
        ("decade", "number"),
        ("month", "date"),
    ]
    assert made.columns[1].missing == "none"
    assert t.join("names", using="ward").columns == ["age", "day", "ward", "note"]
    assert t.per_unit("who", n=sf.count()).columns == ["n"]
    assert t.units().columns == ["rows"]


def test_the_shell_shows_tables(lab: sf.Lab) -> None:
    asked = ["ask", "DESCRIBE visits", "--lab", str(lab.folder)]
    assert CliRunner().invoke(main, asked).stdout == f"{DESCRIBED}\n"
    listed = CliRunner().invoke(main, ["ask", "SHOW TABLES", "--lab", str(lab.folder), "--json"])
    assert [each["table"] for each in json.loads(listed.stdout)["tables"]] == ["visits", "names"]
