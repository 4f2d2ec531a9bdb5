"""Stories of long work: a model is fitted and measured, rows are made, a stream is priced and released."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, check_width, save_screenshot

import sfumato as sf

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from tests.web.conftest import LabServer, OpenPage


def wait_until_done(page: Page) -> None:
    expect(page.get_by_text("done", exact=True)).to_be_visible()


@pytest.mark.slow
def test_a_model_is_fitted_measured_and_downloaded(open_page: OpenPage) -> None:
    page = open_page("maria")
    page.goto("/models?table=visits")
    page.get_by_label("Target").select_option("readmitted")
    page.get_by_role("checkbox", name="age").check()
    page.get_by_label("ε", exact=True).fill("0.3")
    check_accessibility(page)
    save_screenshot(page, "models")
    page.get_by_role("button", name="Charge and fit").click()
    wait_until_done(page)
    check_accessibility(page)
    with page.expect_download() as file:
        page.get_by_role("link", name="Download the model").click()
    assert file.value.suggested_filename == "model.npz"
    page.get_by_label("ε", exact=True).fill("0.3")
    page.get_by_role("button", name="Charge and measure").click()
    wait_until_done(page)
    expect(page.get_by_role("row", name=re.compile("accuracy"))).to_contain_text(
        re.compile(r"0\.\d+ to [01]\.\d+")
    )
    # Both curves are drawn as soon as the job is done, and stand beside tables with the same numbers.
    for title in ("ROC curve", "Calibration"):
        expect(page.get_by_role("img", name=title).locator("svg")).to_be_visible()
    page.locator("summary", has_text="The ROC curve as a table").click()
    expect(page.get_by_role("region", name="ROC curve").get_by_role("row")).to_have_count(20)
    check_accessibility(page)
    save_screenshot(page, "model-measured")
    with page.expect_download() as file:
        page.get_by_role("link", name="Download as CSV").click()
    assert file.value.suggested_filename == "measured.csv"


@pytest.mark.slow
def test_synthetic_rows_are_made_drawn_and_reported_on(open_page: OpenPage) -> None:
    page = open_page("maria", phone=True)
    page.goto("/synthetic?table=visits")
    for column in ("ward", "readmitted"):
        page.get_by_role("checkbox", name=column).check()
    page.get_by_label("ε", exact=True).fill("0.3")
    check_accessibility(page)
    check_width(page)
    save_screenshot(page, "synthetic-phone")
    page.get_by_role("button", name="Charge and make").click()
    wait_until_done(page)
    made = page.url
    page.get_by_label("Rows to draw").fill("200")
    page.get_by_role("button", name="Draw rows").click()
    wait_until_done(page)
    expect(page.get_by_text("200 synthetic rows were drawn")).to_be_visible()
    with page.expect_download() as file:
        page.get_by_role("link", name="Download as Parquet").click()
    assert file.value.suggested_filename == "rows.parquet"
    page.goto(made)
    page.get_by_label("Rows to publish").fill("100")
    page.get_by_label("Name", exact=True).fill("visits_rows")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status").first).to_contain_text("It is published")
    expect(page.get_by_role("heading", name="visits_rows")).to_be_visible()
    check_accessibility(page)


def test_published_tables_are_for_everyone(open_page: OpenPage) -> None:
    page = open_page(None)
    page.goto("/synthetic")
    expect(page.get_by_role("heading", name="Published")).to_be_visible()
    expect(page.get_by_role("heading", name="Make one")).to_have_count(0)
    check_accessibility(page)


def test_a_stream_is_priced_begun_and_read(open_page: OpenPage, lab_server: LabServer) -> None:
    """The steward's table of arrivals is there up to the third of January."""
    register_arrivals(lab_server)
    steward, analyst = open_page("maria"), open_page("ada", phone=True)
    steward.goto("/streams")
    for label, choice in (("Table", "arrivals"), ("Column of the time", "day")):
        steward.get_by_label(label, exact=True).select_option(choice)
    fields = {"Number of ticks": "30", "First tick": "2026-01-01", "ε": "0.2", "δ": "1e-9"}
    for label, text in fields.items():
        steward.get_by_label(label, exact=True).fill(text)
    steward.get_by_role("button", name="Show the price").click()
    expect(steward.get_by_role("region", name="Price")).to_contain_text("30")
    check_accessibility(steward)
    steward.get_by_role("button", name="Charge and begin").click()
    expect(steward.get_by_text("3 of 30 ticks")).to_be_visible()
    save_screenshot(steward, "streams-steward")
    analyst.goto("/streams")
    expect(analyst.get_by_role("row", name=re.compile("2026-01-03"))).to_contain_text("±")
    expect(analyst.get_by_role("button", name="Charge and begin")).to_have_count(0)
    check_accessibility(analyst)
    check_width(analyst)
    save_screenshot(analyst, "streams-phone")


def register_arrivals(server: LabServer) -> None:
    days = [date(2026, 1, 1 + at % 3) for at in range(300)]
    lab = sf.open(server.folder)
    lab.register(
        "arrivals",
        pa.table({"patient_id": range(300), "day": days}),
        unit=sf.Unit("patient_id", max_rows=1, of="patient_id"),
        columns={"day": sf.between(date(2026, 1, 1), date(2026, 12, 31))},
    )
    lab.set_through("arrivals", day=date(2026, 1, 3))
    lab.close()
