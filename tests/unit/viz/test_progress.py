"""Bars count rounds, on the error stream, and only where someone watches for a while."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sfumato import learn
from sfumato.viz import progress


def test_rounds_are_numbered_and_nothing_is_shown_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    assert list(progress.show_rounds(3, "descent")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_long_fit_that_is_watched_shows_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_watched", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal would be
    assert list(progress.show_rounds(3, "descent")) == [0, 1, 2]
    assert "descent" in capsys.readouterr().err


def test_a_notebook_gets_one_output_that_is_replaced_and_no_widget(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Output:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    # IPython is not among the test tools; this is what its `display` gives back.
    notebook = ModuleType("IPython.display")
    notebook.display = lambda *_, **__: Output()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr(progress, "_PATIENCE", -1.0)
    assert list(progress.show_rounds(3, "descent")) == [0, 1, 2]
    assert shown[0] == "descent  ██████████░░░░░░░░░░░░░░░░░░░░  1 of 3"
    assert shown[-1] == ""
    assert capsys.readouterr() == ("", "")


def test_a_short_fit_shows_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_watched", lambda: True)
    monkeypatch.setattr(progress, "_PATIENCE", 300.0)
    assert list(progress.show_rounds(3, "descent")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_rounds_are_printed_where_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"epsilon": 1, "bounds": (-1, 1), "classes": [0, 1]}
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    target = (rows[:, 0] > 0).astype(int)
    learn.Perceptron(rounds=2, scaling=None, verbose=True, **given).fit(rows, target)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"Perceptron: round {at} is charged" for at in (1, 2)]
