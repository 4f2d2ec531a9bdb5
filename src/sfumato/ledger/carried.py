"""Charges and releases as text, so that another process can write them together with its own.

Only the two calls of every question are carried. A process that cannot write one as it stands declines, and
the process that asked decides by itself: so nothing but plain success ever comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.ledger.api import CarriedCharge, Charged, is_digest
from sfumato.ledger.chain import read_date
from sfumato.ledger.failures import concerns_all_jobs
from sfumato.ledger.receipts.commitment import commit_to_answer
from sfumato.ledger.transaction import draw_mark
from sfumato.privacy.account import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.api import Charge
    from sfumato.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CarriedWrite:
    """What another process is asked to write."""

    mark: str
    """Random text that no entry but this one's holds, by which the entry is found again."""
    message: list[Any]
    """Everything that the other process has to know, as JSON can hold it."""
    read_reply: Callable[[int, str], Any]
    """Makes the result from number and hash of the entry."""

    def seek_after(self, newest: int) -> list[Any]:
        """Return the message to a process that has to look first if another one has written this.

        That one was asked when `newest` was the newest entry, and has died without a word.
        """
        return ["sought", newest, self.mark, self.message]


def carry_charge(charge: Charge, holder: str = "") -> CarriedWrite:
    """Return a charge as another process can make it for this one, whose name as a holder is given."""
    mark = draw_mark(holder)
    reads = [[read.table, read.identity, read.begun] for read in charge.reads]
    message = ["charge", charge.write_entry_body(read_date(), mark), reads]
    return CarriedWrite(mark, message, lambda seq, head: Charged(seq, head, charge.cost, charge.request))


def carry_release(charged: Charged, commitment: str, nonce: str, answer: str) -> CarriedWrite:
    """Return a release as another process can make it. A commitment is random, so it marks its entry."""
    message = ["release", charged.seq, charged.head, commitment, nonce, answer]
    return CarriedWrite(commitment, message, lambda seq, head: (seq, head))


def write_carried(
    transaction: Transaction, message: list[Any], find: Callable[[int, str], tuple[int, str] | None]
) -> tuple[int, str] | None:
    """Add the entry that another process asks for, and return its number and hash.

    None says that nothing was added, since there is more to say than that it was. `find` looks for an entry
    after one of this number whose body holds a random mark.
    """
    before = len(transaction.entries)
    try:
        if message[0] == "sought":
            _, newest, mark, message = message
            found = find(newest, mark)
            if found is not None:
                return found
        return (
            _write_charge(transaction, message) if message[0] == "charge" else _release(transaction, message)
        )
    except (SfumatoError, LookupError, TypeError, ValueError) as error:
        damaged = isinstance(error, SfumatoError) and concerns_all_jobs(error)
        if damaged or len(transaction.entries) != before:
            raise
        return None


def _write_charge(transaction: Transaction, message: list[Any]) -> tuple[int, str] | None:
    charge = CarriedCharge.read(*message[1:])
    if transaction.books.find_unread(charge) is not None:
        return None
    done = transaction.charge(charge)
    return (done.seq, done.head) if isinstance(done, Charged) else None


def _release(transaction: Transaction, message: list[Any]) -> tuple[int, str] | None:
    _, seq, head, commitment, nonce, answer = message
    if not is_digest(nonce) or commit_to_answer(nonce, answer) != commitment:
        return None
    entry = transaction.release(Charged(seq, head, NOTHING, ""), commitment, nonce, answer)
    return entry.seq, entry.hash
