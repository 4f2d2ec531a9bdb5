"""Someone with the file in their hands: every change is caught, and then nothing is served."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Charged, SqliteLedger
from sfumato.ledger.chain import hash_entry, hash_text
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.privacy import NOTHING, Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.ledger import Charge

PEOPLE = "population:patient_id"


def tamper(path: Path, *statements: str) -> None:
    """With the triggers out of the way, and put back afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert db.execute(statement).rowcount != 0
        for _, sql in triggers:
            db.execute(sql)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


CHANGES = {
    "amount": (
        "SF-L101",
        """UPDATE entries SET body = replace(body, '"pure":1', '"pure":0') WHERE seq = 3""",
    ),
    "budget": (
        "SF-L101",
        """UPDATE entries SET body = replace(body, '"epsilon":"4"', '"epsilon":"9"') WHERE seq = 1""",
    ),
    "kind": ("SF-L101", "UPDATE entries SET kind = 'grant' WHERE seq = 1"),
    "link": ("SF-L101", "UPDATE entries SET prev = hash WHERE seq = 4"),
    "hash": ("SF-L101", "UPDATE entries SET hash = prev WHERE seq = 7"),
    "row removed": ("SF-L101", "DELETE FROM entries WHERE seq = 3"),
    "first row removed": ("SF-L101", "DELETE FROM entries WHERE seq = 1"),
    "last row removed": ("SF-L101", "DELETE FROM entries WHERE seq = 7"),
    "row added": (
        "SF-L101",
        "INSERT INTO entries SELECT 8, kind, body, prev, hash FROM entries WHERE seq = 7",
    ),
    "rows swapped": (
        "SF-L101",
        "UPDATE entries SET seq = CASE seq WHEN 3 THEN -5 WHEN 5 THEN -3 ELSE seq END",
    ),
    "end": ("SF-L101", "UPDATE ledger SET entries = 6"),
    "head": ("SF-L101", "UPDATE ledger SET head = lower(hex(randomblob(32)))"),
    "end moved back": (
        "SF-L101",
        "UPDATE ledger SET (entries, head) = (SELECT seq, hash FROM entries WHERE seq = 6)",
    ),
    "two ends": ("SF-L103", "INSERT INTO ledger SELECT 2, identity, entries, head FROM ledger"),
    "answer": ("SF-L101", "UPDATE answers SET answer = 'another' WHERE charge = 3"),
    "answers swapped": ("SF-L101", "UPDATE answers SET answer = (SELECT max(answer) FROM answers)"),
    "answer removed": ("SF-L101", "DELETE FROM answers WHERE charge = 3"),
    "answer to the lost": ("SF-L101", f"INSERT INTO answers VALUES (7, '{'0' * 64}', 'made up')"),
    "nonce": ("SF-L101", "UPDATE answers SET nonce = lower(hex(randomblob(32))) WHERE charge = 3"),
    "nonce and answer swapped": (
        "SF-L101",
        "UPDATE answers SET (nonce, answer) = (SELECT nonce, answer FROM answers WHERE charge = 5)",
    ),
    "a line moved into the nonce": (
        "SF-L101",
        """UPDATE answers SET nonce = nonce || char(10) || 'answer to first', answer = 'in two lines'
        WHERE charge = 3""",
    ),
    "newer version": ("SF-L103", "UPDATE ledger SET version = 6"),
    "older version": ("SF-L103", "UPDATE ledger SET version = 1"),
    "no version": ("SF-L103", "DELETE FROM ledger"),
    "more tables": ("SF-L103", "CREATE TABLE notes (note TEXT)"),
    "no text": ("SF-L106", "UPDATE answers SET answer = CAST(x'ff' AS TEXT) WHERE charge = 3"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_caught_at_the_next_start(path: Path, filled: SqliteLedger, change: str) -> None:
    filled.close()
    SqliteLedger.open(path).close()
    code, statement = CHANGES[change]
    fixing = "UPDATE entries SET seq = abs(seq)" if change == "rows swapped" else "SELECT 1"
    tamper(path, statement, fixing)
    with pytest.raises(LedgerError, match=code):
        SqliteLedger.open(path)


@pytest.mark.parametrize("trigger", ["entries_stay", "entries_remain"])
def test_a_missing_trigger_is_caught(path: Path, filled: SqliteLedger, trigger: str) -> None:
    filled.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"DROP TRIGGER {trigger}")
    with pytest.raises(LedgerError, match="SF-L103"):
        SqliteLedger.open(path)


@pytest.mark.parametrize("statement", ["UPDATE entries SET kind = 'grant'", "DELETE FROM entries"])
def test_entries_can_only_be_added(path: Path, filled: SqliteLedger, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError, match="never"):
        db.execute(statement)
    assert filled.verify().entries == 7


def test_a_chain_hashed_anew_does_not_end_where_it_was_noted(path: Path, filled: SqliteLedger) -> None:
    filled.close()
    head, statements = "0" * 64, []
    for seq, kind, body in rows(path, "SELECT seq, kind, body FROM entries ORDER BY seq"):
        cheaper = str(body).replace('"pure":100000000000', '"pure":1')
        sealed = hash_entry(int(str(seq)), str(kind), cheaper, head)
        statements.append(
            f"UPDATE entries SET body = '{cheaper}', prev = '{head}', hash = '{sealed}' WHERE seq = {seq}"
        )
        head = sealed
    tamper(path, *statements)
    with pytest.raises(LedgerError, match="where the chain ends"):
        SqliteLedger.open(path)


def test_an_old_copy_with_its_mark_and_the_name_of_its_witness_is_sound_and_only_a_receipt_tells(
    path: Path, filled: SqliteLedger, ask: Callable[..., Charge], tmp_path: Path
) -> None:
    filled.close()
    mark = Path(f"{path}.mark")
    old = path.read_bytes(), mark.read_bytes()
    (witness,) = path.parent.glob("*.at-*")
    with closing(SqliteLedger.open(path)) as ledger:
        charged = ledger.charge(ask("after the backup"))
        receipt = charged.head
    path.write_bytes(old[0])
    mark.write_bytes(old[1])  # in place: a file that was copied is known by its inode
    (newest,) = path.parent.glob("*.at-*")
    newest.rename(witness)
    with closing(SqliteLedger.open(path)) as restored:
        assert receipt not in {entry.hash for entry in restored.read_entries()}


def calls(ledger: SqliteLedger, ask: Callable[..., Charge]) -> Iterator[Callable[[], object]]:
    yield lambda: ledger.open_account("population:x", Budget(1))
    yield lambda: ledger.grant("quota:x:y", Budget(1))
    yield lambda: ledger.read_budget(PEOPLE)
    yield lambda: ledger.read_spent(PEOPLE)
    yield ledger.list_accounts
    yield lambda: ledger.charge(ask("first"))
    yield lambda: ledger.release(Charged(7, "0" * 64, NOTHING, hash_text("lost")), "x")
    yield lambda: ledger.find_release(hash_text("first"))
    yield lambda: list(ledger.read_entries())
    yield ledger.verify
    yield lambda: ledger.export(None)  # type: ignore[arg-type]


def test_an_ill_ledger_refuses_everything(
    path: Path, filled: SqliteLedger, ask: Callable[..., Charge]
) -> None:
    tamper(path, CHANGES["end"][1])
    with pytest.raises(LedgerError, match="SF-L101"):
        filled.verify()
    for call in calls(filled, ask):
        with pytest.raises(LedgerError, match="SF-L101"):
            call()


def test_a_closed_ledger_refuses_everything(filled: SqliteLedger, ask: Callable[..., Charge]) -> None:
    filled.close()
    for call in calls(filled, ask):
        with pytest.raises(LedgerError, match="SF-L110"):
            call()


def test_an_export_stops_where_the_chain_breaks(path: Path, filled: SqliteLedger, tmp_path: Path) -> None:
    tamper(path, CHANGES["amount"][1])
    with (
        open(tmp_path / "export", "w", encoding="utf-8") as file,
        pytest.raises(LedgerError, match="SF-L101"),
    ):
        filled.export(file)
    assert len((tmp_path / "export").read_text().splitlines()) == 2


def flipped(sound: bytes, place: int) -> bytes:
    return sound[:place] + bytes([sound[place] ^ 0xFF]) + sound[place + 1 :]


def test_damage_to_what_lookups_go_by_is_caught(path: Path, filled: SqliteLedger, tmp_path: Path) -> None:
    """Requests and keys stand in the chain and nowhere else."""
    filled.close()
    sound, copy = path.read_bytes(), tmp_path / "copy.sqlite"
    wanted = (hash_text("first"), "key of first")
    places = [match.start() for text in wanted for match in re.finditer(text.encode(), sound)]
    assert len(places) == 2
    for place in places:
        copy.write_bytes(flipped(sound, place))
        with pytest.raises(LedgerError, match=r"SF-L10[16]"):
            AuditedLedger.read(copy, missing=True)


def test_flipped_bytes_are_caught_or_changed_nothing(
    path: Path, filled: SqliteLedger, tmp_path: Path
) -> None:
    """300 copies, a byte of each inverted at a place drawn once and for all."""
    before = filled.verify()
    filled.close()
    sound = path.read_bytes()
    places = random.Random(2718).sample(range(len(sound)), 300)
    copy, caught = tmp_path / "copy.sqlite", 0
    for place in places:
        copy.write_bytes(flipped(sound, place))
        with suppress(LedgerError), closing(AuditedLedger.read(copy, missing=True, timeout=0)) as ledger:
            assert ledger.verify() == before
            assert ledger.find_release(hash_text("first")).answer == "answer to first\nin two lines"  # type: ignore[union-attr]
            continue
        caught += 1
    assert caught > 30
