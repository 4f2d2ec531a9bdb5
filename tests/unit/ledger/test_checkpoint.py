"""Books on disk: the same as a replay makes, and of no use to anyone who changed the chain or them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Charged, Reserved, SqliteLedger, replay_entries
from sfumato.ledger.checkpoint import load_books, save_books
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.sqlite import ledger as module
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.backup import back_up_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import Charge

PEOPLE = "population:patient_id"
KEY = b"secret"


def act(ledger: SqliteLedger, ask: Callable[..., Charge]) -> None:
    """One of everything that a chain can hold."""
    ledger.claim("ab" * 16)
    ledger.note_snapshot("visits", "cd" * 16, None)
    for key in ("twice", None):
        charged = ledger.charge(ask("again", key=key))
        if isinstance(charged, Charged):
            ledger.release(charged, "answer")
    run = ledger.reserve(ask("run", "1/1000"), 10)
    assert isinstance(run, Reserved)
    ledger.draw(run, 3)
    ledger.give_back(run)
    given_up = ledger.charge(ask("unread", key="unread"))
    assert isinstance(given_up, Charged)
    ledger.note_unread(given_up)
    again = ledger.charge(ask("unread", key="unread"))
    assert isinstance(again, Charged)
    ledger.note_unread(again)
    ledger.charge(ask("open"))


@pytest.fixture
def acted(filled: SqliteLedger, ask: Callable[..., Charge]) -> SqliteLedger:
    act(filled, ask)
    return filled


@pytest.fixture
def stored(acted: SqliteLedger, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed ledger with a checkpoint at its end."""
    monkeypatch.setattr(module, "STEP", 1)
    acted.close()
    return Path(f"{path}.books")


def used(path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether opening takes the books from the checkpoint, found by what is replayed."""
    replayed: list[int] = []
    with monkeypatch.context() as patch:
        add = module.schema.Books.add_entry
        patch.setattr(
            module.schema.Books,
            "add_entry",
            lambda books, entry: (replayed.append(entry.seq), add(books, entry))[1],
        )
        SqliteLedger.open(path).close()
    return not replayed


def test_books_come_back_as_they_were(acted: SqliteLedger, tmp_path: Path) -> None:
    books = replay_entries(acted.read_entries())
    save_books(tmp_path / "books", KEY, books)
    loaded = load_books(tmp_path / "books", KEY)
    assert loaded == books
    assert loaded is not None
    assert (loaded.lab, loaded.snapshots) == ("ab" * 16, {"visits": "cd" * 16})
    assert load_books(tmp_path / "books", b"another") is None
    assert load_books(tmp_path / "none", KEY) is None


def test_an_empty_ledger_has_books_too(tmp_path: Path) -> None:
    save_books(tmp_path / "books", KEY, replay_entries(()))
    assert load_books(tmp_path / "books", KEY) == replay_entries(())


def test_a_ledger_goes_on_from_its_checkpoint(
    path: Path, stored: Path, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert used(path, monkeypatch)
    with closing(SqliteLedger.open(path)) as ledger:
        before = ledger.verify()
        assert ledger.read_spent(PEOPLE) == replay_entries(ledger.read_entries()).accounts[PEOPLE].spent
        assert ledger.charge(ask("again")).answer == "answer"  # type: ignore[union-attr]
        ledger.charge(ask("new"))
        assert ledger.verify().entries == before.entries + 1
    assert stored.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("change", ["body", "hash", "prev", "kind"])
def test_an_old_entry_that_was_changed_is_found_at_the_start(path: Path, stored: Path, change: str) -> None:
    assert stored.exists()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'entries_stay'").fetchone()
        db.execute("DROP TRIGGER entries_stay")
        db.execute(f"UPDATE entries SET {change} = replace({change}, 'a', 'b') WHERE seq = 3")
        db.execute(trigger)
    with pytest.raises(LedgerError, match=r"SF-L101.*\n.*entry 3"):
        SqliteLedger.open(path)


def test_books_that_someone_changed_are_not_used(
    path: Path, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = stored.read_bytes()
    fields = json.loads(content[32:])
    fields["accounts"][PEOPLE][4]["pure"] = 0
    for changed in (content[:32] + json.dumps(fields).encode(), b"", content[:-1], b"x" * 100):
        stored.write_bytes(changed)
        assert not used(path, monkeypatch)
        assert used(path, monkeypatch)  # which was written anew


def test_books_of_a_longer_or_another_chain_are_not_used(
    path: Path, stored: Path, tmp_path: Path, ask: Callable[..., Charge], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteLedger.create(tmp_path / "other")) as other:
        other.claim("ef" * 16)
    Path(f"{tmp_path / 'other'}.key").write_bytes(Path(f"{path}.key").read_bytes())
    Path(f"{tmp_path / 'other'}.books").write_bytes(stored.read_bytes())
    assert not used(tmp_path / "other", monkeypatch)


def test_who_audits_or_verifies_decides_every_entry_again(
    path: Path, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Books that were sealed with the key, and are wrong, are found by everyone who does not use them."""
    with closing(SqliteLedger.open(path)) as ledger:
        assert back_up_ledger(ledger, tmp_path / "copy") == ledger.verify()
    books = replay_entries(())
    books.seq, books.head = 3, "0" * 64
    save_books(stored, SigningKey.beside_ledger(str(path)).derive_secret("books") or b"", books)
    monkeypatch.setattr(module.schema, "_leads_to", lambda *_: True)
    with pytest.raises(LedgerError, match="SF-L1"):
        SqliteLedger.open(path)
    with closing(AuditedLedger.read(path)) as audited:
        assert audited.verify().charges > 0
