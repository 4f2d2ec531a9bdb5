"""Files as people have them: other delimiters, other encodings, dates and numbers in other formats."""

from __future__ import annotations

import random
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

import sfumato as sf
from sfumato.errors import UsageError

pytestmark = pytest.mark.usefixtures("usual_losses")
DAYS = sf.between(date(2020, 1, 1), date(2025, 12, 31))
COSTS = sf.between(0, 4096)
ROWS = 400


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


def said(**columns: Any) -> dict[str, Any]:
    return {"unit": sf.ROW, "columns": columns, "budget": sf.Budget(epsilon=1000)}


def write_days(path: Path, form: str, last: int = 28) -> Path:
    """A file of days in some form; no day of a month is beyond `last`."""
    draw = random.Random(1)
    days = [date(2024, draw.randint(1, 12), draw.randint(1, last)) for _ in range(ROWS)]
    lines = "".join(f'"{day.strftime(form)}"\n' for day in days)
    path.write_text(f"day\n{lines}")
    return path


def average(lab: sf.Lab, figure: str) -> float:
    """An average that noise does not change in the digits that are compared."""
    answer = lab.session().sql(f"SELECT AVG({figure}) AS a FROM t").release(epsilon=900)
    return float(answer.to_arrow()["a"][0].as_py())


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("%Y-%m-%d", ""),
        ("%d/%m/%Y", "31/12/2024"),
        ("%d.%m.%Y", "31/12/2024"),
        ("%m/%d/%Y", "12/31/2024"),
        ("%m/%d/%Y 02:30 PM", "12/31/2024"),
        ("%d.%m.%y", "31/12/24"),
        ("%m/%d/%y 2:30 PM", "12/31/24"),
        ("%Y/%m/%d", "2024/12/31"),
        ("%Y%m%d", "20241231"),
        ("%d %b %Y", "31 Dec 2024"),
        ("%d-%B-%Y", "31 Dec 2024"),
        ("%b %d %Y", "Dec 31 2024"),
        ("%B %d, %Y", "Dec 31 2024"),
    ],
)
def test_dates_are_read_in_the_form_of_the_whole_column(
    lab: sf.Lab, tmp_path: Path, form: str, name: str
) -> None:
    report = lab.register("t", write_days(tmp_path / "days.csv", form), **said(day=DAYS))
    assert report is not None
    assert report.to_dict()["columns"]["day"]["unreadable"] == 0
    assert report.to_dict()["reading"] == ([f"'day' is read as written like {name}."] if name else [])
    assert name in str(report)
    plain = write_days(tmp_path / "plain.csv", "%Y-%m-%d")
    truth = pyarrow.csv.read_csv(plain)["day"].to_pylist()
    day = sum(each.timetuple().tm_yday for each in truth) / ROWS
    assert average(lab, "EXTRACT(doy FROM day)") == pytest.approx(day, abs=0.5)


def test_an_order_that_no_day_decides_is_asked_for(lab: sf.Lab, tmp_path: Path) -> None:
    file = write_days(tmp_path / "days.csv", "%d/%m/%Y", last=12)
    for register in (lab.register, lab.check):
        with pytest.raises(UsageError, match="'day' can be read in two ways") as refused:
            register("t", file, **said(day=DAYS))
        assert refused.value.code == "SF-C250"
        assert 'format="31/12/2024"' in str(refused.value)
    assert lab.tables() == ()
    for name in ("31/12/2024", "12/31/2024"):
        declared = sf.between(date(2020, 1, 1), date(2025, 12, 31), format=name)
        assert lab.check("t", file, **said(day=declared)).losses() == []


def test_few_days_beyond_the_twelfth_do_not_decide_the_order(lab: sf.Lab, tmp_path: Path) -> None:
    """One person more or less can make sfumato ask, and never turn one order into the other."""
    file = write_days(tmp_path / "days.csv", "%d/%m/%Y", last=12)
    text = file.read_text()
    file.write_text(text + "31/12/2024\n" * 40)  # 9.1 % of the values
    with pytest.raises(UsageError) as refused:
        lab.register("t", file, **said(day=DAYS))
    assert refused.value.code == "SF-C250"
    file.write_text(text + "31/12/2024\n" * 50)  # 11.1 %
    lab.register("t", file, **said(day=DAYS))
    assert lab.table("t").columns["day"].format == "31/12/2024"  # type: ignore[union-attr]


