"""Takes the pictures of docs/images/pages from a server over a made-up clinic, in this machine's browser.

python tools/page_pictures.py [FOLDER]

It needs the extras `server` and `dev`, and Chromium. Look at every picture before it is committed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from web.conftest import (  # noqa: E402
    BROWSERS,
    DESK,
    FLAGS,
    PHONE,
    LabServer,
    make_lab,
    run_server,
    sign_in,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ASKED = "SELECT ward, COUNT(*) AS n\nFROM visits\nWHERE age >= 65\nGROUP BY ward"
SHOWN = (
    ("SELECT ward, COUNT(*) AS n, AVG(cost) AS mean_cost FROM visits GROUP BY ward", 0.3),
    ("SELECT COUNT(*) AS n FROM visits WHERE readmitted = 1", 0.1),
    ("SELECT MEDIAN(cost) AS cost FROM visits WHERE age >= 65", 0.2),
)


def open_page(
    browser: Browser, server: LabServer, name: str | None, *, phone: bool = False, **more: Any
) -> Page:
    """Return a page of someone who is signed in, or of nobody."""
    context = browser.new_context(base_url=server.address, viewport=PHONE if phone else DESK, **more)
    if name is not None:
        sign_in(context, server, name)
    return context.new_page()


def ask(page: Page, sql: str, epsilon: float, *, preview: bool = False) -> None:
    """Type a question and have its price shown."""
    page.goto("/ask")
    page.get_by_label("Question in SQL").fill(sql)
    page.get_by_label("ε", exact=True).fill(str(epsilon))
    if preview:
        page.get_by_label("Preview the error bars on the twin").check()
    page.get_by_role("button", name="Show the price").click()
    page.get_by_role("button", name="Release: charge and answer").wait_for(timeout=60_000)


def shoot(page: Page, path: Path, height: int | None = None) -> None:
    """Write a picture of a page, or of the upper part of it, once its charts are drawn."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)
    part = {"clip": {"x": 0, "y": 0, "width": DESK["width"], "height": height}} if height else {}
    page.screenshot(path=path, full_page=True, **part)
    print(path)


def take_pictures(browser: Browser, server: LabServer, folder: Path) -> None:
    """Ask, release and look, as people would."""
    page = open_page(browser, server, "ada", color_scheme="dark")
    for sql, epsilon in SHOWN:
        ask(page, sql, epsilon)
        page.get_by_role("button", name="Release: charge and answer").click()
        page.get_by_role("heading", name="Numbers and intervals").wait_for(timeout=60_000)
        if sql == SHOWN[0][0]:
            shoot(page, folder / "answer-dark.png", 1450)
    page = open_page(browser, server, "ada")
    ask(page, ASKED, 0.2, preview=True)
    page.get_by_role("heading", name="On the twin").wait_for(timeout=60_000)
    shoot(page, folder / "ask.png", 1360)
    page = open_page(browser, server, "ada", phone=True, color_scheme="dark")
    ask(page, ASKED, 0.2)
    shoot(page, folder / "ask-phone.png")
    page = open_page(browser, server, "maria")
    page.goto("/")
    shoot(page, folder / "overview.png", 1200)
    page = open_page(browser, server, None)
    page.goto("/promise")
    page.locator(".card", has_text="50:50 unsure").first.screenshot(path=folder / "promise.png")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "pages"
    path = next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory() as kept, sync_playwright() as running:
        clinic = Path(kept) / "clinic"
        tokens = make_lab(clinic)
        with run_server(clinic) as address:
            browser = running.chromium.launch(executable_path=path, args=FLAGS.split())
            take_pictures(browser, LabServer(address, clinic, tokens), folder)
            browser.close()
