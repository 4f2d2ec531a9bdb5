"""The demo runs to its end: quote, release, refusal when the quota is used up, and the first answer again."""

from pathlib import Path

import pytest

from sfumato.cli.demo import QUESTIONS, run


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(str(tmp_path / "pictures"))
    said = capsys.readouterr().out
    assert said.count("receipt: entry") == len(QUESTIONS)
    assert "SF-B102" in said
    assert "free: the same answer" in said
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {
        "wards.png",
        "histogram.png",
        "histogram-errors.png",
    }
