"""Where a lab's ledger lies: in a file of its folder, or in a PostgreSQL database that the folder names.

A database's address may hold a password. It is in one file that only its owner may read, with the identity
of the ledger, so that another ledger at the same address is not taken for it: that would be a new budget.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from sfumato.errors import LedgerError, UsageError
from sfumato.files.durable import replace_file
from sfumato.ledger.postgres.database import driver
from sfumato.ledger.postgres.ledger import SCHEMA, PostgresLedger
from sfumato.ledger.receipts import Key
from sfumato.ledger.sqlite.ledger import SqliteLedger

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.ledger.api import Ledger

ADDRESS = "postgresql://user@host/database#schema"

_FILE = "ledger.sqlite"
_NOTE = "ledger.json"
_KEY = "ledger.key"


@dataclass(frozen=True, slots=True)
class Place:
    """A schema of a database."""

    address: str
    schema: str

    @classmethod
    def of(cls, text: str) -> Place:
        """Behind # stands the schema; what was typed may hold a password, and is not shown."""
        address, schema = urldefrag(text)
        with suppress(driver().Error):
            if address.startswith(("postgresql://", "postgres://")):
                driver().conninfo.conninfo_to_dict(address)
                return cls(address, schema or SCHEMA)
        raise UsageError("SF-L312", "This is not the address of a ledger.", accepted=ADDRESS) from None


def create(folder: Path, address: str | None) -> None:
    """A new ledger for a new lab: in its folder or, where an address is given, in a database.

    In the database the schema is made. One that holds a ledger without entries is taken over: a steward who
    lets labs write as a role with few rights has made it as another.
    """
    if address is None:
        SqliteLedger.create(folder / _FILE).close()
        return
    place, key = Place.of(address), folder / _KEY
    try:
        ledger = PostgresLedger.create(place.address, schema=place.schema, key=key)
    except UsageError as refusal:
        if refusal.code != "SF-L304":
            raise
        ledger = _taken_over(place, key)
    _note(folder, place, ledger.identity())
    ledger.close()


def open(folder: Path, address: str | None = None) -> Ledger:  # noqa: A001 - as the lab's own
    """The ledger of a lab. An address that is given is noted: it moved, or its password is another."""
    noted = _noted(folder)
    if noted is None:
        if address is not None:
            raise UsageError(
                "SF-L313", "This lab keeps its ledger in its folder.", try_="open it without an address"
            )
        return SqliteLedger.open(folder / _FILE)
    place = Place(noted["address"], noted["schema"]) if address is None else Place.of(address)
    ledger = PostgresLedger.open(place.address, schema=place.schema, key=folder / _KEY)
    if ledger.identity() != noted["identity"]:
        ledger.close()
        raise LedgerError(
            "SF-L121",
            "Another ledger lies at this address than the one this lab was made with.",
            try_="the address of the lab's own ledger; a new ledger would be a new budget",
        )
    if address is not None:
        _note(folder, place, noted["identity"])
    return ledger


def file(folder: Path) -> Path:
    """The ledger's file, for copies of it."""
    if _noted(folder) is not None:
        raise UsageError(
            "SF-L314",
            "A ledger in PostgreSQL is copied with the server's own tools.",
            try_="pg_dump -n, and check-receipt after a restore",
        )
    return folder / _FILE


def _taken_over(place: Place, key: Path) -> PostgresLedger:
    ledger = PostgresLedger.open(place.address, schema=place.schema, key=key)
    if ledger.verify().entries:
        ledger.close()
        raise UsageError(
            "SF-L304",
            "There is a ledger in this schema, and it is another lab's.",
            try_="another #schema; or a copy of that lab's folder, which shares its ledger",
        )
    Key(key).make()
    return ledger


def _noted(folder: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        return found
    return None


def _note(folder: Path, place: Place, identity: str) -> None:
    """All at once, and readable by its owner alone."""
    note = {**asdict(place), "identity": identity}
    replace_file(folder / _NOTE, json.dumps(note).encode(), private=True)
