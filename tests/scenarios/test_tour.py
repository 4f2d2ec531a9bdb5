"""The tour as people type it: from a parquet file to a private answer and its receipt."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli import clinic
from sfumato.errors import BudgetError, PolicyError, UsageError


def test_the_query_lines_of_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(clinic.visits(), "visits.parquet")

    lab = sf.create("clinic")
    lab.register("visits", "visits.parquet",
        unit=sf.Unit("patient_id", max_rows=20),
        columns={"age": sf.between(0, 110), "cost": sf.between(0, 5000), "ward": sf.one_of("A", "B", "C"),
                 "readmitted": sf.one_of(0, 1)},
        budget=sf.Budget(epsilon=4, delta=1e-7))  # fmt: skip
    lab.grant("ada", epsilon=1, delta=1e-8)

    s = lab.session("ada")
    q = s.sql("SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward")
    quote = q.quote(epsilon=0.1)
    by_error = q.quote(error={"n": 25})
    r = q.release(epsilon=0.1)

    assert by_error.error()["n"] is not None
    assert by_error.error()["n"] <= 25
    assert "ε = 0.1" in str(quote)
    assert r.to_arrow().column_names == ["ward", "n", "cost"]
    assert r.to_arrow()["ward"].to_pylist() == ["A", "B", "C", None]
    assert r.to_pandas().shape == (4, 3)
    assert r.to_polars().shape == (4, 3)
    assert r.interval(0.95).column_names == ["ward", "n_low", "n_high", "cost_low", "cost_high"]
    assert r.receipt.entry > 0
    assert r.plot().to_json()
    assert r.refine(epsilon=0.1).to_arrow().column_names == ["ward", "n", "cost"]
    assert "remaining" in str(s.budget)

    t = s.table("visits")
    shared = t.where("age >= 65").group_by("ward").agg(
        n=sf.count(), cost=sf.mean("cost"), mid=sf.quantile("cost", .5)).release(share=0.02)  # fmt: skip
    assert shared.to_arrow().column_names == ["ward", "n", "cost", "mid"]
    assert set(t.top("ward", k=2).release(epsilon=0.01)) < {"A", "B", "C"}
    assert list(t.partition("ward")) == ["A", "B", "C"]
    assert t.distance("COUNT(*) >= 100").release(epsilon=0.01).receipt.entry > 0
    assert 0 <= t.subsample(sf.median("cost"), blocks=50).release(epsilon=0.01).value <= 5000
    assert 0 <= s.oracle("visits", epsilon=0.1).mean("age >= 65").value <= 1
    assert lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=0.01).receipt.entry > 0

    again = sf.open("clinic").session("ada").sql(
        "SELECT ward, COUNT(*) AS people, AVG(cost) AS mean FROM visits WHERE NOT age < 65 GROUP BY ward"
    ).release(epsilon=0.1)  # fmt: skip
    assert again.receipt.replayed
    assert again.receipt.charged == "ε = 0.1"
    assert again.to_arrow().rename_columns(["ward", "n", "cost"]).equals(r.to_arrow())


def test_answers_are_near_the_truth(tmp_path: Path) -> None:
    visits = clinic.visits().to_pandas()
    lab = sf.create(tmp_path / "clinic")
    lab.register(
        "visits",
        visits,
        unit=sf.Unit("patient_id", max_rows=100),
        columns={"age": sf.between(0, 110), "cost": sf.between(0, 50_000), "ward": sf.one_of(*clinic.WARDS)},
        budget=sf.Budget(epsilon=10_000),
    )
    shown = "ward, COUNT(*) AS n, SUM(age) AS years, AVG(cost) AS cost"
    sql = f"SELECT {shown} FROM visits WHERE age > 40 GROUP BY ward"
    got = lab.session().sql(sql).release(epsilon=8000).to_pandas().set_index("ward")
    truth = (
        visits[visits.age > 40]
        .groupby("ward")
        .agg(n=("age", "size"), years=("age", "sum"), cost=("cost", "mean"))
    )
    assert (got.n - truth.n).abs().max() <= 2
    assert (got.years - truth.years).abs().max() <= 200
    assert (got.cost - truth.cost).abs().max() <= 5


def test_a_missing_promise_fails_closed(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "clinic")
    table = clinic.visits(50, 200)
    with pytest.raises(UsageError, match="SF-U104"):
        lab.register("visits", table, budget=sf.Budget(1))
    with pytest.raises(UsageError, match="SF-U104"):
        lab.register("visits", table, unit=sf.Unit("patient_id", max_rows=20))
    with pytest.raises(UsageError, match="SF-C114"):
        lab.register("visits", table, unit=sf.ROW, columns={"age": (0, 110)}, budget=sf.Budget(1))  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="SF-C"):
        lab.register("visits", table, unit=sf.ROW, columns={"height": sf.between(0, 3)}, budget=sf.Budget(1))
    assert lab.tables() == ()
    with pytest.raises(PolicyError, match="SF-Q106"):
        lab.session().sql("SELECT COUNT(*) FROM visits")


def test_quota_and_budget_both_pay(small_lab: sf.Lab) -> None:
    small_lab.grant("ada", epsilon=0.5)
    with pytest.raises(PolicyError, match="SF-B103"):
        small_lab.session("bob")
    ada = small_lab.session("ada")
    ada.sql("SELECT COUNT(*) FROM visits").release(epsilon=0.4)
    with pytest.raises(BudgetError, match="SF-B102"):
        ada.sql("SELECT COUNT(*) FROM visits WHERE age > 3").release(epsilon=0.2)
    small_lab.session().sql("SELECT COUNT(*) FROM visits WHERE age > 3").release(epsilon=0.6)
    with pytest.raises(BudgetError, match="SF-B101"):
        ada.sql("SELECT COUNT(*) FROM visits WHERE age > 4").release(epsilon=0.1)


def test_a_quota_elsewhere_does_not_open_old_answers(small_lab: sf.Lab) -> None:
    small_lab.grant("ada", epsilon=0.5)
    small_lab.register(
        "staff",
        clinic.visits(20, 40),
        unit=sf.Unit("patient_id", max_rows=3, of="staff"),
        budget=sf.Budget(1),
    )
    question = "SELECT COUNT(*) FROM staff"
    small_lab.session().sql(question).release(epsilon=0.1)
    with pytest.raises(PolicyError):
        small_lab.session("ada").sql(question).release(epsilon=0.1)


def test_a_lab_stays_itself_when_the_process_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labs = {}
    for year in ("2023", "2024"):
        (tmp_path / year).mkdir()
        monkeypatch.chdir(tmp_path / year)
        labs[year] = sf.create("clinic")
        labs[year].register("visits", clinic.visits(20, 40), unit=sf.ROW, budget=sf.Budget(epsilon=1))
    labs["2023"].session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.9)
    assert labs["2023"].folder == tmp_path / "2023" / "clinic"
    assert labs["2023"].ledger.verify().charges == 1
    assert labs["2024"].ledger.verify().charges == 0


def test_names_with_colons_are_refused(small_lab: sf.Lab) -> None:
    small_lab.grant("ada", epsilon=0.5)
    with pytest.raises(UsageError, match="SF-C113"):
        small_lab.grant("a:da", epsilon=0.5)
    with pytest.raises(PolicyError, match="SF-B103"):
        small_lab.session("patient_id:ada")
    with pytest.raises(UsageError, match="SF-C113"):
        small_lab.register("more", clinic.visits(9, 9), unit=sf.Unit("patient_id", max_rows=2, of="a:b"))
    with pytest.raises(UsageError, match="SF-C113"):
        small_lab.register(
            "more", clinic.visits(9, 9), unit=sf.ROW, columns={"a": sf.one_of(1), "A": sf.one_of(1)}
        )


def test_quote_spends_nothing(small_lab: sf.Lab) -> None:
    question = small_lab.session().sql("SELECT COUNT(*) AS n, AVG(age) AS age FROM visits")
    entries = len(list(small_lab.ledger.read_entries()))
    for _ in range(5):
        quote = question.quote(epsilon=0.25, given={"n": 500})
    assert quote.admitted
    assert quote.share == pytest.approx(0.25)
    assert quote.error()["age"] is not None
    assert len(list(small_lab.ledger.read_entries())) == entries
    assert not question.quote(epsilon=1.5).admitted


def test_a_second_table_shares_the_budget_of_its_people(small_lab: sf.Lab) -> None:
    small_lab.register("again", clinic.visits(200, 300), unit=sf.Unit("patient_id", max_rows=2))
    small_lab.session().sql("SELECT COUNT(*) FROM again").release(epsilon=0.9)
    with pytest.raises(BudgetError):
        small_lab.session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.2)
    with pytest.raises(PolicyError):
        small_lab.register(
            "more", clinic.visits(9, 9), unit=sf.Unit("patient_id", max_rows=2), budget=sf.Budget(7)
        )


def test_other_ways_to_spend(small_lab: sf.Lab, tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "other")
    lab.register(
        "visits",
        clinic.visits(300, 2000),
        unit=sf.Unit("patient_id", max_rows=5),
        columns={"cost": sf.between(0, 5000)},
        budget=sf.Budget(epsilon=4, delta=1e-6),
    )
    s = lab.session()
    q = s.sql("SELECT COUNT(*) AS n, AVG(cost) AS cost FROM visits")
    for spending in ({"epsilon": 0.5, "delta": 1e-8}, {"rho": 0.005}, {"share": 0.02}, {"error": {"n": 60}}):
        release = q.release(**spending)
        assert release.to_arrow().num_rows == 1
        assert q.release(**spending).receipt.replayed
    with pytest.raises(UsageError, match="SF-N116"):
        q.quote(error={"cost": 100})
    assert q.quote(error={"cost": 100}, given={"n": 2000}).epsilon is not None
    with pytest.raises(BudgetError):
        small_lab.session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.1, delta=1e-6)


def test_people_and_spread(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "spread")
    visits = clinic.visits(2000, 20_000)
    lab.register(
        "visits",
        visits,
        unit=sf.Unit("patient_id", max_rows=200),
        columns={"age": sf.between(0, 110)},
        budget=sf.Budget(epsilon=2000),
    )
    q = lab.session().sql(
        "SELECT COUNT(DISTINCT patient_id) AS people, STDDEV(age), VAR_POP(age) FROM visits"
    )
    assert q.quote(epsilon=1).error()["stddev_age"] is None
    assert "given" in str(q.quote(epsilon=1))
    assert 0 < q.quote(epsilon=1000, given={"n": 20_000}).error()["stddev_age"] < 55
    release = q.release(epsilon=1000)
    (row,) = release.to_arrow().to_pylist()
    ages = visits["age"].to_numpy(zero_copy_only=False).astype(float)
    assert row["people"] == len(visits["patient_id"].unique())
    assert row["stddev_age"] == pytest.approx(ages[~np.isnan(ages)].clip(0, 110).std(ddof=1), rel=1e-2)
    assert row["variance_age"] == pytest.approx(ages[~np.isnan(ages)].clip(0, 110).var(), rel=1e-2)
    (ends,) = release.interval().to_pylist()
    assert ends["stddev_age_low"] <= row["stddev_age"] <= ends["stddev_age_high"]
    assert str(release).splitlines()[0].count("95 % interval") == 2
