"""What browser tests share: one real server over a small lab, one browser, and pages that tell complaints.

    def test_something(open_page):
        page = open_page("ada")       # signed in; None is not, phone=True is narrow
        page.goto("/ask")
        ...                           # in the end nobody may have complained

People of the server: `maria` (steward), `ada` and `bob` (analysts, quota ε = 1), `otto` (auditor); each one's
password is PASSWORD. `lab_server.tokens[name]` is a token for the API, `lab_server.folder` the lab.
`check_accessibility(page)` runs axe-core; `save_screenshot(page, name)` writes to SFUMATO_SCREENSHOTS.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.cli.clinic import visits
from waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

HERE = Path(__file__).parent
PASSWORD = "a long enough password"
ROLES = {"maria": "steward", "ada": "analyst", "bob": "analyst", "otto": "auditor"}
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)
OpenPage = Callable[..., "Page"]
_MILLISECONDS = 1000 * PATIENCE
"""How long a page may take, however busy the machine is."""


@dataclass(frozen=True)
class LabServer:
    """A server that runs in a process of its own, and the lab that it serves."""

    address: str
    folder: Path
    tokens: dict[str, str]


@dataclass
class Complaints:
    """What browsers complained about: errors of the console and of scripts, violations of the policy."""

    said: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self._hear("error", str(error)))

    def _hear(self, kind: str, text: str) -> None:
        # A page that answers with an error is part of many stories, and the browser says so by itself.
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.said.append(f"{kind}: {text}")


# Violations are reported to the console too, but only this tells them from everything else.
_REPORT_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});"""


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server over a clinic with 1,500 patients."""
    folder = tmp_path_factory.mktemp("web") / "clinic"
    tokens = make_lab(folder)
    with run_server(folder) as address:
        yield LabServer(address, folder, tokens)


def make_lab(folder: Path) -> dict[str, str]:
    """Make a small clinic with people who may use its server, and return a token of each."""
    from sfumato.server.people import PeopleStore

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
    for analyst in ("ada", "bob"):
        lab.grant(analyst, epsilon=1, delta=1e-8)
    people = PeopleStore(folder / "people.sqlite")
    tokens = {}
    for name, role in ROLES.items():
        people.add_person(name, role)
        people.set_password(name, PASSWORD)
        tokens[name] = people.make_token(name)
    people.close()
    return tokens


@contextmanager
def run_server(folder: Path) -> Iterator[str]:
    """Yield the address of a server in a process of its own, which ends with the block."""
    log = folder.parent / "server.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(HERE / "serve_lab.py"), str(folder)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"the server did not start:\n{log.read_text()}")
            try:
                urllib.request.urlopen(f"{address}/healthz", timeout=PATIENCE).close()
            except OSError:
                raise RuntimeError(f"the server does not answer:\n{log.read_text()}") from None
            yield address
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this machine."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_MILLISECONDS)
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"NO BROWSER: none of {', '.join(BROWSERS)} is installed")
    running = sync_playwright().start()
    browser = running.chromium.launch(executable_path=path, headless=True, args=FLAGS.split())
    yield browser
    _mark_loop()
    browser.close()
    running.stop()
    asyncio._set_running_loop(None)


_LOOPS: list[asyncio.AbstractEventLoop] = []
"""The event loop of Playwright, between tests."""


def _mark_loop() -> None:
    if _LOOPS:
        asyncio._set_running_loop(_LOOPS.pop())


@pytest.fixture(autouse=True)
def _own_loop_only() -> Iterator[None]:
    """Playwright's event loop is marked as running between its calls, which other tests must not see."""
    _mark_loop()
    yield
    running = asyncio._get_running_loop()
    if running is not None:
        _LOOPS.append(running)
        asyncio._set_running_loop(None)


@pytest.fixture
def new_context(browser: Browser, lab_server: LabServer) -> Iterator[Callable[..., BrowserContext]]:
    """Make a browser context, as `browser.new_context` does, with the server's address; closed at the end."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(**{"base_url": lab_server.address, "viewport": DESK, **options})
        context.set_default_timeout(_MILLISECONDS)
        context.add_init_script(_REPORT_VIOLATIONS)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def open_page(new_context: Callable[..., BrowserContext], lab_server: LabServer) -> Iterator[OpenPage]:
    """Open a page in a context of its own, signed in as someone. At the end no page may have complained."""
    complaints = Complaints()

    def open_(name: str | None, *, phone: bool = False, **options: Any) -> Page:
        context = new_context(**{"viewport": PHONE if phone else DESK, **options})
        page = context.new_page()
        complaints.watch(page)
        if name is not None:
            sign_in(context, lab_server, name)
        return page

    yield open_
    assert complaints.said == []


def sign_in(context: BrowserContext, server: LabServer, name: str) -> None:
    """Give a context the cookie of someone who signed in. The form itself has a test of its own."""
    from sfumato.server.people import PeopleStore

    people = PeopleStore(server.folder / "people.sqlite")
    token = people.make_token(name, purpose="page")
    people.close()
    context.add_cookies([{"name": "sfumato", "value": token, "url": server.address}])


def check_accessibility(page: Page, *rules: str) -> None:
    """Fail if axe-core finds anything on the page as it is now; with `rules`, anything against these."""
    # Evaluated by the debugger and not by the page, so the policy of the page stays as strict as it is.
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate((HERE / "axe.min.js").read_text(encoding="utf-8"))
    asked = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("asked => axe.run(document, asked)", asked)
    said = [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        + "; ".join(node["html"][:200] for node in each["nodes"])
        for each in found["violations"]
    ]
    assert said == [], "\n".join(said)


def check_width(page: Page) -> None:
    """Fail if the page can be scrolled sideways."""
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1], f"the page is {widths[0]} wide on a screen of {widths[1]}"


def save_screenshot(page: Page, name: str) -> None:
    """Write a picture of the whole page to the folder SFUMATO_SCREENSHOTS, if that is set."""
    folder = os.environ.get("SFUMATO_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
