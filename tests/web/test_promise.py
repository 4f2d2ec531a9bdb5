"""The promise page in a real browser, for someone who never signed in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, check_width, save_screenshot

if TYPE_CHECKING:
    from tests.web.conftest import OpenPage


def test_anyone_reads_the_promise_and_sets_a_baseline(open_page: OpenPage) -> None:
    page = open_page(None)
    page.goto("/promise")
    expect(page.get_by_role("heading", level=1)).to_have_text("What is promised to you")
    expect(page.get_by_text("is right at most 98.3 times in 100, whatever is ever asked.")).to_be_visible()
    expect(
        page.get_by_text("a smoker is then known to be at risk whether or not they took part")
    ).to_be_visible()
    expect(page.get_by_text("privacy where there was none.")).to_be_visible()
    expect(page.get_by_text("0.01 of 100,000 people on average")).to_be_visible()
    # All eight published guarantees; the lab's own stand among them.
    lines = page.get_by_role("table").locator("tbody tr")
    expect(lines.filter(has_not_text="this lab")).to_have_count(8)
    expect(lines.filter(has_text="this lab").filter(has_text="patient_id")).to_have_count(1)
    expect(page.get_by_role("row", name=re.compile("US Census Bureau"))).to_contain_text("13.64")
    page.get_by_label("How many of 100 people").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator("figcaption", has_text="happens to 1 of 100 people").first).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("happens to 1 of 100")).first).to_be_visible()
    check_accessibility(page)
    save_screenshot(page, "promise")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_promise_fits_a_phone_and_needs_no_script(open_page: OpenPage, scheme: str) -> None:
    page = open_page(None, phone=True, color_scheme=scheme, java_script_enabled=scheme == "light")
    page.goto("/promise?baseline=5&people=1000")
    expect(page.locator("figcaption", has_text="happens to 5 of 100 people").first).to_be_visible()
    expect(page.get_by_text("of 1,000 people on average")).to_be_visible()
    save_screenshot(page, f"promise-phone-{scheme}")
    if scheme == "light":
        check_width(page)
        check_accessibility(page)
