"""Stories of work around questions: a steward registers, an analyst asks for more, the steward answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, check_width, save_screenshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.web.conftest import OpenPage


def test_a_steward_registers_a_table_and_sees_what_was_clipped(open_page: OpenPage, tmp_path: Path) -> None:
    source = tmp_path / "staff.csv"
    lines = [
        "nurse,shift,hours",
        *(f"{at // 2},{'day' if at % 3 else 'dusk'},{at % 90}" for at in range(120)),
    ]
    source.write_text("\n".join(lines))
    page = open_page("maria")
    page.goto("/register")
    check_accessibility(page)
    save_screenshot(page, "register-source")
    page.get_by_label("CSV or Parquet file").set_input_files(source)
    page.get_by_role("button", name="Go on to the declaration").click()
    # Everything starts empty: who is protected, bounds, and the budget.
    expect(page.get_by_label("Protected is")).to_have_value("")
    expect(page.get_by_label("Most rows of one person")).to_have_value("")
    page.get_by_label("Name of the table").fill("staff")
    # What a choice makes pointless is not shown.
    page.get_by_label("Protected is").select_option("node")
    expect(page.get_by_label("Edges go from")).to_be_visible()
    expect(page.get_by_role("heading", name="Bounds and lists")).to_be_hidden()
    check_accessibility(page)
    page.get_by_label("Protected is").select_option("column")
    page.get_by_label("Column that names the person").select_option("nurse")
    page.get_by_label("Most rows of one person").fill("1")
    for name, kind in (("shift", "list"), ("hours", "number")):
        page.locator("summary", has_text=name).click()
        page.get_by_label(f"{name} holds").select_option(kind)
    page.get_by_label("The list of shift").fill("day, night")
    page.get_by_label("Lowest hours").fill("0")
    page.get_by_label("Highest hours").fill("60")
    expect(page.get_by_label("Step of hours")).to_be_visible()
    expect(page.get_by_label("Step of shift")).to_be_hidden()
    page.get_by_label("Publish with the table").select_option("declared")
    page.get_by_label("ε", exact=True).fill("1")
    expect(page.get_by_role("img", name=re.compile("at most 73.2 are right"))).to_be_visible()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("For the steward alone.")).to_be_visible()
    # 120 rows of 60 nurses, one each: 60 rows are left out; 40 shifts are "dusk"; 29 hours lie above 60.
    report = page.locator("#report-card")
    expect(report).to_contain_text(re.compile(r"rows left out as too many\s*60"))
    expect(report.get_by_role("row", name=re.compile("shift"))).to_contain_text("40")
    expect(report.get_by_role("row", name=re.compile("hours"))).to_contain_text("29")
    check_accessibility(page)
    save_screenshot(page, "register-report")
    page.get_by_role("button", name="Register the table").click()
    expect(page.get_by_role("heading", name="Losses to confirm")).to_be_visible()
    check_accessibility(page)
    page.get_by_label("Register the table with these losses").check()
    page.get_by_role("button", name="Register the table").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("staff is registered")
    expect(page.get_by_text("Its twin is published")).to_be_visible()
    check_accessibility(page)
    save_screenshot(page, "registered")
    page.get_by_label("Analyst").fill("carla")
    page.get_by_label("ε", exact=True).fill("0.5")
    page.get_by_role("button", name="Grant the quota").click()
    expect(page.get_by_role("status").first).to_have_text("The quota was granted.")
    expect(page.get_by_role("region", name="carla")).to_contain_text("may ask about staff")
    check_accessibility(page)
    save_screenshot(page, "quotas")
    page.goto("/promise")
    expect(page.get_by_role("heading", name="nurse")).to_be_visible()


def test_nobody_but_a_steward_sees_the_register_page(open_page: OpenPage) -> None:
    page = open_page("ada", phone=True)
    answer = page.goto("/register")
    assert answer is not None
    assert answer.status == 403
    expect(page.get_by_text("SF-W103")).to_be_visible()


def test_an_analyst_asks_for_more_and_the_steward_grants_and_declines(open_page: OpenPage) -> None:
    analyst, steward = open_page("bob", phone=True), open_page("maria")
    for amount, reason in (("0.5", "The yearly report"), ("9", "Just in case")):
        analyst.goto("/requests")
        analyst.get_by_label("More ε").fill(amount)
        analyst.get_by_label("Why you need it").fill(reason)
        analyst.get_by_role("button", name="Send the request").click()
        expect(analyst.get_by_role("status").first).to_contain_text("Your request was sent")
    check_accessibility(analyst)
    check_width(analyst)
    save_screenshot(analyst, "requests-phone")
    steward.goto("/requests")
    check_accessibility(steward)
    save_screenshot(steward, "requests-steward")
    yearly = steward.get_by_role("article", name=re.compile("bob asks for ε = 0.5 more"))
    yearly.get_by_role("button", name="Grant").click()
    expect(steward.get_by_text("granted ε = 0.5")).to_be_visible()
    greedy = steward.get_by_role("article", name=re.compile("bob asks for ε = 9 more"))
    greedy.get_by_label("Note").fill("Say what for.")
    greedy.get_by_role("button", name="Decline").click()
    analyst.goto("/requests")
    expect(analyst.get_by_text("Say what for.")).to_be_visible()
    expect(analyst.get_by_text("granted ε = 0.5")).to_be_visible()
