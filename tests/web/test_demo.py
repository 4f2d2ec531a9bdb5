"""The tour as a newcomer has it: a command prints a link, which opens the Overview with data on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, save_screenshot

from free_port import reserve_port
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.web.conftest import OpenPage

PROGRAM = "from sfumato.cli.main import main; main()"


@pytest.mark.slow
def test_the_link_of_the_demo_opens_the_overview(tmp_path: Path, open_page: OpenPage) -> None:
    with ExitStack() as stack:
        typed = [
            "demo",
            "--output",
            str(tmp_path / "demo"),
            "--port",
            str(stack.enter_context(reserve_port())),
        ]
        demo = subprocess.Popen(
            [sys.executable, "-u", "-W", "ignore", "-c", PROGRAM, *typed, "--serve"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.enter_context(demo)
        stack.callback(demo.terminate)
        assert demo.stdout is not None
        link = next(found[0] for line in demo.stdout if (found := re.search(r"http://\S+/enter/\S+", line)))
        wait_until(lambda: answers(link), "the demo serves its pages")
        page = open_page(None)
        page.goto(link)
        expect(page).to_have_title(re.compile("Overview"))
        expect(page.get_by_text("Population patient_id")).to_be_visible()
        latest = page.get_by_role("region", name="Latest answers").get_by_role("listitem")
        expect(latest).to_have_count(1)
        left = page.get_by_role("img", name=re.compile("ε left after each charge"))
        expect(left.locator("svg").first).to_be_visible()
        check_accessibility(page)
        save_screenshot(page, "demo-overview")


def answers(link: str) -> bool:
    """Return whether the server of a link answers. The link itself works once, so it is not followed."""
    try:
        urllib.request.urlopen(urllib.parse.urljoin(link, "/healthz"), timeout=PATIENCE).close()
    except OSError:
        return False
    return True
