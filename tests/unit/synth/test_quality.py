"""Quality reports: from released and synthetic data for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

BOUNDS: dict[str, Any] = {
    "age": sf.between(0, 99, step=1),
    "ward": sf.one_of("A", "B", "C"),
    "cost": sf.between(0, 1000),
    "ill": sf.one_of(False, True, missing=False),
}
NAMES = list(BOUNDS)


def make_frame(rows: int = 600) -> pa.Table:
    random = np.random.default_rng(3)
    age = random.integers(0, 100, rows)
    return pa.table(
        {
            "age": age,
            "ward": np.array(["A", "B", "C"])[age // 34],
            "cost": 10.0 * age,
            "ill": age > 50,
            "who": np.arange(rows),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> Any:
    return sf.synth.Marginals(rho=20, bounds=BOUNDS, bins=8, workload=2).fit(make_frame(), columns=NAMES)


def test_a_report_costs_nothing_and_says_what_was_paid_and_what_is_missing(fitted: Any) -> None:
    report = sf.synth.report_quality(fitted, rows=600, target="ill")
    assert isinstance(report, sf.synth.QualityReport)
    text = str(report)
    for part in ("ρ = 20", "single columns", "by noise alone", "trained on synthetic rows", "cannot show"):
        assert part in text
    names = [column.name for column in fitted.cells]
    measured = {tuple(names[at] for at in each.columns) for each in fitted.released.measured}
    assert {each.columns for each in report.distances} == measured
    assert report.mean_distance is not None
    assert report.mean_distance < 0.05, "with little noise the table has the marginals that were released"
    assert report.learning is not None
    assert report.learning.right > 0.9 > report.learning.largest
    assert json.loads(json.dumps(report.to_dict()))["rows"] == 600
    assert any("three columns" in each for each in report.cannot_show)


def test_pairs_that_were_never_measured_are_named() -> None:
    made = sf.synth.Marginals(rho=5, bounds=BOUNDS, bins=8, workload=[("age", "ward")])
    report = sf.synth.report_quality(made.fit(make_frame(), columns=NAMES), rows=100)
    assert any("age and ill" in each for each in report.cannot_show)
    assert not any("age and ward" in each for each in report.cannot_show)


def test_a_report_is_shown_in_notebooks_and_written_to_files(fitted: Any, tmp_path: Path) -> None:
    report = sf.synth.report_quality(fitted, rows=200)
    assert set(report.pictures) == set(NAMES)
    folder = report.save(tmp_path / "report", pictures="json")
    assert {each.name for each in folder.iterdir()} >= {"report.md", "report.json", "picture-1.json"}
    shown = report._repr_html_()
    assert "<table" in shown
    assert "image/png" in shown
    with pytest.raises(SfumatoError, match="SF-U102"):
        report.save(tmp_path / "report", pictures="bmp")


def test_images_have_a_report_with_samples() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 900)
    images = random.random((900, 6, 6)) * 0.2
    images[np.arange(900), 2 * labels] = 0.9
    made = sf.synth.Moments(rho=200, bounds=(0, 1), classes=[0, 1, 2]).fit(images, labels)
    report = sf.synth.report_quality(made, rows=600)
    assert list(report.pictures) == ["samples"]
    assert report.learning is not None
    assert report.learning.right > 0.9
    assert [each.columns for each in report.distances] == [("label",)]
    assert any("Gaussian" in each for each in report.cannot_show)
    with pytest.raises(SfumatoError, match="SF-N606"):
        sf.synth.report_quality(sf.synth.Moments(rho=1))
    with pytest.raises(SfumatoError, match="SF-E138"):
        sf.synth.report_quality(object())


def test_predictions_on_many_rows_and_classes_need_little_memory() -> None:
    import tracemalloc

    from sfumato.synth.quality.additive_classifier import CellClassifier

    made = CellClassifier(1, (np.eye(1024, dtype=np.int64), np.zeros((1024, 1024), dtype=np.int64)))
    cells = np.arange(30_000) % 1024
    tracemalloc.start()
    assert (made.predict([cells, cells]) == cells).all()
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()


def test_a_model_of_synthetic_rows_is_measured_on_the_real_table(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register(
        "visits", make_frame(), unit=sf.Unit("who", max_rows=1), columns=BOUNDS, budget=sf.Budget(60, 1e-6)
    )
    session = lab.session()
    made = session.fit(sf.synth.Marginals(rho=2, bins=8, workload=2), table="visits", columns=NAMES)
    drawn = made.sample(2000, seed=1).to_pandas().dropna()
    model = sf.learn.LogisticRegression(epsilon=100, bounds=([0, 0], [99, 1000]), classes=[False, True])
    model.fit(drawn[["age", "cost"]].astype(float), drawn["ill"].astype(bool))
    assert session.evaluate(model, table="visits", target="ill", epsilon=5).accuracy.value > 0.9
