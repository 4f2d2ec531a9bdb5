"""Linkage names rows without names; noisy cells stay under the ceiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.datasets import read_csv
from sfumato.attacks.linkage import find_alone
from sfumato.attacks.named_linkage import YEAR
from sfumato.attacks.people import ALONE, draw_people

Files = Callable[[str], Path]


@pytest.fixture
def data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv("SFUMATO_DATA", str(data_folder))
    return lambda name: data_folder / name


def test_generated_people_are_alone_by_postal_code_birth_date_and_sex() -> None:
    drawn = draw_people(10_000, np.random.default_rng(0))
    rows = list(zip(*(column.tolist() for column in drawn.values()), strict=True))
    assert sf.attacks.unique_share(rows) >= 0.99


def test_linkage_reads_rows_and_not_noisy_cells() -> None:
    report = sf.attacks.linkage(people=4000)
    assert report.raw.success >= 0.99
    assert not report.breaks_ceiling
    assert report.private.trials > 3000
    # It reaches the ceiling of ε = 1, so that of ε = 0.4 is seen to be false, but for a chance below 1e-9.
    assert replace(report.private, ceiling=sf.attacks.guess_ceiling(0.4)).breaks_ceiling
    published = [f"{100 * share:.0f} % in Cambridge" for _, _, share in ALONE]
    assert published == [f"{each} % in Cambridge" for each in (12, 29, 69, 97)]
    assert all(any(each in note for note in report.notes) for each in published)


def test_links_are_of_what_is_alone_in_both_lists() -> None:
    assert sf.attacks.link_unique(["a", "b", "b", "c"], ["c", "a", "a", "b"]) == [(3, 0)]
    assert find_alone([]).tolist() == []
    assert sf.attacks.unique_share([]) == 0


def test_every_unique_match_of_a_voter_is_right(data_file: Files, data: Files) -> None:
    data_file("linkage/synthetic_voters_ma2019.csv.gz")
    survey, voters = read_csv("nist_acs/ma2019.csv.gz"), read_csv("linkage/synthetic_voters_ma2019.csv.gz")
    key = read_csv("linkage/synthetic_voters_ma2019_key.csv.gz")
    years = [str(YEAR - int(age)) for age in survey["AGEP"]]
    rows = list(zip(years, survey["SEX"], survey["PUMA"], survey["RAC1P"], strict=True))
    listed = list(zip(voters["birth_year"], voters["sex"], voters["puma"], voters["race"], strict=True))
    pairs = sf.attacks.link_unique(listed, rows)
    true = dict(zip(key["voter_id"], map(int, key["acs_row"]), strict=True))
    assert len(pairs) == 245
    assert all(true[voters["voter_id"][voter]] == row for voter, row in pairs)
    report = sf.attacks.voter_linkage()
    assert report.raw.success == 1
    assert report.private.trials == 245
    assert not report.breaks_ceiling


def test_names_with_typing_errors_are_joined(data_file: Files, data: Files) -> None:
    data_file("febrl/dataset4a.csv.gz")
    report = sf.attacks.name_linkage()
    assert report.raw.success > 0.9
    assert report.notes[0] == "0 of 4,587 matches are wrong."
    assert "given name, surname, date of birth 42 %; surname, date of birth 59 %" in report.notes[1]
    assert not report.breaks_ceiling


def test_a_missing_data_set_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    with pytest.raises(sf.errors.UsageError, match="SF-C202"):
        sf.attacks.voter_linkage()
