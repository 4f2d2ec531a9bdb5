"""Where a lab's ledger lies: in a file of its folder, or in a PostgreSQL database that the folder names.

A database's address may hold a password, so it is in a file that its owner alone can read. The ledger's
identity is noted with it. Another ledger at the same address is refused, since it would be a new budget.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from sfumato.errors import LedgerError, UsageError
from sfumato.files.durable import replace_file
from sfumato.ledger.postgres.address import PostgresAddress
from sfumato.ledger.postgres.ledger import PostgresLedger
from sfumato.ledger.receipts.signing import SigningKey
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.ledger import SqliteLedger

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.ledger.api import Ledger
    from sfumato.ledger.store import StoredLedger

_SQLITE_FILE = "ledger.sqlite"
_NOTE_FILE = "ledger.json"
# Not in the note: versions before 4 take every note for that of a database, and could not say what is wrong.
_IDENTITY_FILE = "ledger.identity"
_KEY_FILE = "ledger.key"


def create_ledger(folder: Path, address: str | None, lab: str) -> None:
    """Create the ledger of the lab with this identity, in its folder or, given an address, in a database.

    In the database a schema is created. A schema whose ledger has no entries is accepted too: its owner has
    created it for a lab whose role has few rights. What an earlier call has left unfinished is made again.
    """
    if any((folder / name).exists() for name in (_NOTE_FILE, _IDENTITY_FILE)):
        return  # it comes last, so nothing is missing
    if address is None:
        for leftover in folder.glob(f"{_SQLITE_FILE}*"):
            leftover.unlink()
        with closing(SqliteLedger.create(folder / _SQLITE_FILE)) as ledger:
            ledger.claim(lab)
            _write_note(folder / _IDENTITY_FILE, {"identity": ledger.read_identity()})
        return
    location, key = PostgresAddress.parse(address), folder / _KEY_FILE
    try:
        server = PostgresLedger.create(location.address, schema=location.schema, key=key)
    except UsageError as refusal:
        if refusal.code != "SF-L304":
            raise
        server = _take_over(location, key, lab)
    with closing(server):
        server.claim(lab)
        write_note(folder, location, server.read_identity())


def open_ledger(folder: Path, address: str | None = None) -> Ledger:
    """Open the ledger of a lab. A new address, or a new password in it, is noted for the next time."""
    note = _read_note(folder)
    if "address" not in note:
        if address is not None:
            raise UsageError(
                "SF-U104", "This lab keeps its ledger in its folder.", try_="open it without an address"
            )
        return _open_file(folder, note.get("identity"))
    noted = PostgresAddress(note["address"], note["schema"])
    location = noted if address is None else PostgresAddress.parse(address)
    ledger = PostgresLedger.open(location.address, schema=location.schema, key=folder / _KEY_FILE)
    _require_identity(ledger, note["identity"])
    if address is not None:  # it is the same ledger, as its identity shows
        write_note(folder, location, note["identity"])
    return ledger


def open_ledger_to_read(folder: Path) -> Ledger:
    """Open the ledger of a lab to look at it. The folder may be a copy, or on a read-only medium.

    To accept a copy, only to look at it, would make it a second budget.
    """
    file = folder / _SQLITE_FILE
    if file.exists() and not all(os.access(place, os.W_OK) for place in (file, folder)):
        return AuditedLedger.read(file)
    try:
        return open_ledger(folder)
    except LedgerError as error:
        if error.code != "SF-L131":
            raise
    return AuditedLedger.read(file)


def find_sqlite_file(folder: Path) -> Path:
    """Return the path of a lab's ledger, for copies of it. Refuses a ledger that is not a file."""
    if "address" in _read_note(folder):
        raise UsageError(
            "SF-U104",
            "A ledger in PostgreSQL is copied with the server's own tools.",
            try_="pg_dump -n, and check-receipt after a restore",
        )
    return folder / _SQLITE_FILE


def write_note(folder: Path, location: PostgresAddress, identity: str) -> None:
    """Note where the ledger lies and which one it is."""
    note = {"address": location.address, "schema": location.schema, "identity": identity}
    _write_note(folder / _NOTE_FILE, note)


def _write_note(file: Path, note: dict[str, str]) -> None:
    replace_file(file, json.dumps(note).encode(), private=True)


def _read_note(folder: Path) -> dict[str, str]:
    """Return what is noted about the ledger. Older labs with a ledger in their folder have no note."""
    for name in (_NOTE_FILE, _IDENTITY_FILE):
        with suppress(FileNotFoundError):
            return _parse_note(name, (folder / name).read_bytes())
    return {}


def _parse_note(name: str, content: bytes) -> dict[str, str]:
    try:
        note = json.loads(content)
        needed = {"identity", "address", "schema"} if "address" in note else {"identity"}
        if needed == note.keys() and all(isinstance(value, str) for value in note.values()):
            return dict(note)
    except (AttributeError, TypeError, ValueError):
        pass
    raise LedgerError(
        "SF-L106",
        f"The note {name}, which says which ledger the lab has, cannot be read.",
        try_=f"put {name} back from a copy of the lab's folder",
    )


def _open_file(folder: Path, identity: str | None) -> SqliteLedger:
    """Open the ledger in a folder. If no identity is noted yet, that of this ledger is."""
    ledger = SqliteLedger.open(folder / _SQLITE_FILE)
    if identity is None:
        _write_note(folder / _IDENTITY_FILE, {"identity": ledger.read_identity()})
    else:
        _require_identity(ledger, identity)
    return ledger


def _require_identity(ledger: StoredLedger, identity: str) -> None:
    if ledger.read_identity() != identity:
        ledger.close()
        raise LedgerError(
            "SF-L121",
            "The ledger in this place is not the one this lab was created with.",
            try_="put the lab's own ledger back, or name its address; another would be a new budget",
        )


def _take_over(location: PostgresAddress, key: Path, lab: str) -> PostgresLedger:
    """Open a ledger that someone else has created for this lab, which has no entries yet."""
    ledger = PostgresLedger.open(location.address, schema=location.schema, key=key)
    # Names of tables mean something else in another lab, so two labs must not share a ledger.
    entries = ledger.verify().entries
    if entries > 1 or (entries and not ledger.belongs_to(lab)):
        ledger.close()
        raise UsageError(
            "SF-L304",
            "This schema holds the ledger of another lab.",
            try_="another #schema; or a copy of that lab's folder, which shares its ledger",
        )
    SigningKey(key).create()
    return ledger
