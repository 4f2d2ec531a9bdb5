"""What jobs do inside a transaction: look at the books, decide, and add to what will be written.

Nothing here speaks to a database. What the jobs write goes into the books once the database has confirmed it,
and nowhere otherwise. Where there are several jobs it goes into a draft first, for those after them to see.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import LedgerError, PolicyError
from sfumato.ledger.api import Charged, Reserved
from sfumato.ledger.books import Books, terms
from sfumato.ledger.chain import Entry, now, write
from sfumato.ledger.refusal import unknown
from sfumato.privacy.account import NOTHING, Cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.api import Charge
    from sfumato.ledger.books import Account
    from sfumato.ledger.chain import Kind
    from sfumato.privacy.budget import Budget


@dataclass(frozen=True, slots=True)
class Refused:
    """Not enough is left on the account of this name."""

    cost: Cost
    name: str
    account: Account


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to this charge is kept."""

    charge: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Charged under this key, and not answered yet."""

    seq: int
    request: str


class Transaction:
    """Entries after the newest one in the books, and what follows from them. `alone`: of one job only."""

    def __init__(self, books: Books, *, alone: bool = False) -> None:
        self.before = self.head = books.seq, books.head
        self.entries: list[Entry] = []
        self.answers: list[tuple[int, str, str]] = []
        """The charge, the nonce and the answer."""
        self.books = books if alone else books.draft()
        self._kept = books
        self._done: list[tuple[Entry, Callable[..., object], tuple[Any, ...]]] = []

    def keep(self) -> Books:
        """The books, with all that was written."""
        for done in self._done:
            self._kept.take(*done)
        return self._kept

    # ---- accounts ----

    def set_terms(self, kind: Literal["account", "grant"], name: str, budget: Budget) -> None:
        old = self.books.accounts.get(name)
        if old is not None and (old.kind, old.budget) == (kind, budget):
            return
        if old is not None and (old.kind, kind) != ("grant", "grant"):
            sentence = "A budget is fixed when it is first set."
            raise PolicyError("SF-L201", sentence, account=name, set_=f"{old.budget!r}")
        fields = terms(name, budget)
        self._append(kind, fields, Books.set_terms, kind, fields)

    # ---- charges ----

    def charge(self, charge: Charge) -> Charged | Answered | Waiting | Refused:
        earlier = self._earlier(charge)
        if earlier is not None:
            return earlier
        paid = self._paid(charge, charge.cost)
        if isinstance(paid, Refused):
            return paid
        body = charge.body(now(), _mark())
        entry = self._seal("charge", body, Books.charged, charge.request, charge.payers, charge.key, paid)
        return Charged(entry.seq, entry.hash, charge.cost, charge.request)

    def reserve(self, charge: Charge, steps: int) -> Reserved | Answered | Waiting | Refused:
        earlier = self._earlier(charge)
        if earlier is not None:
            return earlier
        cost = charge.cost * steps
        paid = self._paid(charge, cost)
        if isinstance(paid, Refused):
            return paid
        body, run = charge.body(now(), _mark(), steps), (charge.accounts, charge.cost, steps)
        told = charge.request, charge.payers, charge.key, paid
        entry = self._seal("reserve", body, Books.reserved, run, *told)
        return Reserved(entry.seq, entry.hash, cost, charge.request, *run)

    def release(self, charged: Charged, committed: str, nonce: str, answer: str) -> Entry:
        if self.books.heads.get(charged.seq) != charged.head:
            raise _not_there(charged)
        run = self.books.runs.get(charged.seq)
        if run is not None and run.drawn == 0:
            raise LedgerError(
                "SF-L118",
                "Nothing was drawn from this reservation, so there is nothing to answer.",
                entry=str(charged.seq),
                try_="ledger.draw(reserved) before data is read",
            )
        fields = {"charge": charged.seq, "commitment": committed}
        entry = self._append("release", fields, Books.answered, charged.seq, committed)
        self.answers.append((charged.seq, nonce, answer))
        return entry

    # ---- reservations ----

    def draw(self, reserved: Reserved, steps: int) -> int:
        left = self._rest(reserved)
        begun = self.books.runs[reserved.seq].drawn + steps
        if steps > left:
            raise LedgerError(
                "SF-L119",
                "The reservation has not so many steps left.",
                asked=str(steps),
                left=str(left),
                try_="a new reservation",
            )
        fields = {"by": _mark(), "charge": reserved.seq, "steps": steps}
        self._append("draw", fields, Books.drawn, reserved.seq, steps)
        return begun

    def give_back(self, reserved: Reserved) -> Cost:
        """What the chain says, not what the caller holds."""
        rest = self._rest(reserved)
        if rest == 0:
            return NOTHING
        each = self.books.runs[reserved.seq].each
        self._append("return", {"charge": reserved.seq, "steps": rest}, Books.returned, reserved.seq)
        return each * rest

    # ---- parts ----

    def _append(self, kind: Kind, fields: dict[str, Any], does: Callable[..., object], *what: Any) -> Entry:
        return self._seal(kind, write({**fields, "at": now()}), does, *what)

    def _seal(self, kind: Kind, body: str, does: Callable[..., object], *what: Any) -> Entry:
        entry = Entry.after(*self.head, kind, body)
        self.head = entry.seq, entry.hash
        self.entries.append(entry)
        self._done.append((entry, does, what))
        if self.books is not self._kept:
            self.books.take(entry, does, what)
        return entry

    def _earlier(self, charge: Charge) -> Answered | Waiting | None:
        """What became of this key or, failing that, of this request. Who has no account is told nothing."""
        books = self.books
        for name in charge.accounts:
            if name not in books.accounts:
                raise unknown(name)
        keyed = None if charge.key is None else books.keys.get((charge.payers, charge.key))
        kept = books.kept.get(charge.request)
        if keyed is None:
            return None if kept is None else Answered(kept)
        if books.charges[keyed][0] != charge.request:
            raise PolicyError("SF-L204", "This key was used for another question.", try_="a new key")
        if keyed in books.releases:
            return Answered(keyed)
        return Waiting(keyed, charge.request) if kept is None else Answered(kept)

    def _paid(self, charge: Charge, cost: Cost) -> dict[str, Account] | Refused:
        paid = {}
        for name in charge.accounts:
            before = self.books.accounts[name]
            after = before.after(cost)
            if after is None:
                return Refused(cost, name, before)
            paid[name] = after
        return paid

    def _rest(self, reserved: Reserved) -> int:
        """Steps that can still be drawn or given back."""
        run = self.books.runs.get(reserved.seq)
        if run is None or (run.head, run.accounts) != (reserved.head, reserved.accounts):
            raise _not_there(reserved)
        return 0 if reserved.seq in self.books.releases else run.rest


def _mark() -> str:
    """No two entries that let data be read are the same: who looks for theirs must not find another's."""
    return os.urandom(8).hex()


def _not_there(charged: Charged) -> LedgerError:
    return LedgerError(
        "SF-L109", "This charge is not in the ledger, or was answered before.", entry=str(charged.seq)
    )
