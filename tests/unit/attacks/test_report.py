"""A report prints itself, draws itself, and says when a ceiling is broken."""

from __future__ import annotations

import json

import pytest

import sfumato as sf
from sfumato.attacks import AttackReport, Outcome

REPORT = AttackReport(
    "example",
    "One bit.",
    "bits right",
    0.5,
    (Outcome("exact", 100, 100, error=0.0), Outcome("private", 60, 100, 0.73, error=1234.5)),
    ("A note.",),
)


def test_a_report_is_text_html_json_and_a_chart() -> None:
    assert str(REPORT).splitlines() == [
        "example: One bit.",
        "",
        "answers             bits right   of  ceiling  mean error",
        "exact                  100.0 %  100     none           0",
        "private                 60.0 %  100   73.0 %       1,234",
        "no answer: a guess      50.0 %",
        "",
        "A note.",
    ]
    assert "<td style='text-align:right'>73.0 %</td>" in REPORT._repr_html_()
    assert json.loads(json.dumps(REPORT.to_dict()))["outcomes"][1]["ceiling"] == 0.73
    marks = [layer["mark"]["type"] for layer in REPORT.plot().spec["layer"]]
    assert marks == ["bar", "tick", "rule"]
    assert REPORT.plot().title == "One bit."


def test_raw_and_private_outcomes_are_told_apart() -> None:
    assert REPORT.raw.against == "exact"
    assert REPORT.private.against == "private"
    assert REPORT["private"].success == 0.6
    assert not REPORT.breaks_ceiling


def test_a_broken_ceiling_is_seen() -> None:
    assert Outcome("leaky", 100, 100, 0.73).breaks_ceiling
    assert not Outcome("lucky", 80, 100, 0.73).breaks_ceiling
    assert not Outcome("raw", 100, 100).breaks_ceiling


def test_small_shares_are_not_shown_as_nothing() -> None:
    from sfumato.attacks.report import share_text

    assert [share_text(share) for share in (0, 1e-6, 0.25)] == ["0.0 %", "0.0001 %", "25.0 %"]


def test_an_unknown_attack_is_refused_with_a_near_name() -> None:
    with pytest.raises(sf.errors.UsageError, match=r"SF-U101[\s\S]*hint +differencing"):
        sf.attacks.run_attack("diferencing")
