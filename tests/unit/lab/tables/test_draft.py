"""Drafts of schema files: what was said comes back, and the rest is there to be filled in."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.curator.catalog.schema_file import Schema, read_schema, write_schema
from sfumato.privacy.neighbours import Neighbours

SAID = Schema(
    sf.Unit("who", 3, "people"),
    {
        "age": sf.between(0, 110.25, step=0.25, missing=1, constant=True),
        "cost": sf.between(-1e-7, 1e12),
        "day": sf.between(date(2020, 1, 1), date(2024, 12, 31)),
        "at": sf.between(datetime(2020, 1, 1), datetime(2024, 12, 31, 12, 30)),
        'a "name"': sf.one_of("A", 'B "b"\n', missing="A"),
        "code": sf.one_of(1, 2.5),
        "flag": sf.one_of(True, False),
        "note": sf.text(constant=True),
    },
    sf.Budget(0.3, 1e-7),
    Neighbours.ADD_REMOVE,
    None,
)


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        Schema(sf.PUBLIC, {}, None, Neighbours.ADD_REMOVE, None),
        Schema(sf.ROW, {}, None, Neighbours.REPLACE_ONE, 9),
    ],
)
def test_a_written_schema_says_the_same(said: Schema, tmp_path: Path) -> None:
    file = tmp_path / "said.toml"
    file.write_text(write_schema(said))
    assert read_schema(file) == said


def test_a_draft_is_filled_in_and_registered(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "who,age of all,day,ward,empty\n1,5,2020-01-01,A,\n2,?,2020-01-02,B,\n3,7,x,A,\n"
    )
    lab, schema = sf.create(tmp_path / "lab"), tmp_path / "rows.toml"
    options = [
        "--lab",
        str(lab.folder),
        "--unit",
        "who",
        "--max-rows",
        "1",
        "--one-of",
        "ward",
        "A,B",
        "--epsilon",
        "1",
    ]
    source = str(tmp_path / "rows.csv")
    written = CliRunner().invoke(main, ["table", "draft", source, *options, "--output", str(schema)])
    assert written.exit_code == 0, written.output
    text = schema.read_text()
    assert '# [columns."age of all"]          # mostly numbers\n# between = [LOW, HIGH]' in text
    assert "# [columns.day]          # mostly dates" in text
    assert "# [columns.empty]          # texts" in text
    schema.write_text(
        text.replace('# [columns."age of all"]', '[columns."age of all"]').replace(
            "# between = [LOW, HIGH]", "between = [0, 110]"
        )
    )
    report = lab.register("people", source, schema=schema, confirm_losses=True)
    assert report is not None
    assert list(lab.table("people").columns) == ["ward", "age of all"]
    assert (
        CliRunner().invoke(main, ["table", "draft", source, *options, "--output", str(schema)]).exit_code == 2
    )


def test_kinds_come_from_the_types_of_a_frame(tmp_path: Path) -> None:
    frame = pa.table({"x": [1.5], "day": [date(2020, 1, 1)], "word": ["a"], "list": [[1]]})
    draft = sf.create(tmp_path / "lab").draft_schema(frame)
    assert [line.split("# ")[-1] for line in draft.splitlines() if "[columns" in line] == [
        "numbers",
        "dates",
        "texts",
        "other values",
    ]
    assert "# [unit]" in draft
    assert "# [budget]" in draft


def test_formats_and_not_null_columns_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "id;day;start;cost\n1;31/12/2024;01/02/2024;1.234,50\n2;13/02/2024;03/04/2024;2,5\n"
    )
    lab = sf.create(tmp_path / "lab")
    text = lab.draft_schema(tmp_path / "rows.csv", unit=sf.Unit("id", max_rows=2))
    assert (
        '# [columns.day]          # dates\n# between = [2020-01-01, 2024-12-31]\n# format = "31/12/2024"\n'
        in text
    )
    assert '# format = "31/12/2024" or "12/31/2024"\n' in text.partition("columns.start")[2]
    assert '# format = "1.234,56"' in text.partition("columns.cost")[2]
    whole = pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), False)]))
    assert "# missing = false           # NOT NULL in the source" in lab.draft_schema(whole, unit=sf.ROW)
