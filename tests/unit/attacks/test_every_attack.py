"""Every attack of the catalogue wins on raw answers and stays under the ceiling on private ones.

Raw outcomes are the same in every run, but for fresh noise, whose chances are stated. A ceiling counts as
broken when so many right guesses have a chance below 1e-9 under it (docs/proofs/attacks.md).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.refusals import Guard

SMALL: dict[str, tuple[dict[str, Any], float]] = {
    "linkage-ratings": ({"users": 150, "pairs": (1, 4)}, 0.98),
    "composition": ({"targets": 60, "others": 3000}, 0.75),
    "completion": ({"targets": 40}, 1.0),
    "membership-means": ({"trials": 60}, 0.97),
    "membership-models": ({"rows": 80, "features": 80, "shadows": 16}, 0.8),
    "membership-synthetic": ({"people": 200}, 0.95),
    # A majority of 101 reports is wrong with chance 1e-6: five people of 300 are with chance 1e-20.
    "survey-averaging": ({"people": 300}, 0.98),
}
"""Options of a small run, and how often it is right on raw answers at least."""
ELSEWHERE = {
    "differencing",
    "green-hair",
    "asking-again",
    "refusals",
    "reconstruction",
    "linkage",
    "linkage-voters",
    "linkage-names",
}
"""Attacks with tests of their own, here or beside this file."""


@pytest.mark.parametrize("name", SMALL)
def test_an_attack_wins_on_raw_answers_and_breaks_no_ceiling(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(each.dataset for each in sf.attacks.list_attacks() if each.name == name):
        monkeypatch.setenv("SFUMATO_DATA", str(request.getfixturevalue("data_folder")))
    options, least = SMALL[name]
    report = sf.attacks.run_attack(name, **options)
    assert report.attack == name
    assert report.raw.success >= least
    assert report.raw.success > report.baseline + 0.25
    assert not report.breaks_ceiling
    assert name in str(report)
    assert report.plot().spec["layer"]


def test_every_attack_is_tested() -> None:
    assert {each.name for each in sf.attacks.list_attacks()} == SMALL.keys() | ELSEWHERE


def test_small_groups_that_are_refused_are_found_through_large_ones() -> None:
    report = sf.attacks.green_hair(trials=200)
    assert report["the exact average"].success == 1
    assert report["none of fewer than 5 people"].success < 0.5
    assert report["the same, from two larger groups"].success == 1
    assert not report.breaks_ceiling


def test_one_k_anonymous_table_tells_little_and_two_tell_nearly_all() -> None:
    rows = np.column_stack([np.random.default_rng(1).integers(0, 40, 500) for _ in range(3)])
    groups = sf.attacks.group_anonymously(rows, 7)
    assert sorted(np.concatenate(groups)) == list(range(500))
    assert min(map(len, groups)) >= 7
    assert len(groups) > 20


def test_the_guard_gives_nothing_away_by_its_answers() -> None:
    """All tables of six bits: by the answers alone every bit can be either, so what leaks is refusals."""
    tables = [np.array(bits) for bits in product((0, 1), repeat=6)]
    for bits in tables:
        guard = Guard(bits)
        total = guard.ask_total()
        if total is None:
            continue
        answered = [first for first in range(5) if guard.ask_pair(first) is not None]
        fitting = [
            other
            for other in tables
            if other.sum() == total and all(other[first] + other[first + 1] == 1 for first in answered)
        ]
        assert all(set(column) == {0, 1} for column in np.array(fitting).T)


def test_a_guard_leaks_by_refusals_and_a_lab_refuses_alike_whatever_the_rows_are() -> None:
    reports = [sf.attacks.refusals(people=30, trials=5, seed=seed) for seed in (0, 1)]
    assert all(report.raw.success >= 0.95 for report in reports)
    assert not any(report.breaks_ceiling for report in reports)
    assert {report.notes for report in reports} == {
        ("The lab answered 3 questions and refused the next, in every world alike.",)
    }
