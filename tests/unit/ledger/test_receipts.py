"""Signed heads: who holds one can tell an old copy, and nobody without the key can make one."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import Charged, Released, SignedHead, SqliteLedger
from sfumato.ledger.receipts import checking, signing
from sfumato.ledger.sqlite.backup import accept_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

VERIFIER = Path(__file__).parents[3] / "tools" / "verify_ledger.py"


@pytest.fixture
def signed(filled: SqliteLedger) -> SignedHead:
    pytest.importorskip("cryptography", reason="signatures come with the receipts extra")
    return filled.sign_receipt()


def test_the_key_is_its_owners_alone_and_stays(path: Path, ledger: SqliteLedger) -> None:
    key = Path(f"{path}.key")
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    before = key.read_text()
    signing.SigningKey(key).create()
    assert (len(before), key.read_text(), len(list(path.parent.glob("*.key*")))) == (64, before, 1)


def test_a_receipt_is_borne_out_by_its_ledger(filled: SqliteLedger, signed: SignedHead) -> None:
    assert (signed.entry, signed.head) == (7, filled.verify().head)
    checked = checking.check_receipt(filled, signed.to_json())
    assert str(checked) == "The ledger holds entry 7 of this receipt (signed by this ledger)."
    assert filled.sign_receipt(3).entry == 3
    assert filled.sign_receipt(3).public_key == signed.public_key == filled.read_public_key()


@pytest.mark.usefixtures("signed")
def test_only_entries_that_are_there_are_signed(filled: SqliteLedger) -> None:
    for seq in (0, 8):
        with pytest.raises(UsageError, match="SF-U101"):
            filled.sign_receipt(seq)


def test_a_receipt_proves_that_a_copy_put_back_is_old(
    path: Path, filled: SqliteLedger, ask: Callable[..., Charge], tmp_path: Path, signed: SignedHead
) -> None:
    filled.close()
    shutil.copy(path, tmp_path / "backup")
    with closing(SqliteLedger.open(path)) as ledger:
        ledger.charge(ask("after the backup"))
        newer = ledger.sign_receipt()
    shutil.copy(tmp_path / "backup", path)
    Path(f"{path}.mark").unlink()
    accept_ledger(path, unproven=True)
    with closing(SqliteLedger.open(path)) as restored:
        assert checking.check_receipt(restored, signed.to_json()).entry == 7
        with pytest.raises(LedgerError, match=r"SF-L132.*\n.*signed by this ledger"):
            checking.check_receipt(restored, newer.to_json())


@pytest.mark.parametrize("field", ["entry", "head", "public_key", "signature"])
def test_a_changed_receipt_proves_nothing(filled: SqliteLedger, signed: SignedHead, field: str) -> None:
    fields = signed.to_dict()
    old = fields[field]
    fields[field] = old + 1 if isinstance(old, int) else ("0" if old[0] != "0" else "1") + old[1:]
    with pytest.raises(LedgerError, match="SF-L114"):
        checking.check_receipt(filled, json.dumps(fields))


def test_another_ledgers_receipt_is_told(tmp_path: Path, filled: SqliteLedger, signed: SignedHead) -> None:
    wanted = pytest.raises(LedgerError, match=r"SF-L132.*\n.*signed with another key")
    with closing(SqliteLedger.create(tmp_path / "other")) as other, wanted:
        checking.check_receipt(other, signed.to_json())


def test_a_plain_receipt_is_looked_up_too(filled: SqliteLedger) -> None:
    head = filled.verify().head
    for text in (json.dumps({"head": head}), json.dumps({"receipt": {"head": head, "entry": 3}})):
        assert checking.check_receipt(filled, text).signed == "not signed"
    with pytest.raises(LedgerError, match="SF-L132"):
        checking.check_receipt(filled, json.dumps({"head": "0" * 64}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"head":3}', '{"receipt":3}', "[" * 100_000])
def test_what_is_no_receipt_is_refused(filled: SqliteLedger, text: str) -> None:
    with pytest.raises(UsageError, match="SF-L114"):
        checking.check_receipt(filled, text)


def test_without_the_package_charges_go_on_and_signing_says_what_is_missing(
    filled: SqliteLedger, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    monkeypatch.setattr(signing, "_is_installed", lambda: False)
    with pytest.raises(UsageError, match="SF-N113"):
        filled.sign_receipt()
    text = SignedHead(7, "0" * 64, "0" * 64, "0" * 128).to_json()
    with pytest.raises(UsageError, match="SF-N113"):
        checking.check_receipt(filled, text)
    filled.charge(ask("goes on"))
    assert filled.verify().entries == 8


def test_a_key_that_cannot_be_read_is_told(path: Path, filled: SqliteLedger, signed: SignedHead) -> None:
    Path(f"{path}.key").write_text("not a key")
    with pytest.raises(LedgerError, match="SF-L115"):
        filled.sign_receipt()


def test_a_lost_key_is_missed_and_made_anew_only_on_request(
    path: Path, filled: SqliteLedger, signed: SignedHead
) -> None:
    key = Path(f"{path}.key")
    key.unlink()
    for call in (filled.sign_receipt, filled.read_public_key):
        with pytest.raises(LedgerError, match="SF-L115"):
            call()
    assert not key.exists()
    said = checking.check_receipt(filled, signed.to_json()).signed
    assert said == f"signed with {signed.public_key}; this ledger's own key is missing"
    assert filled.create_key() == filled.read_public_key() != signed.public_key
    assert checking.check_receipt(filled, signed.to_json()).signed == "signed with another key"


@pytest.mark.usefixtures("signed")
def test_every_answer_has_a_signed_receipt(filled: SqliteLedger, ask: Callable[..., Charge]) -> None:
    charged = filled.charge(ask("signed"))
    assert isinstance(charged, Charged)
    first, again = filled.release(charged, "42"), filled.charge(ask("signed"))
    assert isinstance(again, Released)
    assert first.signed == again.signed == filled.sign_receipt(first.entry)
    assert first.signed is not None
    assert (first.signed.is_genuine(), first.signed.entry) == (True, charged.seq + 1)


def test_an_answer_without_a_key_is_given_unsigned(
    path: Path, filled: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    Path(f"{path}.key").unlink()
    charged = filled.charge(ask("unsigned"))
    assert isinstance(charged, Charged)
    assert filled.release(charged, "42").signed is None


def test_the_receipt_of_a_labs_answer_convinces_others(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures come with the receipts extra")
    lab, answer, export = sf.create(tmp_path / "lab"), tmp_path / "answer.json", tmp_path / "export.jsonl"
    rows = pa.table({"who": [1, 2], "cost": [1.0, 2.0]})
    told = {"unit": sf.Unit("who", max_rows=1), "columns": {"cost": sf.between(0, 9)}, "budget": sf.Budget(4)}
    lab.register("visits", rows, **told)
    release = lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1)
    fields = {"receipt": release.receipt.to_dict()}
    answer.write_text(json.dumps(fields))
    assert checking.check_receipt(lab.ledger, answer.read_text()).signed == "signed by this ledger"
    with export.open("w", encoding="utf-8") as file:
        lab.ledger.export(file)
    key = lab.ledger.read_public_key()
    assert f"holds, signed with {key}" in verified(export, answer, "--key", key).stdout
    fields["receipt"]["signed"]["entry"] += 1
    answer.write_text(json.dumps(fields))
    assert "its signature is wrong" in verified(export, answer).stdout
    with pytest.raises(LedgerError, match="SF-L114"):
        checking.check_receipt(lab.ledger, answer.read_text())


def verified(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(VERIFIER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_verifier_that_is_not_ours_checks_signatures(
    filled: SqliteLedger, signed: SignedHead, tmp_path: Path
) -> None:
    exported, export, receipt = io.StringIO(), tmp_path / "export.jsonl", tmp_path / "receipt.json"
    filled.export(exported)
    export.write_text(exported.getvalue() + signed.to_json() + "\n")
    receipt.write_text(filled.sign_receipt(4).to_json())
    done = verified(export, receipt, "--key", signed.public_key)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(f"signed with {signed.public_key}") == 2
    assert "not signed with this key" in verified(export, "--key", "0" * 64).stdout
    receipt.write_text(filled.sign_receipt(4).to_json().replace(signed.public_key[:4], "0000"))
    assert "its signature is wrong" in verified(export, receipt).stdout
    export.write_text(exported.getvalue() + filled.sign_receipt(4).to_json())
    assert "it signs another head" in verified(export).stdout
    export.write_text(signed.to_json() + "\n" + exported.getvalue())
    assert verified(export).returncode == 1


def test_the_commands_of_an_auditor(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures come with the receipts extra")
    lab, receipt, export = tmp_path / "lab", tmp_path / "receipt.json", tmp_path / "export.jsonl"
    with closing(sf.create(lab).ledger) as ledger:
        ledger.open_account("population:patient_id", sf.Budget(1))

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, ["ledger", *map(str, arguments), "--lab", str(lab)])

    key = run("key").stdout.strip()
    assert run("new-key").stdout.strip() == key  # it is there
    assert "a signed receipt of entry 2" in run("receipt", "--output", receipt).stdout
    assert json.loads(run("receipt", "--entry", 2).stdout) == json.loads(receipt.read_text())
    assert "holds entry 2 of this receipt (signed by this ledger)" in run("check-receipt", receipt).stdout
    assert run("export", "--output", export).stdout == f"Wrote 2 entries to {export}.\n"
    assert f"signed with {key}" in verified(export, receipt, "--key", key).stdout
    receipt.write_text(json.dumps({"head": "0" * 64}))
    refused = run("check-receipt", receipt)
    assert (refused.exit_code != 0, "SF-L132" in refused.stderr) == (True, True)
