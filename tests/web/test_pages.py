"""Each page's main story in a real browser, for each role that may see it; one lab and one server for all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from playwright.sync_api import expect
from tests.web.conftest import PASSWORD, check_accessibility, check_width, save_screenshot

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page
    from tests.web.conftest import LabServer, OpenPage

AGES = "SELECT COUNT(*) AS n FROM visits WHERE age >= 65"
RELEASE = "Release: charge and answer"


def send(server: LabServer, name: str, path: str, **more: object) -> httpx.Response:
    """Send a request to the API as someone."""
    headers = {"Authorization": f"Bearer {server.tokens[name]}"}
    answer = httpx.request(str(more.pop("method", "POST")), server.address + path, headers=headers, **more)  # type: ignore[arg-type]
    answer.raise_for_status()
    return answer


def read_left(server: LabServer, name: str) -> float:
    """Return what is left of someone's quota on the clinic."""
    accounts = send(server, name, "/api/budget", method="GET").json()["accounts"]
    return float(accounts[f"quota:patient_id:{name}"]["left_epsilon"])


def test_signing_in_and_out(open_page: OpenPage, lab_server: LabServer) -> None:
    """A password or a token opens the page that was wanted; a wrong one says so, and signing out ends it."""
    page = open_page(None)
    page.goto("/tables/visits")
    assert page.url.endswith("/login?next=/tables/visits")
    page.get_by_label("Name").fill("ada")
    page.get_by_role("textbox", name="Password").fill("not the password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    assert "SF-W180" in page.get_by_role("alert").inner_text()
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/tables/visits")
    cookie = next(each for each in page.context.cookies() if each["name"] == "sfumato")
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    page.context.add_cookies([cookie])  # what was stolen before is of no use afterwards
    page.goto("/ask")
    assert "/login" in page.url
    page.get_by_role("textbox", name="Token").fill(lab_server.tokens["maria"])
    page.get_by_role("button", name="Sign in with a token").click()
    page.wait_for_url("**/ask")
    assert page.locator(".who-name").inner_text().split() == ["Signed", "in", "as", "maria", "steward"]


def test_an_analyst_quotes_releases_refines_and_is_refused(
    open_page: OpenPage, lab_server: LabServer
) -> None:
    page = open_page("ada")
    page.goto("/ask")
    visits = page.locator("details", has=page.get_by_text("visits", exact=True))
    visits.get_by_label("ward").check()
    visits.get_by_label("only where").select_option("age")
    visits.get_by_label("is", exact=True).select_option("≥")
    visits.get_by_label("this value").fill("65")
    visits.get_by_role("button", name="Write the question").click()
    sql = "SELECT ward, COUNT(*) AS n\nFROM visits\nWHERE age >= 65\nGROUP BY ward"
    assert page.locator("#sql").input_value() == sql
    before = read_left(lab_server, "ada")

    # The slider moves the price, and the price comes without loading the page again.
    page.evaluate("window.still = true")
    old = page.locator("#quote").inner_text()
    page.locator("#slider").focus()
    page.keyboard.press("PageUp")
    page.wait_for_function("text => document.querySelector('#quote').innerText !== text", arg=old)
    page.locator("#epsilon").fill("0.25")
    page.get_by_text("ε = 0.25", exact=True).wait_for()
    page.get_by_label("Preview the error bars").check()
    page.locator("#quote [data-drawn] svg").wait_for()
    assert "Made-up rows" in page.locator("#quote").inner_text()
    assert page.evaluate("window.still") is True
    assert read_left(lab_server, "ada") == before  # nothing so far was charged
    check_accessibility(page)
    save_screenshot(page, "ask")

    page.get_by_role("button", name=RELEASE).click()
    page.wait_for_url("**/releases/*")
    assert read_left(lab_server, "ada") == pytest.approx(before - 0.25)
    check_release(page, rows=6)
    check_accessibility(page)
    save_screenshot(page, "release")

    page.get_by_label("ε to spend on it").fill("0.1")
    page.get_by_role("button", name="Refine: charge and answer").click()
    page.get_by_text("refines answer").wait_for()
    assert read_left(lab_server, "ada") == pytest.approx(before - 0.35)

    page.get_by_role("link", name="Change the question").click()
    page.locator("#epsilon").fill("2")
    refused = page.get_by_role("button", name="Release", exact=True)
    refused.wait_for()
    assert refused.is_disabled()
    why = page.locator(f"#{refused.get_attribute('aria-describedby')}").inner_text()
    assert why.startswith("Not enough is left for ε = 2.")


def check_release(page: Page, rows: int) -> None:
    """Check an answer's page: its table, chart, receipt, Python and downloads say the same."""
    shown = page.locator("table tbody tr")
    assert shown.count() == rows
    page.locator("[data-drawn] svg").first.wait_for()
    first = [cell.inner_text() for cell in shown.first.locator("td").all()]
    with page.expect_download() as waited:
        page.get_by_role("link", name="CSV").click()
    lines = waited.value.path().read_text().splitlines()
    assert lines[0] == '"ward","n","n_low","n_high"'
    assert lines[1].split(",")[:2] == [f'"{first[0]}"', first[1].replace(",", "")]
    with page.expect_download() as waited:
        page.get_by_role("link", name="Parquet").click()
    table = parquet.read_table(waited.value.path())
    assert table.column_names == ["ward", "n", "n_low", "n_high"]
    assert str(table.column("n")[0].as_py()) == first[1].replace(",", "")
    with page.expect_download() as waited:
        page.get_by_role("link", name="Download the receipt").click()
    receipt = json.loads(waited.value.path().read_text())
    assert f"/releases/{receipt['entry']}" in page.url
    assert receipt["head"] in page.get_by_role("region", name="Receipt").inner_text()
    assert ".release(epsilon='0.25')" in page.locator("#python").inner_text()


def test_from_registering_a_table_to_granting_a_request(
    open_page: OpenPage, lab_server: LabServer, tmp_path: Path
) -> None:
    """The steward registers, the analyst asks, is refused and asks for more, and the steward grants it."""
    steward, analyst = open_page("maria"), open_page("bob")
    register_rota(steward, tmp_path)
    send(lab_server, "maria", "/api/grants", json={"analyst": "bob", "epsilon": 1, "delta": "1e-9"})

    analyst.goto("/")
    analyst.get_by_role("link", name="rota").click()
    assert "one of day, night" in analyst.get_by_role("region", name="Columns of rota").inner_text()
    analyst.get_by_role("link", name="Ask about it").click()
    release_at(analyst, "0.75")
    assert (
        analyst.locator("table tbody tr").count() == 2
    )  # both shifts; the group without one is not significant
    analyst.get_by_role("link", name="Change the question").click()
    analyst.locator("#epsilon").fill("0.5")
    refused = analyst.get_by_role("button", name="Release", exact=True)
    refused.wait_for()
    assert refused.is_disabled()

    analyst.goto("/requests")
    analyst.get_by_label("More ε").fill("0.6")
    analyst.get_by_label("Why you need it").fill("The rota of next year")
    analyst.get_by_role("button", name="Send the request").click()
    steward.goto("/requests")
    wish = steward.get_by_role("article").filter(has_text="The rota of next year")
    wish.get_by_role("button", name="Grant").click()
    steward.get_by_text("granted ε = 0.6").wait_for()
    analyst.goto("/tables/rota")
    analyst.get_by_role("link", name="Ask about it").click()
    release_at(analyst, "0.5")

    steward.goto("/")
    budgets = steward.get_by_role("region", name="Privacy budgets").inner_text()
    assert "Population porter" in budgets
    assert "ε = 0.75 of 2 left" in budgets
    latest = steward.get_by_role("region", name="Latest answers").inner_text()
    assert "FROM rota GROUP BY shift" in latest
    assert "bob" in latest
    steward.locator("[data-drawn] svg").first.wait_for()
    save_screenshot(steward, "overview")


def register_rota(page: Page, folder: Path) -> None:
    """Register the shifts of porters by the pages of the steward."""
    file = folder / "rota.parquet"
    parquet.write_table(pa.table({"porter": list(range(40)), "shift": ["day", "night"] * 20}), file)
    page.goto("/register")
    page.get_by_label("CSV or Parquet file").set_input_files(file)
    page.get_by_role("button", name="Go on to the declaration").click()
    page.get_by_label("Name of the table").fill("rota")
    page.get_by_label("Protected is").select_option("column")
    page.get_by_label("Column that names the person").select_option("porter")
    page.get_by_label("Most rows of one person").fill("1")
    page.locator("summary", has_text="shift").click()
    page.get_by_label("shift holds").select_option("list")
    page.get_by_label("The list of shift").fill("day, night")
    page.get_by_label("ε", exact=True).fill("2")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Register the table").click()
    page.get_by_role("heading", name="rota is registered").wait_for()


def release_at(page: Page, epsilon: str) -> None:
    """Ask the question that is on the page; it is charged once, however often the button is pressed."""
    page.locator("#epsilon").fill(epsilon)
    page.get_by_text(f"ε = {epsilon}", exact=True).wait_for()
    page.get_by_role("button", name=RELEASE).dblclick()
    # The second click ends the first navigation, which `wait_for_url` would report as an error.
    expect(page).to_have_url(re.compile("/releases/"))


def test_the_page_works_without_scripts(open_page: OpenPage) -> None:
    page = open_page("maria", java_script_enabled=False)
    page.goto("/ask")
    assert not page.locator("#slider").is_visible()
    page.locator("#sql").fill("SELECT COUNT(*) AS n FROM visits")
    page.get_by_label("by error").check()
    page.get_by_label("Error, ± at 95 %").fill("100")
    page.get_by_label("Preview the error bars").check()
    page.get_by_role("button", name="Show the price").click()
    price = page.get_by_role("region", name="Price and error").inner_text()
    assert re.search(r"n\s+± (100|9\d(\.\d+)?)", price)
    assert "Made-up rows" in price
    page.locator("#sql").fill("SELECT * FROM visits")
    page.get_by_role("button", name="Show the price").click()
    assert re.search(r"SF-\w\d+", page.get_by_role("alert").inner_text())
    page.locator("#sql").fill("SHOW TABLES")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_role("button", name="Show the answer, free").click()
    assert "visits" in page.locator("#facts").inner_text()


def test_a_question_is_asked_by_keyboard_alone(open_page: OpenPage) -> None:
    """From the skip link to the answer: every step is a key, and what has the focus can be seen."""
    page = open_page("maria")
    page.goto("/ask")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    press_until(page, lambda: page.evaluate("document.activeElement.id") == "sql")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.type(AGES)
    page.get_by_role("button", name=RELEASE).wait_for()
    press_until(page, lambda: focused(page) == RELEASE)
    page.keyboard.press("Enter")
    page.wait_for_url("**/releases/*")
    assert page.locator("table tbody tr").count() == 1


def focused(page: Page) -> str:
    """Return the text of what has the focus."""
    return str(page.evaluate("document.activeElement.textContent")).strip()


def press_until(page: Page, reached: Callable[[], bool]) -> None:
    for _ in range(40):
        if reached():
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"not reached by forty tabs; the focus is on {focused(page)!r}")


