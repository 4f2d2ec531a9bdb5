"""The ledger: charged before any data is read, kept before anyone sees the answer."""

from sfumato.ledger.contract import Charge, Charged, Ledger, Released, Reserved, Verified
from sfumato.ledger.entry import GENESIS, Entry
from sfumato.ledger.postgres import PostgresLedger
from sfumato.ledger.receipts import SignedHead
from sfumato.ledger.sqlite import SqliteLedger
from sfumato.ledger.verify import Account, Books, replay

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
