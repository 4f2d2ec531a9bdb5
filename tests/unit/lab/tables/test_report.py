"""The steward's report goes to the steward: no file of the lab and no session holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, StewardWarning

LOST = 1237
ROWS = pa.table({"sex": ["1"] * LOST + ["F"] * 400, "age": [50] * (LOST + 400)})
SAID = {
    "unit": sf.ROW,
    "columns": {"sex": sf.one_of("M", "F"), "age": sf.between(0, 110)},
    "budget": sf.Budget(1),
}


def test_the_counts_are_returned_and_kept_nowhere(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    with pytest.warns(StewardWarning, match=r"'sex': 1,237 values \(76 %\) not in its list"):
        report = lab.register("people", ROWS, **SAID, confirm_losses=True)  # type: ignore[arg-type]
    assert report is not None
    assert report.to_dict()["columns"]["sex"]["unlisted"] == LOST
    assert "1,237" in report._repr_html_()
    told = (b"1237", b"1,237", b"unlisted", b"StewardWarning")
    for file in (each for each in lab.folder.rglob("*") if each.is_file() and each.suffix != ".duckdb"):
        assert not any(word in file.read_bytes() for word in told), file.name
    lab.grant("ada", epsilon=0.5)
    s = lab.session("ada")
    shown = [str(s.tables), repr(s.table("people")), json.dumps(s.tables.to_dict()), repr(s), str(s.budget)]
    with pytest.raises(PolicyError) as refused:
        s.sql("SELECT sex FROM people")
    assert not any("237" in text for text in [*shown, str(refused.value)])


def test_a_declaration_that_fits_gives_no_warning(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    fits = SAID | {"columns": {"sex": sf.one_of("1", "F"), "age": sf.between(0, 110)}}
    report = lab.register("people", ROWS, **fits)  # type: ignore[arg-type]
    assert report is not None
    assert report.warnings() == []
    empty = lab.check("none", ROWS.slice(0, 0), **SAID)  # type: ignore[arg-type]
    assert str(empty).startswith("none: 0 rows read.")
