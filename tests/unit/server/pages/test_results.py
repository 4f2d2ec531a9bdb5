"""What long work came to, on pages: measurements with their curves, and rows that are published."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import sfumato as sf
from loopback import serve_on_loopback
from serving import NAMES, ServedClinic
from sfumato.errors import SfumatoError
from sfumato.lab.remote.results import write_evaluation
from sfumato.lab.synthetic.published_table import PublishedTable
from sfumato.learn.evaluation import Evaluation
from sfumato.server.facts.fits import LABELLED, read_fit
from sfumato.server.jobs.store import JobState
from waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from loopback import LoopbackClinic

HTML = {"accept": "text/html"}


def keep_job(clinic: ServedClinic, kind: str, body: dict[str, Any], outcome: Mapping[str, Any]) -> str:
    """Keep a finished job of the steward, and return its id. The clinic starts no jobs by itself."""
    store = clinic.context.jobs
    job = store.add_job(NAMES["steward"], None, kind, body, f"{kind} {len(store.list_jobs(None))}")
    worker, descriptor = store.lock_worker()
    claimed = store.claim_job(worker, 9)
    assert claimed is not None
    assert claimed.id == job.id
    store.finish(job.id, worker, JobState.DONE, outcome)
    store.release_worker(worker, descriptor)
    return job.id


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 1))
    model = sf.learn.GaussianNB(epsilon=4, bounds=(-4, 4), classes=[0, 1])
    labels = (rows[:, 0] + rng.normal(size=4000) > 0).astype(int)
    found = sf.learn.evaluate(model.fit(rows, labels), rows, labels, epsilon=2)
    assert isinstance(found, Evaluation)
    return found


def test_curves_are_drawn_from_what_was_released(clinic: ServedClinic, measured: Evaluation) -> None:
    body = {"model": "f" * 32, "table": "visits", "target": "ill"}
    job = keep_job(clinic, "evaluate", body, write_evaluation(measured))
    before = len(list(clinic.lab.ledger.read_entries()))
    page = clinic.send("GET", f"/models/{job}", "steward", headers=HTML).text
    assert page.count("data-spec=") == 2
    assert "The ROC curve as a table" in page
    assert "The calibration as a table" in page
    file = clinic.send("GET", f"/models/{job}/measured.csv", "steward")
    lines = list(csv.DictReader(io.StringIO(file.text)))
    assert [each["measure"] for each in lines[:2]] == ["accuracy", "area under the curve"]
    roc = [
        tuple(float(each[name]) for name in ("at", "value", "low", "high"))
        for each in lines
        if each["measure"] == "roc"
    ]
    assert roc == [(at, each.value, each.low, each.high) for at, each in measured.roc]
    assert len(list(clinic.lab.ledger.read_entries())) == before
    # Jobs are their owner's.
    assert clinic.send("GET", f"/models/{job}/measured.csv", "analyst").status_code == 404


def test_an_evaluation_draws_its_curves(measured: Evaluation) -> None:
    assert measured.plot_roc().title == "ROC curve"
    assert measured.plot_calibration().title == "Calibration"


def test_a_twin_is_published_from_the_page(clinic: ServedClinic) -> None:
    said = {"table": "visits", "rows": "50", "name": "visits_twin"}
    done = clinic.send("POST", "/synthetic/publish/twin", "steward", data=said, headers=HTML)
    assert done.headers["location"] == "/synthetic?done=yes"
    page = clinic.send("GET", "/synthetic", "public", headers=HTML).text
    assert "visits_twin" in page
    file = clinic.send("GET", "/synthetic/published/visits_twin.csv", "public")
    assert len(file.text.splitlines()) == 51
    wrong = clinic.send(
        "POST", "/synthetic/publish/twin", "steward", data=said | {"name": "a/b"}, headers=HTML
    )
    assert (wrong.status_code, "SF-C113" in wrong.text) == (400, True)
    for path in ("/synthetic/publish/twin", f"/synthetic/{'f' * 32}/publish"):
        assert clinic.send("POST", path, "analyst", data=said, headers=HTML).status_code == 403


def test_rows_of_a_generator_are_published_for_nothing(clinic: ServedClinic) -> None:
    spend = {"epsilon": {"fraction": "3"}, "delta": {"fraction": "1/10000000"}}
    body = {
        "model": {"name": "Marginals", "parameters": spend},
        "table": "visits",
        "columns": ["ward", "ill"],
    }
    clinic.lab.session().fit(
        sf.synth.Marginals(epsilon=3, delta=1e-7), table="visits", columns=["ward", "ill"]
    )
    job = keep_job(
        clinic, "fit", body, {"form": "generator", "name": "Marginals", "guarantee": None, "text": ""}
    )
    assert (
        "Publish rows for everyone" in clinic.send("GET", f"/synthetic/{job}", "steward", headers=HTML).text
    )
    before = [each.seq for each in clinic.lab.ledger.read_entries() if each.kind == "charge"]
    sent = {"job": job, "rows": 40, "name": "visits_rows"}
    made = clinic.send("POST", "/api/publications/synthetic", "steward", json=sent)
    assert made.status_code == 200, made.text
    again = clinic.send("POST", f"/synthetic/{job}/publish", "steward", data={"rows": "40"}, headers=HTML)
    assert again.status_code == 303
    assert [each.seq for each in clinic.lab.ledger.read_entries() if each.kind == "charge"] == before
    found = [each for each in clinic.lab.published() if isinstance(each, PublishedTable)]
    assert [each.name for each in found].count("visits_rows") == 1
    both = clinic.send("POST", "/api/publications/synthetic", "steward", json={"rows": 40})
    assert both.json()["code"] == "SF-U104"


@pytest.mark.parametrize("name", LABELLED)
def test_a_generator_of_labelled_rows_needs_a_column_of_classes(name: str) -> None:
    typed = {"model": name, "table": "visits", "epsilon": "2", "delta": "1e-8"}
    with pytest.raises(SfumatoError, match="the column of classes"):
        read_fit(typed, ["age", "ill"], generator=True)
    sent = read_fit(typed | {"target": "ill"}, ["age", "ill"], generator=True)
    assert (sent.features, sent.target, sent.columns, sent.split) == (["age"], "ill", [], None)


@pytest.mark.slow
def test_labelled_rows_are_made_from_the_page(tmp_path: Path) -> None:
    with serve_on_loopback(tmp_path / "clinic") as clinic, open_pages(clinic) as page:
        typed = {"table": "visits", "epsilon": "2", "delta": "1e-8", "columns": ["age", "ill"]}
        for name in LABELLED:
            sent = page.post("/synthetic", data=typed | {"model": name, "target": "ill"})
            [job] = [each for each in clinic.connect("steward").jobs() if each.id in sent.headers["location"]]
            job.wait()
            text = page.get(sent.headers["location"]).text
            assert "Rows to draw" in text


def open_pages(clinic: LoopbackClinic) -> httpx.Client:
    """Return a client that reads pages as the steward."""
    headers = HTML | {"Authorization": f"Bearer {clinic.tokens['steward']}"}
    return httpx.Client(base_url=clinic.address, headers=headers, timeout=PATIENCE)