def test_plain_numbers_that_nearly_fit_are_not_read_otherwise(lab: sf.Lab, tmp_path: Path) -> None:
    """1.234 is a number in both formats, so a few texts such as 1.234.567 must not decide."""
    (tmp_path / "costs.csv").write_text("cost\n" + "1.234\n" * 92 + "1.234.567\n" * 8)
    with pytest.raises(UsageError, match="'cost': 8 values") as refused:
        lab.register("t", tmp_path / "costs.csv", **said(cost=COSTS))
    assert refused.value.code == "SF-C249"
    assert "format=" in str(refused.value)


def test_a_form_that_was_found_holds_for_later_snapshots(lab: sf.Lab, tmp_path: Path) -> None:
    lab.register("t", write_days(tmp_path / "days.csv", "%d/%m/%Y"), **said(day=DAYS))
    lab.advance("t", write_days(tmp_path / "days.csv", "%d/%m/%Y", last=12))  # ambiguous by itself
    with pytest.raises(UsageError, match="not readable as a date") as refused:
        lab.advance("t", write_days(tmp_path / "days.csv", "%m/%d/%Y"))
    assert refused.value.code == "SF-C249"
    assert lab.table("t").snapshot == 2
    assert sf.open(lab.folder).table("t").columns == lab.table("t").columns


def test_analysts_see_no_format_and_no_count(lab: sf.Lab, tmp_path: Path) -> None:
    lab.register("t", write_days(tmp_path / "days.csv", "%d/%m/%Y"), **said(day=DAYS))
    session = lab.session()
    assert "31/12" not in f"{session.tables['t']}{session.tables.to_dict()}{session.table('t')!r}"


@pytest.mark.parametrize(
    ("texts", "mean", "name"),
    [
        (["1.234,50", "2,25", "3.000"], 1412.25, "1.234,56"),
        (["1234,5", "2,25", "3"], 413.25, "1.234,56"),
        (["1,234.50", "2.25", "3,000"], 1412.25, "1,234.56"),
        (["1 234,50", "2,25", "3\u00a0000"], 1412.25, "1.234,56"),
        (["1234.50", "2.25", "3e3"], 1412.25, ""),
    ],
)
def test_thousands_and_decimal_commas_are_read(
    lab: sf.Lab, tmp_path: Path, texts: list[str], mean: float, name: str
) -> None:
    (tmp_path / "costs.csv").write_text("cost\n" + "".join(f'"{text}"\n' for text in texts * 100))
    report = lab.register("t", tmp_path / "costs.csv", **said(cost=COSTS))
    assert report is not None
    assert report.to_dict()["reading"] == ([f"'cost' is read as written like {name}."] if name else [])
    assert average(lab, "cost") == pytest.approx(mean, abs=1)


