"""Budgets by region over HTTP: quotes, budgets and pages name them, and hostile sessions charge them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from serving import ServedClinic, make_lab, serve_clinic
from sfumato.lab.remote.answers import RemoteQuote
from unit.server.pages.test_handlers import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = "SELECT COUNT(*) AS n FROM wings WHERE wing = 'east'"
QUOTED = {"question": {"sql": SQL}, "spend": {"epsilon": 0.25}}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    folder = tmp_path_factory.mktemp("regions") / "clinic"
    lab = make_lab(folder)
    lab.register(
        "wings",
        pa.table({"resident": [1, 2, 3], "wing": ["east", "west", "east"]}),
        unit=sf.Unit("resident", max_rows=1, regions=["wing"]),
        columns={"wing": sf.one_of("east", "west")},
        budget=sf.Budget(epsilon=2),
    )
    lab.grant("ada", epsilon=2, tables=["visits", "wings"])
    with serve_clinic(folder, lab=lab) as served:
        yield served


def test_a_quote_names_the_regions_that_pay(clinic: ServedClinic) -> None:
    said = clinic.send("POST", "/api/quote", json=QUOTED).json()
    assert said["regions"] == ["wing=east"]
    assert RemoteQuote(said, lambda _: said).regions == ("wing=east",)
    page = Browser(clinic, "ada").post("/ask", sql=SQL, epsilon="0.25")
    assert "charged to" in page.text
    assert "wing=east" in page.text


def test_what_is_left_of_each_region_is_in_the_budget_and_on_the_overview(clinic: ServedClinic) -> None:
    assert clinic.ask(SQL, epsilon=0.5).status_code == 200
    account = clinic.send("GET", "/api/budget").json()["accounts"]["population:resident"]
    left = {name: each["left_epsilon"] for name, each in account["regions"].items()}
    assert left == {"no region": 2.0, "wing=east": 1.5, "wing=west": 2.0}
    assert account["left_epsilon"] == 1.5
    for name in ("ada", "grace"):
        page = Browser(clinic, name).send("GET", "/").text
        assert "What is left in each region of resident" in page
        assert "wing=east: ε = 1.50 of 2.00 remaining" in page
    assert "regions" in Browser(clinic, "grace").send("GET", "/ledger").text
