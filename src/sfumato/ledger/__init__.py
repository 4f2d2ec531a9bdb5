"""The ledger: charged before any data is read, kept before anyone sees the answer."""

from sfumato.ledger.api import Charge, Charged, Ledger, Released, Reserved, Verified
from sfumato.ledger.books import Account, Books, replay
from sfumato.ledger.chain import GENESIS, Entry
from sfumato.ledger.postgres.ledger import PostgresLedger
from sfumato.ledger.receipts import SignedHead
from sfumato.ledger.sqlite.ledger import SqliteLedger

__all__ = [
    "GENESIS",
    "Account",
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
    "replay",
]