def test_commas_that_can_be_two_things_are_asked_about(lab: sf.Lab, tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text("cost\n" + '"1,234"\n"12,500"\n' * 100)
    with pytest.raises(UsageError, match="'cost' can be read in two ways") as refused:
        lab.register("t", tmp_path / "costs.csv", **said(cost=COSTS))
    assert refused.value.code == "SF-C250"
    lab.register("t", tmp_path / "costs.csv", **said(cost=sf.between(0, 2**15, format="1,234.56")))
    assert average(lab, "cost") == pytest.approx(6867, abs=5)


def test_formats_that_do_not_exist_are_refused() -> None:
    for wrong in ("%d/%m/%Y", "1.234,56"):
        with pytest.raises(UsageError, match="format is not known") as refused:
            sf.between(date(2020, 1, 1), date(2025, 12, 31), format=wrong)
        assert refused.value.code == "SF-C114"
    with pytest.raises(UsageError, match="format is not known"):
        sf.between(0, 1, format="31/12/2024")


TOWNS = ["Köln", "Málaga", "Besançon"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_files_of_other_encodings_and_delimiters_are_read_and_named(
    lab: sf.Lab, tmp_path: Path, encoding: str, delimiter: str
) -> None:
    lines = [["größe", "town", "note, if any"]]
    lines += [[str(i % 7), TOWNS[i % 3], '"a; b, c|d\te"'] for i in range(300)]
    file = tmp_path / "towns.csv"
    file.write_text("".join(delimiter.join(map(_quoted, line)) + "\n" for line in lines), encoding=encoding)
    declared = {"größe": sf.between(0, 9, step=1), "town": sf.one_of(*TOWNS), "note, if any": sf.text()}
    report = lab.register("t", file, **said(**declared))
    assert report is not None
    assert report.warnings() == []
    assert report.losses() == []
    named = str(report)
    assert ("Latin-1" in named) == (encoding == "latin-1")
    words = {",": None, ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
    assert [word for word in words.values() if word and f"separated by {word}" in named] == [
        word for word in [words[delimiter]] if word
    ]
    sql = "SELECT town, COUNT(*) AS n FROM t WHERE town IS NOT NULL GROUP BY town"
    counts = lab.session().sql(sql).release(epsilon=900)
    assert {row["town"]: round(row["n"]) for row in counts.to_arrow().to_pylist()} == dict.fromkeys(
        TOWNS, 100
    )


def _quoted(field: str) -> str:
    return field if field.startswith('"') or "," not in field else f'"{field}"'


def test_a_file_of_two_encodings_is_refused(lab: sf.Lab, tmp_path: Path) -> None:
    """One row does not change how the others are read."""
    text = "town\n" + "Köln\n" * 300
    for content, why in (
        (text.encode() + "Málaga\n".encode("latin-1"), "some of its lines are not UTF-8"),
        (text.encode("utf-16"), "it is UTF-16"),
    ):
        (tmp_path / "towns.csv").write_bytes(content)
        with pytest.raises(UsageError, match="cannot be read") as refused:
            lab.register("t", tmp_path / "towns.csv", **said(town=sf.one_of(*TOWNS)))
        assert why in str(refused.value)


def test_a_german_export_is_read_at_once(lab: sf.Lab, tmp_path: Path) -> None:
    draw = random.Random(2)
    lines = [
        f"{i % 50};{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.2024;{draw.randint(1, 3)}.250,50;"
        for i in range(ROWS)
    ]
    lines = [line + TOWNS[i % 3] for i, line in enumerate(lines)]
    (tmp_path / "export.csv").write_text("\n".join(["Kunde;Tag;Betrag;Ort", *lines]), encoding="latin-1")
    declared = {"Tag": DAYS, "Betrag": COSTS, "Ort": sf.one_of(*TOWNS)}
    unit = sf.Unit("Kunde", max_rows=20)
    report = lab.register("t", tmp_path / "export.csv", **{**said(**declared), "unit": unit})
    assert report is not None
    assert report.to_dict()["reading"] == [
        "The fields of the file are separated by semicolons.",
        "The file is read as Latin-1, as it is not UTF-8.",
        "'Tag' is read as written like 31/12/2024.",
        "'Betrag' is read as written like 1.234,56.",
    ]
    assert report.losses() == []


def test_moments_with_a_zone_are_in_utc(lab: sf.Lab, tmp_path: Path) -> None:
    (tmp_path / "moments.csv").write_text(
        "at\n" + "2024-06-01T23:30:00+02:00\n2024-06-01 21:30 UTC\n2024-06-01T21:30:00Z\n" * 50
    )
    at = sf.between(datetime(2024, 1, 1), datetime(2025, 1, 1))
    report = lab.register("t", tmp_path / "moments.csv", **said(at=at))
    assert report is not None
    assert report.to_dict()["columns"]["at"]["unreadable"] == 0
    assert average(lab, "EXTRACT(hour FROM at)") == pytest.approx(21, abs=0.5)