def test_an_auditor_reads_verifies_and_exports(open_page: OpenPage) -> None:
    page = open_page("otto")
    page.goto("/")
    assert page.url.endswith("/ledger")
    page.get_by_role("button", name="Verify the chain").click()
    assert "The chain holds" in page.get_by_role("region", name="The chain").inner_text()
    page.get_by_label("Kind").select_option("grant")
    page.get_by_label("Words in it").fill("bob")
    page.get_by_role("button", name="Filter").click()
    rows = page.locator("table tbody tr")
    assert rows.count() >= 1
    assert all("quota:" in row and "bob" in row for row in rows.all_inner_texts())
    with page.expect_download() as waited:
        page.get_by_role("link", name="Export all entries").click()
    lines = waited.value.path().read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    save_screenshot(page, "ledger")


PAGES = {
    "/login": None,
    "/": "maria",
    "/tables/visits": "ada",
    "/ask": "ada",
    "/releases": "ada",
    "/ledger": "otto",
}


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_phone_and_hold_no_barrier(open_page: OpenPage, path: str) -> None:
    """No page scrolls sideways at 360 pixels, and axe-core finds nothing, light or dark."""
    page = open_page(PAGES[path], phone=True)
    page.goto(path)
    check_width(page)
    check_accessibility(page)
    page.emulate_media(color_scheme="dark")
    check_accessibility(page, "color-contrast")  # nothing else depends on colours
    save_screenshot(page, f"phone{path.replace('/', '-')}")


def test_what_is_not_open_says_so(open_page: OpenPage) -> None:
    """An analyst may not read the ledger; a page that is not there is a page too."""
    page = open_page("ada")
    for path, status, code in (
        ("/ledger", 403, "SF-W103"),
        ("/releases/99999", 404, "SF-U101"),
        ("/no", 404, "SF-U101"),
    ):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == status
        assert code in page.get_by_role("alert").inner_text()
    check_accessibility(page)


@pytest.mark.parametrize("bypass", [False, True])
def test_nothing_in_a_page_is_evaluated(new_context: Callable[..., BrowserContext], bypass: bool) -> None:
    """Attributes of htmx that hold code do not run: the policy forbids it, and without it our extension."""
    page = new_context(bypass_csp=bypass).new_page()
    page.goto("/login")
    page.evaluate(
        """() => {
        const button = document.createElement("button");
        button.id = "planted";
        button.setAttribute("hx-on:click", "window.ran = true");
        document.querySelector("main").append(button);
        htmx.process(button);
        button.click();
        }"""
    )
    page.wait_for_timeout(50)
    assert page.evaluate("window.ran") is None
    if not bypass:
        page.evaluate(
            "document.head.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))"
        )
        assert page.evaluate("window.ran") is None
