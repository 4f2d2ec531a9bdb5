"""Bounds in a real browser: chosen when a table is registered, and picked for a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, check_width, save_screenshot

if TYPE_CHECKING:
    from tests.web.conftest import LabServer, OpenPage

PATIENTS = 1_500


def test_a_question_is_tuned_and_then_released(open_page: OpenPage) -> None:
    page = open_page("bob", phone=True)
    page.goto("/ask")
    page.get_by_label("Question in SQL").fill("SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward")
    page.get_by_label("ε", exact=True).fill("0.4")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("or tune both privately, for ε").fill("0.1")
    tune = page.get_by_role("button", name="Tune: charge ε = 0.1 and pick bounds")
    tune.wait_for()
    assert page.get_by_role("button", name="Release: charge and answer").count() == 0
    check_accessibility(page)
    check_width(page)
    tune.click()
    release = page.get_by_role("button", name="Release: charge and answer")
    release.wait_for()
    quote = page.locator("#quote").inner_text()
    assert "A unit adds at most" in quote
    assert "estimated bias" in quote.lower()
    check_accessibility(page)
    check_width(page)
    save_screenshot(page, "tune-phone")
    release.click()
    page.wait_for_url("**/releases/*")
    assert "Estimated bias" in page.locator("main").inner_text()


def test_a_steward_has_bounds_chosen(open_page: OpenPage, lab_server: LabServer) -> None:
    rows = [f"{at},{1 + at % 7 * 10}" for at in range(PATIENTS) for _ in range(1 + at % 3)]
    page = open_page("maria")
    page.goto("/register")
    file = {"name": "rides.csv", "mimeType": "text/csv", "buffer": "\n".join(["rider,fare", *rows]).encode()}
    page.get_by_label("CSV or Parquet file").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Go on to the declaration").click()
    page.get_by_label("Name of the table").fill("rides")
    page.get_by_label("Protected is").select_option("column")
    page.get_by_label("Column that names the person").select_option("rider")
    page.get_by_label("or have it chosen privately, for ε").fill("0.1")
    page.locator("summary", has_text="fare").click()
    page.get_by_label("fare holds").select_option("number")
    page.get_by_label("or have both chosen privately, for ε, of fare").fill("0.1")
    page.get_by_label("ε", exact=True).fill("2")
    # The price stands there before anything is sent.
    register = page.get_by_role("button", name="Register: charge ε = 0.2 and choose bounds")
    register.wait_for()
    expect(page.locator("#price")).to_contain_text("ε = 2")  # the price follows each field a moment later
    price = page.locator("#price").inner_text()
    assert "for rows of one person" in price.lower()
    assert "ε = 2" in price
    check_accessibility(page)
    save_screenshot(page, "register-choose")
    register.click()
    page.get_by_role("heading", name="rides is registered").wait_for()
    told = page.get_by_role("region", name="Bounds that were chosen privately").inner_text()
    assert "max_rows = " in told
    assert "of 'fare' were chosen privately (ε = 0.1" in told
    check_accessibility(page)
    save_screenshot(page, "registered-chosen")
    # The server is shared, and other stories are told of one table.
    steward = {"Authorization": f"Bearer {lab_server.tokens['maria']}"}
    httpx.delete(f"{lab_server.address}/api/tables/rides", headers=steward).raise_for_status()
