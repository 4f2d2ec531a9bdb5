"""Bars count rounds, on the error stream, and only where someone watches for a while."""

from __future__ import annotations

import pytest

from sfumato.learn.base import progress


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


def test_a_short_fit_shows_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_watched", lambda: True)
    assert list(progress.show_rounds(3, "descent")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")
