"""The ledger: a question is charged before any data is read, and its answer kept before anyone sees it.

`api` says what a ledger promises, `store` does it with any database, `sqlite` and `postgres` are the
databases (`diff -r` compares them). Stored names and hashed texts never change: old ledgers must verify for
ever.
"""

from sfumato.ledger.api import Charge, Charged, Ledger, Released, Reserved, Verified
from sfumato.ledger.books import AccountState, Books, replay_entries
from sfumato.ledger.chain import GENESIS, Entry
from sfumato.ledger.postgres.ledger import PostgresLedger
from sfumato.ledger.receipts.signing import SignedHead
from sfumato.ledger.sqlite.ledger import SqliteLedger

__all__ = [
    "GENESIS",
    "AccountState",
    "Books",
    "Charge",
    "Charged",
    "Entry",
    "Ledger",
    "PostgresLedger",
    "Released",
    "Reserved",
    "SignedHead",
    "SqliteLedger",
    "Verified",
    "replay_entries",
]
