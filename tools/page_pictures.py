"""Takes the pictures of docs/images/pages from a server over a made-up clinic, in this machine's browser.

python tools/page_pictures.py [FOLDER]

It needs the extras `server` and `dev`, and Chromium. Look at every picture before it is committed.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from playwright.sync_api import sync_playwright

import sfumato as sf
from sfumato.cli.clinic import visits
from sfumato.server.app import create_app
from sfumato.server.people import PeopleStore

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from ready_replies import reply_when_ready  # noqa: E402
from web.conftest import BROWSERS, DESK, FLAGS, PHONE  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ASKED = "SELECT ward, COUNT(*) AS n\nFROM visits\nWHERE age >= 65\nGROUP BY ward"
SHOWN = (
    ("SELECT ward, COUNT(*) AS n, AVG(cost) AS mean_cost FROM visits GROUP BY ward", 0.3),
    ("SELECT COUNT(*) AS n FROM visits WHERE readmitted = 1", 0.1),
    ("SELECT MEDIAN(cost) AS cost FROM visits WHERE age >= 65", 0.2),
)
PEOPLE = {"maria": "steward", "ada": "analyst"}


def make_lab(folder: Path) -> tuple[sf.Lab, dict[str, str]]:
    """Return a clinic with a steward and an analyst, and a cookie of each."""
    lab = sf.create(folder)
    lab.register(
        "visits",
        visits(1_500, 5_000),
        unit=sf.Unit("patient_id", max_rows=8),
        columns={
            "age": sf.between(0, 110),
            "ward": sf.one_of("A", "B", "C", "D", "E", "F"),
            "cost": sf.between(0, 5000),
            "readmitted": sf.one_of(0, 1),
        },
        budget=sf.Budget(epsilon=4, delta=1e-7),
    )
    lab.grant("ada", epsilon=1, delta=1e-8)
    people = PeopleStore(folder / "people.sqlite")
    for name, role in PEOPLE.items():
        people.add_person(name, role)
    cookies = {name: people.make_token(name, purpose="page") for name in PEOPLE}
    people.close()
    return lab, cookies


@contextmanager
def serve(lab: sf.Lab) -> Iterator[str]:
    """Yield the address of a server over a lab."""
    server = uvicorn.Server(uvicorn.Config(create_app(lab), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def open_page(
    browser: Browser, address: str, cookie: str | None, *, phone: bool = False, **more: Any
) -> Page:
    """Return a page of someone who is signed in."""
    context = browser.new_context(base_url=address, viewport=PHONE if phone else DESK, **more)
    if cookie is not None:
        context.add_cookies([{"name": "sfumato", "value": cookie, "url": address}])
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


def take_pictures(browser: Browser, address: str, cookies: dict[str, str], folder: Path) -> None:
    """Ask, release and look, as people would."""
    page = open_page(browser, address, cookies["ada"], color_scheme="dark")
    for sql, epsilon in SHOWN:
        ask(page, sql, epsilon)
        page.get_by_role("button", name="Release: charge and answer").click()
        page.get_by_role("heading", name="Numbers and intervals").wait_for(timeout=60_000)
        if sql == SHOWN[0][0]:
            shoot(page, folder / "answer-dark.png", 1450)
    page = open_page(browser, address, cookies["ada"])
    ask(page, ASKED, 0.2, preview=True)
    page.get_by_role("heading", name="On the twin").wait_for(timeout=60_000)
    shoot(page, folder / "ask.png", 1360)
    page = open_page(browser, address, cookies["ada"], phone=True, color_scheme="dark")
    ask(page, ASKED, 0.2)
    shoot(page, folder / "ask-phone.png")
    page = open_page(browser, address, cookies["maria"])
    page.goto("/")
    shoot(page, folder / "overview.png", 1200)
    page = open_page(browser, address, None)
    page.goto("/promise")
    page.locator(".card", has_text="50:50 unsure").first.screenshot(path=folder / "promise.png")


if __name__ == "__main__":
    import shutil

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "pages"
    path = next(filter(None, map(shutil.which, BROWSERS)))
    reply_when_ready()
    with tempfile.TemporaryDirectory() as kept, sync_playwright() as running:
        lab, cookies = make_lab(Path(kept) / "clinic")
        with serve(lab) as address:
            browser = running.chromium.launch(executable_path=path, args=FLAGS.split())
            take_pictures(browser, address, cookies, folder)
            browser.close()
