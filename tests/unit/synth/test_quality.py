"""Quality reports: from released and synthetic data for nothing, and with a measurement that is charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.errors import SfumatoError
from sfumato.privacy.events import Concentrated
from sfumato.synth.quality.check_kernel import fit_sample_size

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
    assert {each.columns for each in report.distances} == set(fitted.marginals_)
    assert report.mean_distance is not None
    assert report.mean_distance < 0.05, "with little noise the table has the marginals that were released"
    assert report.learning is not None
    assert report.learning.right > 0.9 > report.learning.largest
    assert report.bought is None
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
    with pytest.raises(SfumatoError, match="SF-V102"):
        report.save(tmp_path / "report", pictures="bmp")


def test_a_check_finds_how_far_the_rows_are(fitted: Any) -> None:
    near = sf.synth.report_quality(fitted, rows=600, target="ill", against=make_frame(), rho=1000)
    far_rows = {"age": np.full(600, 7), "ward": ["B"] * 600, "cost": np.zeros(600), "ill": [True] * 600}
    far = sf.synth.report_quality(fitted, rows=600, target="ill", against=far_rows, rho=1000)
    found, others = ({each.name: each for each in report.bought.numbers} for report in (near, far))  # type: ignore[union-attr]
    assert found["2 columns"].value < 0.1 < 0.8 < others["2 columns"].value
    assert found["column ward"].value < 0.05 < 0.5 < others["column ward"].value
    assert found["right"].value > 0.9 > 0.1 > others["right"].value
    assert all(each.low <= each.value <= each.high for each in found.values())
    assert "charged by itself: ρ = 1000" in str(near)


def make_session(folder: Path) -> tuple[Any, Any]:
    lab = sf.create(folder / "lab")
    budget = sf.Budget(epsilon=60, delta=1e-6)
    lab.register("visits", make_frame(), unit=sf.Unit("who", max_rows=1), columns=BOUNDS, budget=budget)
    session = lab.session()
    made = sf.synth.Marginals(rho=0.5, bins=8, workload=2)
    return session, session.fit(made, table="visits", columns=NAMES)


def test_a_table_is_measured_for_a_charge_and_again_for_nothing(tmp_path: Path) -> None:
    session, fitted = make_session(tmp_path)
    before = str(session.budget)
    first = session.report(fitted, table="visits", target="ward", rho=0.1, rows=300)
    charged = str(session.budget)
    assert charged != before
    assert session.report(fitted, table="visits", target="ward", rho=0.1, rows=300).bought == first.bought
    assert str(session.budget) == charged
    assert first.bought.guarantee.rho == pytest.approx(0.1)


def test_what_cannot_be_measured_is_refused_before_the_charge(tmp_path: Path, fitted: Any) -> None:
    session, made = make_session(tmp_path)
    before = str(session.budget)
    asked: list[tuple[Any, dict[str, Any], str]] = [
        (made, {}, "SF-E232"),
        (made, {"rho": 0.1, "target": "other"}, "SF-E231"),
        (made, {"rho": 1e-30}, "SF-N"),
        (made, {"rho": 0.1, "confidence": 2}, "SF-N204"),
        (sf.synth.Moments(epsilon=1, delta=1e-6), {"rho": 0.1}, "SF-E231"),
        (sf.synth.Marginals(rho=1), {"rho": 0.1}, "SF-E207"),
    ]
    for generator, spend, code in asked:
        with pytest.raises(SfumatoError, match=code):
            session.report(generator, table="visits", **spend)
    other = {**BOUNDS, "age": sf.between(0, 50, step=1)}
    strange = sf.synth.Marginals(rho=5, bounds=other, bins=8).fit(make_frame(), columns=NAMES)
    with pytest.raises(SfumatoError, match="SF-E231"):
        session.report(strange, table="visits", rho=0.1)
    assert str(session.budget) == before


@pytest.mark.parametrize("spend", [{"rho": 0.5}, {"epsilon": 1}])
def test_a_check_moves_by_no_more_than_its_price(fitted: Any, spend: dict[str, Any]) -> None:
    frame = make_frame(40).select(NAMES)

    def run(rows: pa.Table) -> Any:
        report = sf.synth.report_quality(fitted, rows=50, target="ward", against=rows, **spend)
        return [each.value for each in report.bought.numbers]  # type: ignore[union-attr]

    claim = Concentrated(0.5) if "rho" in spend else sf.privacy.Pure(1)
    pairs = [(frame, frame.slice(1)), (frame.slice(0, 1), frame.slice(0, 0))]
    found = audit.replay(run, pairs, claim=claim)
    assert not found.violates, found
    assert found.reached == 1


def test_a_check_that_counts_each_sum_as_one_marginal_is_caught(
    fitted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.synth.quality.check_kernel import CheckKernel

    monkeypatch.setattr(CheckKernel, "price_number", lambda self, name: self.currency)
    frame = make_frame(40).select(NAMES)

    def run(rows: pa.Table) -> Any:
        return sf.synth.report_quality(fitted, rows=50, against=rows, rho=0.5).bought

    assert audit.replay(run, [(frame, frame.slice(1))], claim=Concentrated(0.5)).violates


def test_images_have_a_report_with_samples_and_a_charged_score() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 900)
    images = random.random((900, 6, 6)) * 0.2
    images[np.arange(900), 2 * labels] = 0.9
    made = sf.synth.Moments(rho=200, bounds=(0, 1), classes=[0, 1, 2]).fit(images, labels)
    report = sf.synth.report_quality(made, rows=600, against=(images, labels), rho=100)
    assert list(report.pictures) == ["samples"]
    assert report.learning is not None
    assert report.learning.right > 0.9
    assert report.bought is not None
    (right,) = report.bought.numbers
    assert right.value > 0.9
    assert [each.columns for each in report.distances] == [("label",)]
    assert any("Gaussian" in each for each in report.cannot_show)
    with pytest.raises(SfumatoError, match="SF-E231"):
        sf.synth.report_quality(made, against=(images[:, :3], labels), rho=1)
    with pytest.raises(SfumatoError, match="SF-E217"):
        sf.synth.report_quality(sf.synth.Moments(rho=1))
    with pytest.raises(SfumatoError, match="SF-E231"):
        sf.synth.report_quality(object())


def test_large_tables_are_compared_with_fewer_rows_that_stand_for_several() -> None:
    assert fit_sample_size(1000.4) == (1000, 1)
    rows, each = fit_sample_size(10**6)
    assert rows * each == pytest.approx(10**6, rel=0.01)
    assert rows <= 2**17


def fit_moments(rows: int = 300) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    vectors, labels = random.normal(0, 1, (rows, 3)), random.integers(0, 2, rows)
    return sf.synth.Moments(rho=1, bounds=(-4, 4), classes=[0, 1]).fit(vectors, labels), vectors, labels


def test_labels_that_are_a_column_are_not_compared_with_every_row() -> None:
    made, vectors, labels = fit_moments()
    for strange in (labels[:, None], np.stack([labels, labels], axis=1)):
        with pytest.raises(SfumatoError, match="SF-E231"):
            sf.synth.report_quality(made, against=(vectors, strange), rho=1)


def test_what_is_predicted_for_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    from sfumato.synth.quality.additive_classifier import LinearClassifierOfRows

    random = np.random.default_rng(0)
    weights = random.normal(size=(66, 2))
    across = weights[:-1, 0] - weights[:-1, 1]
    rows = random.normal(size=(300, 65))
    for _ in range(3):  # onto the border between both classes, where rounding decides
        rows -= ((rows @ across + weights[-1, 0] - weights[-1, 1]) / (across @ across))[:, None] * across
    made = LinearClassifierOfRows(weights)
    alone = np.concatenate([made.predict(rows[at : at + 1]) for at in range(len(rows))])
    assert 0 < alone.sum() < len(rows)
    assert (made.predict(rows) == alone).all()


def test_measurements_without_an_account_are_counted_with_the_fits() -> None:
    made, vectors, labels = fit_moments()
    report = sf.synth.report_quality(made, against=(vectors, labels), epsilon=1, delta=1e-6)
    assert "2 fits and measurements" in report.bought.guarantee.others  # type: ignore[union-attr]
    table = sf.synth.Marginals(epsilon=1, delta=1e-6, bounds=BOUNDS, bins=4, method="mst")
    table.fit(make_frame(50), columns=NAMES)
    assert not table.guarantee_.others
    again = sf.synth.report_quality(table, rows=50, against=make_frame(50), epsilon=1, delta=1e-6)
    assert "2 fits and measurements" in again.bought.guarantee.others  # type: ignore[union-attr]


def test_what_cannot_be_reported_is_refused_before_an_account_pays(tmp_path: Path, fitted: Any) -> None:
    class Drawing:
        def sample(self, rows: int, seed: int | None = None) -> tuple[Any, Any]:
            return np.zeros((rows, 3)), np.arange(rows) % 2

    made, vectors, labels = fit_moments()
    account = sf.learn.Account(tmp_path / "own.ledger", epsilon=10, delta=1e-6)
    before = str(account)
    asked: list[tuple[Any, Any, dict[str, Any]]] = [
        (made, (vectors, labels), {"confidence": 1}),
        (fitted, make_frame(), {"confidence": -1}),
        (Drawing(), (vectors, labels), {}),
    ]
    for generator, against, more in asked:
        with pytest.raises(SfumatoError):
            sf.synth.report_quality(generator, against=against, epsilon=1, budget=account, **more)
    assert str(account) == before


def test_predictions_on_many_rows_and_classes_need_little_memory() -> None:
    import tracemalloc

    from sfumato.synth.quality.additive_classifier import CellClassifier

    made = CellClassifier(1, (np.eye(1024, dtype=np.int64), np.zeros((1024, 1024), dtype=np.int64)))
    cells = np.arange(30_000) % 1024
    tracemalloc.start()
    assert (made.predict([cells, cells]) == cells).all()
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()


def test_a_slot_is_longer_where_a_column_of_many_values_is_predicted() -> None:
    from sfumato.synth.quality.reporting import read_check_budget
    from sfumato.synth.quality.table_quality import TableQuality
    from sfumato.synth.spending import Currency

    bounds = {"code": sf.one_of(*range(2000)), "ill": sf.one_of(False, True)}
    made = sf.synth.Marginals(rho=1, bounds=bounds, method="mst").fit({"code": [1, 2], "ill": [True, False]})
    passes = {
        target: TableQuality(made, 20, 0, target)
        .make_check(read_check_budget({"rho": 1}), Currency(True))
        .passes
        for target in (None, "ill", "code")
    }
    assert passes[None] <= passes["ill"] < passes["code"] / 3
