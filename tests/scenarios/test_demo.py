"""The demo runs to its end: quote, release, refusal when the quota is used up, a model, and the pages."""

import sys
from pathlib import Path

import pytest

import sfumato as sf
from serving import TestClient
from sfumato.cli import demo_pages
from sfumato.cli.demo import QUESTIONS, run
from sfumato.server.app import close_context, create_app


def test_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(str(tmp_path / "pictures"))
    said = capsys.readouterr().out
    assert said.count("receipt: entry") == len(QUESTIONS)
    assert "SF-B102" in said
    assert "free: the same answer" in said
    assert "synthetic table of 'visits'" in said
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {
        "clinic",
        "wards.png",
        "histogram.png",
        "histogram-errors.png",
    }
    lab = sf.open(folder)
    assert [each.name for each in lab.projects()] == ["readmissions"]
    assert len(lab.requests()) == 1
    # Nobody sits at a terminal here, so the command and the link are printed, and the demo ends.
    demo_pages.open_pages(folder, 8000, None)
    said = capsys.readouterr().out
    assert f"sfumato serve {folder} --port 8000" in said
    link = next(word for word in said.split() if word.startswith("http://127.0.0.1:8000/enter/"))
    app = create_app(lab)
    with TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False) as browser:
        entered = browser.get(link)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert browser.get("/api/me").json() == {"name": "steward", "role": "steward"}
        assert browser.get("/api/projects").json()["projects"][0]["project"] == "readmissions"
        assert len(browser.get("/api/releases").json()["releases"]) == len(QUESTIONS)
        overview = browser.get("/", headers={"Accept": "text/html"}).text
        assert "patient_id" in overview
        assert "readmitted" in overview
        browser.cookies.clear()
        again = browser.get(link)
        assert again.status_code == 403
        assert not again.cookies
    close_context(app.state.context)
    monkeypatch.delitem(sys.modules, "sfumato.server")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    demo_pages.open_pages(folder, 8000, None)
    assert "pip install 'sfumato[server]'" in capsys.readouterr().out


def test_a_port_that_is_taken_is_left_alone() -> None:
    import socket

    with socket.socket() as other:
        other.bind((demo_pages.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        assert demo_pages.find_port(taken) != taken
