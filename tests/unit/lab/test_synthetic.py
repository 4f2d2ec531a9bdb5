"""Published synthetic tables, twins that are bought, and labs of twins to rehearse in."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, parquet

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import SfumatoError
from waiting import PATIENCE

COLUMNS: dict[str, Any] = {
    "age": sf.between(0, 99, step=1),
    "ward": sf.one_of("A", "B", "C"),
    "ill": sf.one_of(False, True, missing=False),
    "day": sf.between(date(2020, 1, 1), date(2020, 12, 31)),
    "note": sf.text(),
}
NAMES = ["age", "ward", "ill"]


def make_rows(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(2)
    age = random.integers(0, 100, rows)
    return pa.table(
        {
            "age": age,
            "ward": np.where(age > 50, "A", "B"),
            "ill": age > 50,
            "day": pa.array([date(2020, 3, 1)] * rows),
            "note": ["secret words"] * rows,
            "who": np.arange(rows) // 2,
        }
    )


def make_lab(folder: Path, **more: Any) -> sf.Lab:
    lab = sf.create(folder / "lab")
    unit = sf.Unit("who", max_rows=2)
    budget = sf.Budget(epsilon=60, delta=1e-6)
    lab.register("visits", make_rows(), unit=unit, columns=COLUMNS, budget=budget, **more)
    lab.grant("ada", epsilon=5, delta=1e-7)
    return lab


# ---- publishing --------------------------------------------------------------------------------------------


def test_a_table_is_published_once_and_is_the_same_file_for_everyone(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    asked: dict[str, Any] = {"table": "visits", "columns": NAMES, "rows": 50, "key": "id"}
    first = lab.publish(sf.synth.Marginals(rho=0.5), **asked)
    spent = str(lab.budget)
    again = lab.publish(sf.synth.Marginals(rho=0.5), **asked)
    assert str(lab.budget) == spent
    assert again.read().equals(first.read())
    assert first.read().column_names == ["id", *NAMES]
    (theirs,) = lab.session("ada").published()
    assert theirs.read().equals(first.read())
    assert lab.publish(sf.synth.Marginals(rho=0.5), **{**asked, "rows": 60}).read().num_rows == 60
    assert str(lab.budget) == spent, "other rows of the same synthesis cost nothing"


def test_a_published_table_is_saved_with_its_card(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    found = lab.publish(
        sf.synth.Marginals(rho=0.5), table="visits", columns=NAMES, rows=50, name="open_visits"
    )
    assert parquet.read_table(found.save(tmp_path / "open.parquet")).equals(found.read())
    assert csv.read_csv(found.save(tmp_path / "open.csv")).num_rows == 50
    card = json.loads((tmp_path / "open.card.json").read_text())
    assert card["name"] == "open_visits"
    assert card["guarantee"]["rho"] == 0.5
    assert {each["for"] for each in card["split"]} >= {"single columns", "marginals"}
    assert card["cannot_show"]
    assert card["published"] == found.day.isoformat()
    text = (tmp_path / "open.card.md").read_text()
    for part in ("open_visits", "ρ = 0.5", "cannot show", "one who"):
        assert part in text
    with pytest.raises(SfumatoError, match="SF-U102"):
        found.save(tmp_path / "open.xlsx")


def test_a_published_table_outlives_its_snapshot(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    found = lab.publish(sf.synth.Marginals(rho=0.5), table="visits", columns=NAMES, rows=20)
    assert found.is_current
    lab.advance("visits", make_rows(100))
    (later,) = sf.open(tmp_path / "lab").published()
    assert not later.is_current
    assert "has changed since" in str(later)
    assert later.read().equals(found.read())


def test_a_synthesis_that_was_fitted_before_is_published_for_nothing(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    fitted = lab.session().fit(sf.synth.Marginals(rho=0.5), table="visits", columns=NAMES)
    spent = str(lab.budget)
    assert lab.publish(fitted, rows=30).read().num_rows == 30
    assert str(lab.budget) == spent


def test_what_this_lab_has_not_charged_is_not_published(tmp_path: Path) -> None:
    lab, other = make_lab(tmp_path), make_lab(tmp_path / "other")
    own = sf.synth.Marginals(rho=0.5, bounds={"age": COLUMNS["age"]}).fit({"age": np.arange(50)})
    foreign = other.session().fit(sf.synth.Marginals(rho=0.5), table="visits", columns=NAMES)
    for made in (own, foreign):
        with pytest.raises(SfumatoError, match="SF-E260"):
            lab.publish(made)
    with pytest.raises(SfumatoError, match="SF-N606"):
        lab.publish(sf.synth.Marginals(rho=0.5))
    with pytest.raises(SfumatoError, match="SF-N606"):
        lab.publish(sf.synth.Twin())
    assert lab.published() == ()


def test_what_several_publish_at_once_is_charged_once(tmp_path: Path) -> None:
    lab, alone = make_lab(tmp_path), make_lab(tmp_path / "alone")
    asked: dict[str, Any] = {"table": "visits", "columns": NAMES, "rows": 20}
    alone.publish(sf.synth.Marginals(rho=0.5), **asked)
    begin = Barrier(3, timeout=PATIENCE)

    def publish(_: int) -> pa.Table:
        begin.wait()
        return lab.publish(sf.synth.Marginals(rho=0.5), **asked).read()

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(publish, range(3)))
    assert all(each.equals(found[0]) for each in found)
    assert str(lab.budget) == str(alone.budget)
    assert len(lab.published()) == 1


def test_what_cannot_be_published_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    before = str(lab.budget)
    with pytest.raises(SfumatoError, match="SF-E110"):
        lab.publish(sf.synth.Marginals(rho=0.5), table="visits", columns=NAMES, key="age")
    strange: Any = sf.learn.KMeans(2, epsilon=1)
    with pytest.raises(SfumatoError, match="SF-E260"):
        lab.publish(strange, table="visits", columns=["age"])
    assert str(lab.budget) == before


# ---- twins -------------------------------------------------------------------------------------------------


def correlation(rows: Any) -> float:
    ward, ill = rows["ward"].to_pylist(), rows["ill"].to_pylist()
    pairs = [(one == "A", other) for one, other in zip(ward, ill, strict=True) if one is not None]
    return float(np.mean([one == other for one, other in pairs]))


def test_a_bought_twin_has_pairs_of_columns_and_no_text_of_the_rows(tmp_path: Path) -> None:
    session = make_lab(tmp_path).session()
    before = str(session.budget)
    free = session.twin("visits", 300, seed=0)
    assert str(session.budget) == before
    bought = session.twin("visits", 300, seed=0, rho=5)
    assert str(session.budget) != before
    assert free.schema.names == bought.schema.names == ["who", *COLUMNS]
    assert free.schema.types == bought.schema.types
    assert correlation(bought) > 0.9 > 0.7 > correlation(free)
    assert "secret words" not in bought["note"].to_pylist()
    assert bought["who"].to_pylist()[:4] == [1, 1, 2, 2]


def test_a_twin_at_registration_is_for_everyone(tmp_path: Path) -> None:
    lab = make_lab(tmp_path, twin=sf.synth.Twin(rho=5))
    ada = lab.session("ada")
    before = str(ada.budget), str(lab.budget)
    found = ada.twin("visits")
    assert correlation(found) > 0.9
    assert found.equals(ada.twin("visits")), "it is one file"
    assert ada.twin("visits", 70, seed=1).num_rows == 70
    assert correlation(ada.twin("visits", 200, seed=1)) > 0.9
    assert (str(ada.budget), str(lab.budget)) == before


def test_a_twin_of_the_schema_alone_costs_nothing_at_registration(tmp_path: Path) -> None:
    lab, other = make_lab(tmp_path, twin=sf.synth.Twin()), make_lab(tmp_path / "without")
    (found,) = lab.published()
    assert "costs nothing" in str(found)
    assert str(lab.budget) == str(other.budget)


def test_what_has_no_twin_is_refused(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    session = lab.session()
    for asked in (
        {"table": "visits", "columns": ["age"]},
        {"table": session.table("visits").where("age > 3")},
    ):
        with pytest.raises(SfumatoError, match="SF-E260"):
            session.fit(sf.synth.Twin(rho=1), **asked)
    lab.register(
        "texts",
        pa.table({"note": ["a"]}),
        unit=sf.ROW,
        columns={"note": sf.text()},
        budget=sf.Budget(epsilon=1),
    )
    with pytest.raises(SfumatoError, match="SF-E101"):
        session.fit(sf.synth.Twin(epsilon=1), table="texts")
    with pytest.raises(SfumatoError, match="SF-N606"):
        sf.synth.Twin().sample(5)


# ---- rehearsals --------------------------------------------------------------------------------------------


def test_questions_and_models_are_rehearsed_for_nothing(tmp_path: Path) -> None:
    lab = make_lab(tmp_path)
    lab.register("wards", pa.table({"ward": ["A", "B"]}), unit=sf.PUBLIC, columns={"ward": COLUMNS["ward"]})
    real = lab.session("ada")
    before = str(real.budget)
    rehearsal = real.rehearse(tmp_path / "rehearsal", rows=200)
    assert rehearsal.tables.to_dict().keys() == real.tables.to_dict().keys()
    assert str(rehearsal.budget) == before, "quotas are those that were granted"
    ask = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    assert rehearsal.sql(ask).release(epsilon=1).all_groups().to_arrow().num_rows == 4
    model = sf.learn.LogisticRegression(epsilon=1)
    rehearsal.fit(model, table="visits", features=["age"], target="ill")
    assert str(real.budget) == before
    assert str(rehearsal.budget) != before


def test_a_rehearsal_keeps_the_public_number_of_rows(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register(
        "votes",
        pa.table({"age": np.arange(60)}),
        unit=sf.ROW,
        columns={"age": COLUMNS["age"]},
        budget=sf.Budget(epsilon=3),
        neighbours=sf.REPLACE_ONE,
        rows=60,
    )
    session = lab.session().rehearse(tmp_path / "rehearsal", rows=10)
    assert session.sql("SELECT COUNT(*) AS n FROM votes").release(epsilon=1).to_arrow()["n"].to_pylist() == [
        60
    ]


# ---- at the shell ------------------------------------------------------------------------------------------


def invoke(lab: sf.Lab, *typed: str) -> Any:
    return CliRunner().invoke(main, [typed[0], *typed[1:], "--lab", str(lab.folder)])


def test_the_command_publishes_reports_and_writes_step_by_step(tmp_path: Path) -> None:
    lab, target, report = make_lab(tmp_path), tmp_path / "drawn.parquet", tmp_path / "report"
    given = ["synth", "visits", "--columns", "ward,ill", "--rho", "0.5", "--rows", "40", "--publish", "open"]
    more = ["--output", str(target), "--report", str(report), "--target", "ill"]
    done = invoke(lab, *given, *more)
    assert done.exit_code == 0, done.output
    for step in ("1/5 planned", "2/5 charged", "3/5 published as open", "4/5 written", "5/5 report"):
        assert step in done.output
    assert parquet.read_table(target).equals(lab.published()[0].read())
    assert "trained on synthetic rows" in (report / "report.md").read_text()
    assert (tmp_path / "drawn.card.md").exists()
    spent = str(lab.budget)
    assert invoke(lab, *given, *more).exit_code == 0
    assert str(lab.budget) == spent
    shown = invoke(lab, "published")
    assert "open: a synthetic table of 'visits', 40 rows" in shown.output
    copied = invoke(lab, "published", "--save", "open", "--output", str(tmp_path / "copy.csv"))
    assert copied.exit_code == 0, copied.output
    assert csv.read_csv(tmp_path / "copy.csv").num_rows == 40
    assert "SF-U101" in invoke(lab, "published", "--save", "other").output


def test_the_command_writes_a_twin_for_nothing_or_for_what_is_typed(tmp_path: Path) -> None:
    lab, target = make_lab(tmp_path), tmp_path / "twin.csv"
    spent = str(lab.budget)
    assert "free" in invoke(lab, "synth", "visits", "--twin").output
    done = invoke(lab, "synth", "visits", "--twin", "--rows", "9", "--output", str(target))
    assert done.exit_code == 0, done.output
    assert csv.read_csv(target).column_names == ["who", *COLUMNS]
    assert str(lab.budget) == spent
    bought = invoke(lab, "synth", "visits", "--twin", "--rho", "0.5", "--publish", "stand_in", "--json")
    assert bought.exit_code == 0, bought.output
    assert str(lab.budget) != spent
    assert lab.session("ada").twin("visits").equals(lab.published()[0].read())


@pytest.mark.parametrize(
    "typed",
    [
        ["--rho", "1"],
        ["--twin", "--columns", "age"],
        ["--columns", "age", "--publish", "x", "--as", "ada"],
        ["--columns", "age", "--report", "r"],
        ["--columns", "age", "--output", "x.csv", "--target", "age"],
        ["--twin", "--output", "x.csv", "--report", "r"],
    ],
)
def test_options_that_do_not_go_together_are_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = make_lab(tmp_path)
    spent = str(lab.budget)
    refused = invoke(lab, "synth", "visits", *typed)
    assert (refused.exit_code, "SF-U104" in refused.output) == (2, True), refused.output
    assert str(lab.budget) == spent
