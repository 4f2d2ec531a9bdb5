"""The tour as a newcomer has it: a command prints a link, which opens the Overview with data on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, save_screenshot

from sfumato.cli.demo_pages import find_port

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.web.conftest import OpenPage

PROGRAM = "from sfumato.cli.main import main; main()"


@pytest.mark.slow
def test_the_link_of_the_demo_opens_the_overview(tmp_path: Path, open_page: OpenPage) -> None:
    typed = ["demo", "--output", str(tmp_path / "demo"), "--port", str(find_port(0)), "--serve"]
    demo = subprocess.Popen(
        [sys.executable, "-u", "-W", "ignore", "-c", PROGRAM, *typed],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    try:
        link = next(found[0] for line in demo.stdout if (found := re.search(r"http://\S+/enter/\S+", line)))
        page = open_page(None)
        open_once_served(page, link)
        expect(page).to_have_title(re.compile("Overview"))
        expect(page.get_by_text("Population patient_id")).to_be_visible()
        answers = page.get_by_role("region", name="Latest answers").get_by_role("listitem")
        expect(answers).to_have_count(1)
        left = page.get_by_role("img", name=re.compile("ε left after each charge"))
        expect(left.locator("svg").first).to_be_visible()
        check_accessibility(page)
        save_screenshot(page, "demo-overview")
    finally:
        demo.terminate()
        demo.communicate()


def open_once_served(page: Page, link: str) -> None:
    """Follow a link as soon as there is a server: a link that was refused would be used up by no one."""
    for _ in range(600):
        try:
            page.goto(link)
            return
        except PlaywrightError:
            time.sleep(0.1)
    raise AssertionError("no server answers")
