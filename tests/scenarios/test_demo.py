"""The demo prints every step in order and ends with a link that opens its pages."""

import re
import sys
from pathlib import Path

import pytest

import sfumato as sf
from serving import TestClient
from sfumato.cli import demo_pages
from sfumato.cli.demo import run
from sfumato.server.app import close_context, create_app

STEPS = (
    "1. Register",
    "Privacy budget of patient_id",
    "2. Quote",
    "Quote: ε = 0.5, charged to patient_id",
    "3. Release",
    "Charged ε = 0.5 to patient_id",
    "ward A  █",
    "4. A refusal",
    "SF-B102",
    "5. The same question again",
    "Free: the same answer",
    "6. A model",
    "scikit-learn, not private",
    "7. A synthetic table",
    "% in ward A",
    "8. An attack",
    "exact totals",
    "9. A histogram of 64,909 cells",
    "1,003.23    9,663",
    "10. The web pages",
    "sfumato serve ",
    "Open http",
)
"""What the demo prints, in this order."""


def test_the_demo_prints_every_step_in_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(str(tmp_path / "pictures"))
    # Standard output is no terminal here, so the command and the link are printed, and the demo ends.
    demo_pages.open_pages(folder, 8000, None)
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert len(lines) <= 90
    assert lines[-1].startswith("Open http://127.0.0.1:")
    places = [said.find(step) for step in STEPS]
    assert -1 not in places, STEPS[places.index(-1)]
    assert places == sorted(places)
    assert not re.search(r"\de\+\d", said)
    assert not re.search("filter|chain head|population account", said)
    assert "nan" not in said
    private, plain = (
        float(number) for number in re.findall(r"(?:ε = 0.5|not private) +([\d.]+) ?%", said)[:2]
    )
    assert private > plain - 5
    found, hidden = (float(share) for share in re.findall(r"totals +([\d.]+) ?%", said))
    assert (found, hidden < 40) == (100, True)
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {
        "clinic",
        "wards.png",
        "histogram.png",
        "histogram-errors.png",
    }
    _enter(folder, lines[-1].removeprefix("Open "))
    monkeypatch.delitem(sys.modules, "sfumato.server")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    demo_pages.open_pages(folder, 8000, None)
    assert "pip install 'sfumato[server]'" in capsys.readouterr().out


def _enter(folder: Path, link: str) -> None:
    """Follow the link: it signs the steward in once, and the pages show the answer."""
    site = link.partition("/enter/")[0]
    app = create_app(sf.open(folder))
    with TestClient(app, base_url=site, follow_redirects=False) as browser:
        entered = browser.get(link)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert browser.get("/api/me").json() == {"name": "steward", "role": "steward"}
        assert len(browser.get("/api/releases").json()["releases"]) == 1
        overview = browser.get("/", headers={"Accept": "text/html"}).text
        assert "patient_id" in overview
        assert "age &gt;= 65" in overview
        browser.cookies.clear()
        again = browser.get(link)
        assert again.status_code == 403
        assert not again.cookies
    close_context(app.state.context)


def test_a_port_that_is_taken_is_left_alone() -> None:
    import socket

    with socket.socket() as other:
        other.bind((demo_pages.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        assert demo_pages.find_port(taken) != taken
