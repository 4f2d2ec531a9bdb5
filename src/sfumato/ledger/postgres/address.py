"""The address of a ledger in a PostgreSQL database."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urldefrag

from sfumato.errors import UsageError
from sfumato.ledger.postgres.connection import import_psycopg

DEFAULT_SCHEMA = "sfumato_ledger"
"""Schema of the ledger, unless another is named."""

_FORM = "postgresql://user@host/database#schema"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A schema of a database."""

    address: str
    schema: str

    @classmethod
    def parse(cls, text: str) -> PostgresAddress:
        """Read an address with the schema behind `#`. The error does not show it: it may hold a password."""
        address, schema = urldefrag(text)
        psycopg = import_psycopg()
        with suppress(psycopg.Error):
            if address.startswith(("postgresql://", "postgres://")):
                psycopg.conninfo.conninfo_to_dict(address)
                return cls(address, schema or DEFAULT_SCHEMA)
        raise UsageError("SF-C201", "This is not the address of a ledger.", accepted=_FORM) from None
