"""Backups from Python: made while a lab is in use, put back if nothing that was spent is forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import LedgerError, StewardWarning, UsageError

ROWS = pa.table({"x": [1, 2, 3]})
SAID = {"unit": sf.ROW, "columns": {"x": sf.between(0, 10, step=1)}, "budget": sf.Budget(4)}


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    lab.register("people", ROWS, **SAID)  # type: ignore[arg-type]
    return lab


def test_a_backup_is_restored_only_if_it_forgets_nothing(lab: sf.Lab, tmp_path: Path) -> None:
    count = lab.session().sql("SELECT COUNT(*) AS n FROM people")
    first = count.release(epsilon=1)
    assert lab.back_up(tmp_path / "old.sqlite").entries == lab.verify().entries
    count.release(epsilon=0.5)
    receipt = tmp_path / "receipt.json"
    receipt.write_text(lab.ledger.sign_receipt().to_json())
    lab.back_up(tmp_path / "new.sqlite")
    lab.ledger.close()
    for part in (tmp_path / "lab").glob("ledger.sqlite*"):
        if part.suffix != ".key":
            part.unlink()
    with pytest.raises(LedgerError):
        sf.restore(tmp_path / "lab", tmp_path / "old.sqlite", receipts=[receipt])
    sf.restore(tmp_path / "lab", tmp_path / "new.sqlite", receipts=[receipt])
    again = sf.open(tmp_path / "lab")
    assert again.budget.accounts[0].left_epsilon == 2.5
    kept = again.session().sql("SELECT COUNT(*) AS n FROM people").release(epsilon=1)
    assert kept.to_dict()["columns"] == first.to_dict()["columns"]


def test_a_copied_folder_is_accepted_with_a_receipt(lab: sf.Lab, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt.json"
    receipt.write_text(lab.ledger.sign_receipt().to_json())
    lab.ledger.close()
    shutil.copytree(tmp_path / "lab", tmp_path / "moved")
    shutil.rmtree(tmp_path / "lab")
    with pytest.raises(LedgerError):
        sf.open(tmp_path / "moved")
    sf.accept(tmp_path / "moved", receipts=[receipt])
    assert [table.name for table in sf.open(tmp_path / "moved").tables()] == ["people"]
    with pytest.raises(UsageError):
        sf.restore(tmp_path / "nowhere", "copy.sqlite")


def test_a_table_of_the_same_rows_is_hinted_at(lab: sf.Lab) -> None:
    with pytest.warns(StewardWarning, match="has the same columns as 'people'"):
        lab.register("again", ROWS, **SAID)  # type: ignore[arg-type]
