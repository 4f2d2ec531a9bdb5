"""Packages: the answer, a paragraph, a card and receipts; only declared or released facts, no charge."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import sfumato as sf
from sfumato.errors import UsageError
from sfumato.lab.work.cards import _COMPOSED, _MECHANISMS
from sfumato.lab.work.packages import _require_place
from sfumato.ledger.receipts.checking import check_receipt
from sfumato.privacy.events.tags import EVENTS

SECRET = 4_711
ROWS = pa.table({"who": [SECRET, 2, 3], "x": [1, 2, 3], "ward": ["A", "B", "A"]})
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
FILES = ["README.md", "answer.csv", "answer.json", "answer.parquet", "card.json", "card.md", "methods.md"]


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1), "ward": sf.one_of("A", "B", missing="B")}
    unit = sf.Unit("who", 2, "patients")
    lab.register("visits", ROWS, unit=unit, columns=columns, budget=sf.Budget(4, 1e-6))
    lab.grant("ada", epsilon=3, delta=1e-6)
    return lab


def read_card(folder: Path) -> Any:
    return json.loads((folder / "card.json").read_text())


def test_an_answer_with_its_paragraph_card_and_receipt(lab: sf.Lab, tmp_path: Path) -> None:
    release = lab.session("ada").sql(BY_WARD).release(epsilon=0.5)
    head = lab.verify().head
    folder = lab.package(release, tmp_path / "pack", contact="privacy@clinic.example")
    entry = release.receipt.entry
    assert sorted(each.name for each in folder.iterdir()) == sorted([*FILES, f"receipt-{entry}.json"])
    assert lab.verify().head == head  # nothing was charged, and nothing written
    assert csv.read_csv(folder / "answer.csv").equals(release.to_arrow())
    assert parquet.read_table(folder / "answer.parquet").equals(release.to_arrow())
    assert json.loads((folder / "answer.json").read_text()) == release.to_dict()
    card = read_card(folder)
    assert (card["epsilon"], card["delta"], card["neighbours"]) == (0.5, 0.0, "add-remove")
    assert card["by"] == "ada"
    assert card["mechanisms"] == ["discrete Laplace noise on integers"]
    assert card["budget_of_the_population"] == {"epsilon": "4", "delta": "1/1000000"}
    root = Path(__file__).parents[4]
    assert all((root / note).is_file() for note in card["proofs"])
    said = (folder / "methods.md").read_text()
    for words in ("one 'who'", "ε = 0.5", "ε = 4", f"entry {entry}", "at most 62.3 times in 100", BY_WARD):
        assert words in said
    receipt = (folder / f"receipt-{entry}.json").read_text()
    assert check_receipt(lab.ledger, receipt).head == release.receipt.head


def test_every_kind_of_event_has_words_and_a_note() -> None:
    notes = Path(__file__).parents[4] / "docs" / "proofs"
    assert set(EVENTS) == {*_MECHANISMS, *_COMPOSED}
    assert all((notes / note).is_file() for _, note in _MECHANISMS.values())


def test_noise_in_the_shape_of_a_row_is_a_mechanism(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register("visits", ROWS, unit=sf.Unit("who", 2), columns=columns, budget=sf.Budget(4))
    release = lab.session().sql("SELECT VARIANCE(x) AS v FROM visits").release(epsilon=1)
    card = read_card(lab.package(release, tmp_path / "pack"))
    assert card["mechanisms"] == ["noise on several sums in the shape of what one row adds to them"]
    assert "docs/proofs/k-norm.md" in card["proofs"]
    assert "Mechanism: noise on several sums" in (tmp_path / "pack" / "methods.md").read_text()


def test_a_refined_answer_names_every_round_of_its_own_snapshot(lab: sf.Lab, tmp_path: Path) -> None:
    session = lab.session("ada")
    first = session.sql(BY_WARD).release(epsilon=0.5, delta=1e-7)
    refined = first.refine(epsilon=0.5, delta=1e-7)
    lab.advance("visits", ROWS)
    session.sql(BY_WARD).release(epsilon=0.5, delta=1e-7)
    card = read_card(lab.package(refined, tmp_path / "pack"))
    assert [each["entry"] for each in card["charges"]] == [first.receipt.entry, refined.receipt.entry]
    assert 0.5 < card["epsilon"] < 1
    assert card["delta"] == 1e-6
    again = read_card(lab.package(refined, tmp_path / "same", title="Wards | <b>old</b>"))
    assert again["title"] == "Wards | <b>old</b>"
    assert "Wards \\| &lt;b>old" in (tmp_path / "same" / "card.md").read_text()
    for name in ("README.md", "methods.md", "card.md"):
        assert "<b>" not in (tmp_path / "same" / name).read_text()


def test_published_questions(lab: sf.Lab, tmp_path: Path) -> None:
    lab.publish(BY_WARD, epsilon=0.25)
    (question,) = lab.published()
    assert read_card(lab.package(question, tmp_path / "a"))["epsilon"] == 0.25


@pytest.mark.slow
def test_synthetic_tables(lab: sf.Lab, tmp_path: Path) -> None:
    table = lab.publish(sf.synth.Marginals(epsilon=0.5), table="visits", columns=["x", "ward"], rows=20)
    twin = lab.publish(sf.synth.Twin(), table="visits", rows=10, name="stand-in")
    drawn = read_card(lab.package(table, tmp_path / "b"))
    assert (drawn["epsilon"], drawn["released"]) == (0.5, "a synthetic table")
    free = read_card(lab.package(twin, tmp_path / "c"))
    assert (free["epsilon"], free["charges"], free["proofs"]) == (0.0, [], [])
    assert "nothing was charged" in (tmp_path / "c" / "methods.md").read_text()


def test_a_zip_file_has_no_clock_in_it_and_nothing_of_the_rows(lab: sf.Lab, tmp_path: Path) -> None:
    release = lab.session().sql(BY_WARD).release(epsilon=0.5)
    one, two = (lab.package(release, tmp_path / f"{name}.zip") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(io.BytesIO(one.read_bytes())) as archive:
        assert archive.testzip() is None
        everything = b"".join(map(archive.read, archive.namelist()))
    assert str(SECRET).encode() not in everything
    assert str(lab.folder).encode() not in everything


def test_targets_that_would_be_overwritten_and_things_that_are_no_publication(
    lab: sf.Lab, tmp_path: Path
) -> None:
    release = lab.session().sql(BY_WARD).release(epsilon=0.5)
    taken = lab.package(release, tmp_path / "pack")
    zipped = lab.package(release, tmp_path / "pack.zip")
    for target in (taken, zipped, tmp_path / "none" / "pack", tmp_path / "none" / "a.zip", lab.folder):
        with pytest.raises(UsageError, match="SF-U102"):
            lab.package(release, target)
    (tmp_path / "empty").mkdir()
    lab.package(release, tmp_path / "empty")
    for other in (None, "SELECT 1", release.to_arrow(), lab):
        with pytest.raises(UsageError, match="SF-E260"):
            lab.package(other, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "proofs",
    ["javascript:alert(1)", "a b/", "https://x/<b>", "[x](https://y)", "", "//evil", "x\n# y", "a" * 400],
)
def test_a_card_names_its_proofs_by_a_plain_address(proofs: str) -> None:
    with pytest.raises(UsageError, match="SF-C201"):
        _require_place(proofs)


@pytest.mark.parametrize("proofs", ["docs/proofs/", "https://example.org:8443/a~b/%41", "proofs"])
def test_addresses_and_folders_of_proofs_get_a_slash(proofs: str) -> None:
    assert _require_place(proofs) == proofs.rstrip("/") + "/"
