"""A session over HTTP answers as one in the lab does: the same numbers, types, errors and receipts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from loopback import LoopbackClinic, serve_on_loopback
from serving import make_lab
from sfumato.errors import SfumatoError
from sfumato.lab.remote.models import find_job_of, hand_over, remember_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.lab.remote.session import RemoteSession

SQL = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackClinic]:
    folder = tmp_path_factory.mktemp("remote") / "clinic"
    with serve_on_loopback(folder, add_log(make_lab(folder))) as served:
        yield served


def add_log(lab: sf.Lab) -> sf.Lab:
    """Register a table that streams can follow, about the same patients."""
    log = pa.table({"patient_id": np.arange(30), "hour": np.arange(30) % 3})
    unit = sf.Unit("patient_id", max_rows=1)
    lab.register("log", log, unit=unit, columns={"hour": sf.between(0, 23, step=1)})
    lab.grant("ada", epsilon=100, delta=1e-7, tables=["visits", "log"])
    return lab


@pytest.fixture(scope="module")
def remote(clinic: LoopbackClinic) -> RemoteSession:
    return clinic.connect()


def test_declarations_and_budgets_are_the_same(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    local = clinic.lab.session("ada")
    assert remote.tables == local.tables
    assert remote.table("visits").describe() == local.table("visits").describe()
    assert remote.table("visits").where("age > 3").columns == ["age", "cost", "ward", "ill"]
    assert remote.budget.to_dict() == local.budget.to_dict()
    assert str(remote.budget) == str(local.budget)
    assert remote.budget.spent == local.budget.spent
    assert "sfu_" not in repr(remote)


def test_quotes_are_the_same(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    local, far = clinic.lab.session("ada", hostile=True).sql(SQL), remote.sql(SQL)
    for spend in ({"epsilon": 0.1}, {"share": 0.01}, {"rho": 0.01}, {"error": {"n": 25}}):
        one, other = local.quote(**spend), far.quote(**spend)  # type: ignore[typeddict-item]
        assert str(one) == str(other)
        assert one.to_dict().items() <= other.to_dict().items()
        assert (one.admitted, one.free, one.slot, one.share) == (
            other.admitted,
            other.free,
            other.slot,
            other.share,
        )
        assert one.error(0.99) == other.error(0.99)


OVER = "SELECT COUNT(*) AS k FROM answer"
ASKED: dict[str, Any] = {
    "sql": lambda s: s.sql(SQL),
    "bounded": lambda s: s.sql(SQL).bounded(groups=1, rows=1),
    "frame": lambda s: (
        s.table("visits")
        .where("age >= 65")
        .group_by("ward", old=sf.bins("age", [0, 80, 110]))
        .agg(n=sf.count(), twice=sf.mean("cost * 2"), mid=sf.quantile("cost", 0.5))
    ),
    "bounded frame": lambda s: s.table("visits").bounded(groups=1, rows=1).group_by("ward").count(),
    "histogram": lambda s: s.table("visits").histogram("age", bins=4),
    "edges": lambda s: s.table("visits").histogram("age", [0, 18, 65.5, 110]),
    "per unit": lambda s: (
        s.table("visits").per_unit("patient_id", most=sf.max("cost")).agg(m=sf.mean("most"))
    ),
    "joined": lambda s: (
        s.table("visits").join(s.table("visits").where("ill = 1").per_unit("patient_id", k=sf.count()),
                               on="patient_id").count()
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
def test_tables_are_the_same(clinic: LoopbackClinic, remote: RemoteSession, kind: str) -> None:
    far = ASKED[kind](remote).release(epsilon=0.25)
    local = ASKED[kind](clinic.lab.session("ada")).release(epsilon=0.25)
    assert far.to_arrow() == local.to_arrow()
    assert far.to_arrow().schema == local.to_arrow().schema
    assert far.to_pandas().equals(local.to_pandas())
    if kind != "union":
        assert local.receipt.replayed
        assert not far.receipt.replayed
        assert local.receipt.to_dict() == {**far.receipt.to_dict(), "replayed": True}
        assert far.interval(0.95) == local.interval(0.95)
        assert far.interval(0.8) == local.interval(0.8)
        assert far.plot().spec == local.plot().spec
        assert far.hidden_groups == local.hidden_groups
        assert far.sql(OVER).item() == local.sql(OVER).item()
        assert far.all_groups().to_arrow() == local.all_groups().to_arrow()
        assert far.all_groups().interval(0.8) == local.all_groups().interval(0.8)
        assert far.to_pandas(intervals=True).equals(local.to_pandas(intervals=True))
        assert (far.receipt.entry, far.receipt.head) == (local.receipt.entry, local.receipt.head)


FIGURES: dict[str, Any] = {
    "top": lambda s: s.table("visits").top("ward", k=2),
    "distance": lambda s: s.table("visits").distance("COUNT(*) >= 100"),
    "subsample": lambda s: s.table("visits").subsample(sf.median("cost"), blocks=20),
    "bounds": lambda s: s.table("visits").bounds("cost", keep=0.9),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_figures_are_the_same(clinic: LoopbackClinic, remote: RemoteSession, kind: str) -> None:
    far = FIGURES[kind](remote).release(epsilon=0.5)
    local = FIGURES[kind](clinic.lab.session("ada")).release(epsilon=0.5)
    assert type(far) is type(local)
    without = {name: value for name, value in far.to_dict().items() if name != "receipt"}
    assert without == {name: value for name, value in local.to_dict().items() if name != "receipt"}


def test_partitions_facts_and_oracles(remote: RemoteSession) -> None:
    parts = remote.table("visits").partition("ward")
    assert list(parts.agg(n=sf.count()).release(epsilon=0.5)) == ["A", "B", "C"]
    assert parts["A"].count().quote(epsilon=0.1).admitted
    assert remote.sql("SHOW TABLES").release().to_arrow().to_pydict()["table"] == ["visits", "log"]
    oracle = remote.oracle("visits", epsilon=1, questions=2)
    assert 0 <= float(oracle.mean("age >= 65")) <= 1
    assert oracle.left == 1


def test_publications_are_read_for_nothing(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    clinic.lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
    clinic.lab.publish(sf.synth.Twin(), table="visits", rows=5, name="stand-in")
    answer, twin = remote.published()
    assert answer.read().to_arrow() == clinic.lab.published()[0].read().to_arrow()
    assert (answer.is_current, twin.read().num_rows) == (True, 5)


def test_answers_are_refined(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    first = remote.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 50").release(epsilon=0.5)
    both = first.refine(epsilon=0.5)
    local = clinic.lab.session("ada").sql("SELECT COUNT(*) AS n FROM visits WHERE age > 50")
    assert both.to_arrow() == local.release(epsilon=0.5).refine(epsilon=0.5).to_arrow()
    assert both.to_dict()["rounds"] == 2
    before = clinic.lab.verify().charges
    assert first.refine(epsilon=0.5).to_arrow() == both.to_arrow()
    assert clinic.lab.verify().charges == before
    with pytest.raises(SfumatoError, match="SF-N117"):
        both.interval(0.9)


def test_twins_have_the_declared_columns(remote: RemoteSession) -> None:
    twin = remote.twin("visits", 5, seed=1)
    assert twin.num_rows == 5
    assert twin == remote.twin("visits", 5, seed=1)
    assert {"age", "cost", "ward", "ill"} <= set(twin.column_names)


WRONG: dict[str, Any] = {
    "syntax": lambda s: s.sql("SELEC").quote(epsilon=1),
    "too much": lambda s: s.sql("SELECT COUNT(*) FROM visits").release(epsilon=1000),
    "column": lambda s: s.table("visits").where("nope > 1").count().quote(epsilon=0.1),
    "table": lambda s: s.table("nothing").count().quote(epsilon=0.1),
    "another's table": lambda s: s.sql("SELECT COUNT(*) FROM staff").quote(epsilon=0.1),
    "no spend": lambda s: s.sql(SQL).quote(),
    "two spends": lambda s: s.sql(SQL).quote(epsilon=1, rho=1),
    "no aggregate": lambda s: s.table("visits").agg().quote(epsilon=1),
    "group first": lambda s: s.table("visits").group_by("ward").top("ward").quote(epsilon=1),
}


@pytest.mark.parametrize("kind", WRONG)
def test_errors_are_the_same(clinic: LoopbackClinic, remote: RemoteSession, kind: str) -> None:
    with pytest.raises(SfumatoError) as far:
        WRONG[kind](remote)
    with pytest.raises(SfumatoError) as local:
        WRONG[kind](clinic.lab.session("ada", hostile=True))
    assert type(far.value) is type(local.value)
    assert str(far.value) == str(local.value)


def test_a_wrong_token_is_told_at_once(clinic: LoopbackClinic) -> None:
    with pytest.raises(SfumatoError, match="SF-W101"):
        sf.connect(clinic.address, "sfu_" + "x" * 43)


def test_intervals_at_another_level_charge_nothing(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    question = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE age > 41"}
    body = {"question": question, "spend": {"epsilon": 0.3}, "confidence": 0.9}
    before = clinic.lab.verify().charges
    with pytest.raises(SfumatoError, match="SF-W168"):
        remote._connection.post("/api/intervals", body)
    assert clinic.lab.verify().charges == before


# ---- models ------------------------------------------------------------------------------------------------


def test_a_fitted_estimator_comes_back(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    model = sf.learn.CategoricalNB(epsilon=8.0)
    fitted = remote.fit(model, table="visits", features=["ward"], target="ill")
    assert fitted is model
    assert fitted.predict(pd.DataFrame({"ward": ["A", "C"]})).shape == (2,)
    again = clinic.lab.session("ada").fit(
        sf.learn.CategoricalNB(epsilon=8.0), table="visits", features=["ward"], target="ill"
    )
    assert fitted.guarantee_ == again.guarantee_
    job = remote.jobs()[0]  # the newest
    assert (job.state, job.said["kind"]) == ("done", "fit")
    assert job.rounds >= 1
    assert job.wait().guarantee_ == fitted.guarantee_
    fitted.classes_ = fitted.classes_[::-1]
    with pytest.raises(SfumatoError, match="SF-E117"):
        remote.evaluate(fitted, table="visits", target="ill", epsilon=1.0)


def test_every_estimator_is_handed_over() -> None:
    for name in sorted(sf.learn.ESTIMATORS):
        given, fitted = getattr(sf.learn, name)(), getattr(sf.learn, name)()
        fitted.learnt_ = 1.0
        assert hand_over(fitted, given) is given
        assert given.learnt_ == 1.0
        with pytest.raises(SfumatoError, match="SF-E117"):
            find_job_of(given)
        remember_job(given, "0" * 32)
        assert find_job_of(given) == "0" * 32


def test_models_that_are_not_listed_never_become_jobs(remote: RemoteSession) -> None:
    body = {"kind": "fit", "key": "k", "table": "visits", "features": ["age"], "target": "ill"}
    for sent in ({"name": "LogisticRegression", "parameters": {"nope": 1}},):
        with pytest.raises(SfumatoError, match="SF-E187"):
            remote._connection.post("/api/jobs", {**body, "model": sent})
    known = {"name": "GaussianNB", "parameters": {"epsilon": 1}}
    rows = {"table": "visits", "steps": [["__class__", [], {}]]}
    with pytest.raises(SfumatoError, match="SF-W104"):
        remote._connection.post("/api/jobs", {**body, "model": known, "table": rows})
    assert all(each.state == "done" for each in remote.jobs())


@pytest.mark.slow
def test_a_job_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    with serve_on_loopback(tmp_path / "clinic", processes=True) as clinic:
        remote = clinic.connect()
        # What is drawn from declarations reads nothing, so no slot can be missed.
        twin = remote.fit(sf.synth.Twin(), table="visits")
        assert twin.guarantee_ is None
        assert [each.state for each in remote.jobs()] == ["done"]
        assert clinic.lab.verify().charges == 0


@pytest.mark.slow
def test_every_kind_of_work(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    rows = remote.table("visits").where("age >= 10")
    about: dict[str, Any] = {"table": rows, "features": ["age", "cost"], "target": "ill"}
    model = remote.fit(sf.learn.LogisticRegression(epsilon=5.0), **about, split=(0.8, "train"))
    found = remote.evaluate(model, table=rows, target="ill", epsilon=1.0, split=(0.8, "test"))
    assert 0 <= found.accuracy.value <= 1
    line = remote.fit(sf.learn.LinearRegression(epsilon=5.0), table=rows, features=["age"], target="cost")
    assert remote.evaluate(line, table=rows, target="cost", epsilon=2.0).guarantee.epsilon == 2.0
    synthesis = remote.fit(sf.synth.Marginals(epsilon=2, delta=1e-9), table="visits", columns=["age", "ward"])
    before = clinic.lab.verify().charges
    drawn = synthesis.sample(7, seed=3, key="id")
    assert (drawn.column_names, drawn.num_rows) == (["id", "age", "ward"], 7)
    assert clinic.lab.verify().charges == before
    moments = remote.fit(
        sf.synth.Moments(epsilon=2, delta=1e-9), table="visits", features=["age"], target="ill"
    )
    drawn_rows, labels = moments.sample(4, seed=1)
    assert (drawn_rows.shape, len(labels)) == ((4, 1), 4)
    assert remote.twin("visits", 3, rho=0.001).num_rows == 3


# ---- streams -----------------------------------------------------------------------------------------------


def test_streams(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    asked: dict[str, Any] = {"time": "hour", "measure": sf.count(), "horizon": 3, "rho": 0.01}
    stream = remote.stream("log", **asked)
    quote = stream.quote()
    assert quote.admitted
    assert stream.values().shape == (0,)
    with pytest.raises(SfumatoError, match="SF-W103"):
        stream.run()
    steward = clinic.connect("steward")
    clinic.lab.set_through("log", hour=2)
    released = steward.stream("log", **asked).run(2)
    assert released.tick == 2
    assert stream.refresh().values().tolist() == released.values().tolist()
    assert released.run().tick == 3
    (listed,) = remote.streams()
    assert listed.values().shape == (3,)
    assert listed.half_widths(window=1).shape == (3,)


def test_questions_asked_together_are_the_same(clinic: LoopbackClinic, remote: RemoteSession) -> None:
    asked = [SQL, "SELECT ward, ill, COUNT(*) AS n FROM visits WHERE age >= 65 GROUP BY ward, ill"]
    far = remote.ask_together([asked[0], remote.sql(asked[1])])
    local = clinic.lab.session("ada").ask_together(asked)
    assert far.quote(epsilon=0.5).error() == local.quote(epsilon=0.5).error()
    answers, kept = far.release(epsilon=0.5), local.release(epsilon=0.5)
    for one, other in zip(answers, kept, strict=True):
        assert one.to_arrow() == other.to_arrow()
        assert one.interval() == other.interval()
        assert one.interval(0.8) == other.interval(0.8)
        assert other.receipt.replayed
    with pytest.raises(SfumatoError) as refused:
        remote.ask_together([3])  # type: ignore[list-item]
    assert refused.value.code == "SF-Q221"
