"""Bounds over HTTP: picked for a question, sent back with it, and chosen when a table is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from loopback import LoopbackClinic, serve_on_loopback
from serving import ServedClinic, make_lab, make_rows
from sfumato.errors import SfumatoError
from unit.server.pages.test_handlers import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.lab.remote.session import RemoteSession

SUM = "SELECT SUM(cost) AS c FROM visits"
TUNE = {"question": {"sql": SUM}, "epsilon": "0.25", "for_epsilon": 2}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackClinic]:
    folder = tmp_path_factory.mktemp("tuning") / "clinic"
    with serve_on_loopback(folder, make_lab(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def remote(served: LoopbackClinic) -> RemoteSession:
    return served.connect()


def send(clinic: ServedClinic, path: str, body: Any, role: str = "analyst") -> Any:
    return clinic.send("POST", path, role, json=body)


def test_tuning_is_priced_charged_once_and_named_by_the_question(clinic: ServedClinic) -> None:
    before = clinic.lab.ledger.verify().charges
    tuned = {"sql": SUM, "tuned": {"epsilon": "0.25", "for_epsilon": 2}}
    spend = {"epsilon": 2}
    unknown = send(clinic, "/api/quote", {"question": tuned, "spend": spend})
    assert (unknown.status_code, unknown.json()["code"]) == (403, "SF-W168")
    priced = send(clinic, "/api/tune/quote", TUNE).json()
    assert (priced["epsilon"], priced["free"]) == (0.25, False)
    assert clinic.lab.ledger.verify().charges == before
    picked = send(clinic, "/api/tune", {**TUNE, "key": "one"}).json()
    again = send(clinic, "/api/tune", {**TUNE, "key": "two"}).json()
    assert clinic.lab.ledger.verify().charges == before + 1
    assert {**again["picked"], "receipt": None} == {**picked["picked"], "receipt": None}
    assert again["picked"]["receipt"] == {**picked["picked"]["receipt"], "replayed": True}
    assert picked["question"] == tuned
    local = clinic.lab.session("ada").question(SUM).tune(epsilon=0.25, for_epsilon=2)
    assert picked["picked"]["picked"] == str(local.picked)
    quoted = send(clinic, "/api/quote", {"question": tuned, "spend": spend}).json()
    assert sum("Estimated bias: about" in each for each in quoted["bias"]) == 1
    assert quoted["expected_error"] == local.quote(epsilon=2).error()
    answer = send(clinic, "/api/release", {"question": tuned, "spend": spend}).json()
    assert any("Estimated bias" in each for each in answer["bias"])
    assert clinic.lab.ledger.verify().charges == before + 2
    kept = clinic.send("GET", f"/api/releases/{answer['entry']}", "analyst").json()
    assert kept["question"] == tuned
    refined = send(clinic, "/api/refine", {"entry": answer["entry"], "spend": {"epsilon": 1}})
    assert refined.status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({**TUNE, "epsilon": 1e-11}, "SF-Q218"),
        ({**TUNE, "epsilon": 0}, "SF-N101"),
        ({**TUNE, "question": {"sql": "SELECT COUNT(DISTINCT patient_id) AS n FROM visits"}}, "SF-Q210"),
        ({**TUNE, "question": {"sql": f"{SUM} UNION ALL {SUM} WHERE age > 3"}}, "SF-Q161"),
        ({**TUNE, "question": {"sql": "SHOW TABLES"}}, "SF-Q210"),
        (
            {**TUNE, "question": {"sql": "SELECT COUNT(*) AS n FROM visits", "bounded": {"rows": 1}}},
            "SF-Q210",
        ),
        ({**TUNE, "question": {"sql": SUM, "clipped": {"limit": 9}, "bounded": {"rows": 1}}}, "SF-U104"),
        ({**TUNE, "question": {"sql": "SELECT COUNT(*) AS n FROM staff"}}, "SF-Q106"),
        ({**TUNE, "question": {"graph": "visits", "steps": [["edges", [], {}]]}}, "SF-C213"),
    ],
)
def test_what_cannot_be_tuned_is_refused_for_nothing(
    clinic: ServedClinic, body: dict[str, Any], code: str
) -> None:
    before = clinic.lab.ledger.verify().charges
    for path in ("/api/tune", "/api/tune/quote"):
        answer = send(clinic, path, body)
        assert answer.status_code in (403, 422, 400, 404)
        assert answer.json()["code"] == code
    assert clinic.lab.ledger.verify().charges == before


def test_tuning_that_would_leave_too_little_is_refused_over_http(clinic: ServedClinic) -> None:
    left = clinic.lab.session("ada").question(SUM).quote(epsilon=0.1).left
    asked = {"question": {"sql": f"{SUM} WHERE age > 5"}, "epsilon": "0.25", "for_epsilon": float(left)}
    before = clinic.lab.ledger.verify().charges
    priced = send(clinic, "/api/tune/quote", asked).json()
    assert (priced["admitted"], priced["unpaid"]) == (False, f"ε = {float(left):g}")
    assert send(clinic, "/api/tune", asked).json()["code"] == "SF-B105"
    form = {"sql": f"{SUM} WHERE age > 5", "epsilon": str(float(left)), "tune": "0.25"}
    browser = Browser(clinic, "ada")
    shown = browser.post("/ask", **form).text
    assert "Tuning would leave too little for the question at" in shown
    assert "Tune: charge" not in shown
    assert "SF-B105" in browser.post("/ask/tune", **form).text
    assert clinic.lab.ledger.verify().charges == before


def test_a_session_over_http_tunes_as_one_in_the_lab(served: LoopbackClinic, remote: RemoteSession) -> None:
    def ask(session: Any) -> Any:
        return session.table("visits").group_by("ward").agg(n=sf.count(), cost=sf.mean("cost"))

    far = ask(remote).tune(epsilon=0.5)
    local = ask(served.lab.session("ada")).tune(epsilon=0.5)
    assert (far.picked.groups, far.picked.rows, far.picked.clip) == (
        local.picked.groups, local.picked.rows, local.picked.clip
    )  # fmt: skip
    assert far.picked.bias == local.picked.bias
    assert far.picked.receipt.charged == "ε = 0.5"
    assert f"bounds   {local.picked}\n" in str(far.quote(epsilon=1))
    assert far.release(epsilon=1).to_arrow() == local.release(epsilon=1).to_arrow()
    assert str(local.picked) in repr(far)


def test_a_sum_is_clipped_over_http(served: LoopbackClinic, remote: RemoteSession) -> None:
    far, local = remote.sql(SUM).clipped(700), served.lab.session("ada").question(SUM).clipped(700)
    assert far.release(epsilon=1).to_arrow() == local.release(epsilon=1).to_arrow()
    with pytest.raises(SfumatoError, match="SF-Q210"):
        remote.sql("SELECT COUNT(*) AS n FROM visits").clipped(5).quote(epsilon=1)
    with pytest.raises(SfumatoError, match="SF-U104"):
        remote.sql(SUM).clipped(5).bounded(rows=1).quote(epsilon=1)


def test_values_are_clipped_over_http_as_in_the_lab(served: LoopbackClinic, remote: RemoteSession) -> None:
    """The quote, both charges, the answer read again and a refined one, whichever session asks first."""
    sql, spend = "SELECT AVG(cost * age) AS c FROM visits", {"epsilon": 10, "clip": "auto"}
    far, local = remote.sql(sql), served.lab.session("ada").sql(sql)
    assert "chosen privately, for ε = 1 of the price" in str(far.quote(**spend))
    before = served.lab.ledger.verify().charges
    release = far.release(**spend)
    assert served.lab.ledger.verify().charges == before + 2
    assert release.to_arrow() == local.release(**spend).to_arrow()
    assert any(each.startswith("Values of c are clipped to 0 to") for each in release.caveats)
    assert far.quote(**spend).free
    assert release.refine(epsilon=0.5).receipt.charged == "ε = 0.5"
    with pytest.raises(SfumatoError, match="SF-Q210"):
        remote.sql("SELECT COUNT(*) AS n FROM visits").release(**spend)
    with pytest.raises(SfumatoError, match="SF-W"):
        far.release(epsilon=0.5, clip="all")


def test_bounds_are_chosen_when_a_table_is_sent(clinic: ServedClinic, tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(make_rows(), tmp_path / "rides.parquet")
    sent = clinic.send(
        "POST",
        "/api/uploads?format=parquet",
        "steward",
        content=(tmp_path / "rides.parquet").read_bytes(),
        headers={"Content-Type": "application/octet-stream"},
    )
    said = {
        "unit": {"column": "patient_id", "max_rows": {"choose": "0.5"}},
        "columns": {"cost": {"between": {"choose": 0.5, "up_to": 10_000}}},
    }
    source = {"upload": sent.json()["upload"]}
    body = {"name": "rides", "source": source, "declaration": said}
    before = clinic.lab.ledger.verify().charges
    free = send(clinic, "/api/tables/check", body, "steward")
    assert free.json()["code"] == "SF-U104"
    assert send(clinic, "/api/tables", body, "analyst").status_code == 403
    assert clinic.lab.ledger.verify().charges == before
    made = send(clinic, "/api/tables", body, "steward")
    assert made.status_code == 200, made.text
    assert clinic.lab.ledger.verify().charges == before + 1
    assert [float(each.epsilon) for each in clinic.lab.table("rides").chosen] == [0.5, 0.5]
    assert made.json()["chosen"][0].startswith("max_rows = ")
    sent = clinic.send(
        "POST",
        "/api/uploads?format=parquet",
        "steward",
        content=(tmp_path / "rides.parquet").read_bytes(),
        headers={"Content-Type": "application/octet-stream"},
    )
    next_rows = {"source": {"upload": sent.json()["upload"]}, "max_rows": {"choose": "0.5", "keep": 0.9}}
    moved = send(clinic, "/api/tables/rides/advance", next_rows, "steward")
    assert moved.status_code == 200, moved.text
    assert clinic.lab.ledger.verify().charges == before + 2
    clinic.lab.drop("rides")
