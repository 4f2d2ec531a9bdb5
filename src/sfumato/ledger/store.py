"""What every ledger does with its database, whichever that is: the calls of `Ledger`, one after the other."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from sfumato.errors import LedgerError, PolicyError, UsageError
from sfumato.ledger import steps, tables
from sfumato.ledger.commitment import commitment, fresh_nonce
from sfumato.ledger.contract import Charge, Charged, Released, Verified, owners
from sfumato.ledger.entry import GENESIS
from sfumato.ledger.files import require_same
from sfumato.ledger.group import ILL, Job
from sfumato.ledger.refusal import shortage, unknown
from sfumato.ledger.verify import Account, checked, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, TextIO

    from sfumato.ledger.entry import Entry
    from sfumato.ledger.group import Transaction
    from sfumato.ledger.receipts import Key, SignedHead
    from sfumato.ledger.shared import Shared
    from sfumato.ledger.tables import Connection, Looked
    from sfumato.ledger.verify import Books
    from sfumato.privacy.account import Cost
    from sfumato.privacy.budget import Budget

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for other writers, and for an answer that someone else is making."""

_PAGE = 1000
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class _Refused:
    name: str
    account: Account


@dataclass(frozen=True, slots=True)
class _Pending:
    """Charged under this key, and not answered yet."""

    seq: int
    request: str


class StoredLedger(ABC):
    """See `Ledger` for what each call promises. Cannot be copied: two copies would be two budgets.

    Subclasses say how a database is reached, how it is checked, and where the key for receipts lies.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._database = self._connection()
        self._seen = (0, GENESIS)
        self._ill: LedgerError | None = None

    @abstractmethod
    def _connection(self) -> Shared: ...

    @abstractmethod
    def _check(self, db: Connection) -> Books: ...

    @abstractmethod
    def _key(self) -> Key: ...

    def open_account(self, account: str, budget: Budget) -> None:
        self._set_terms("account", account, budget)

    def grant(self, account: str, budget: Budget) -> None:
        self._set_terms("grant", account, budget)

    def budget(self, account: str) -> Budget:
        return self._account(account).budget

    def spent(self, account: str) -> Cost:
        return self._account(account).spent

    def accounts(self) -> tuple[str, ...]:
        with self._connected() as db:
            return tables.names(db)

    def charge(self, charge: Charge) -> Charged | Released:
        match self._write("charge", partial(_try_charge, charge)):
            case _Refused(name, account):
                raise shortage(charge, name, account)
            case _Pending() as pending:
                return self._await(pending)
            case done:
                return done

    def release(self, charged: Charged, answer: str) -> Released:
        nonce = fresh_nonce()
        fields = {"charge": charged.seq, "commitment": commitment(nonce, answer)}

        def keep(transaction: Transaction) -> Entry:
            _require_unanswered(transaction.db, charged)
            entry = transaction.append("release", fields)
            tables.add_answer(transaction.db, entry, charged, nonce, answer)
            return entry

        entry = self._write("release", keep)
        return Released(charged.seq, entry.hash, charged.cost, answer, replayed=False)

    def find(self, request: str) -> Released | None:
        with self._connected() as db:
            return tables.answer_to_request(db, request)

    def entries(self) -> Iterator[Entry]:
        after = 0
        while page := self._page(after):
            yield from page
            after = page[-1].seq

    def verify(self) -> Verified:
        # A connection of its own: a long check keeps no other thread from charging.
        database, seen = self._connection(), self._seen
        with self._well(), closing(database), database.reading() as db:
            books = self._check(db)
            _require_continued(db, seen)
        self._seen = max(self._seen, (books.seq, books.head))
        return books.verified()

    def export(self, to: TextIO) -> int:
        lines = (entry.to_json() + "\n" for entry in checked(self.entries()))
        return sum(bool(to.write(line)) for line in lines)

    def holds(self, head: str) -> int | None:
        with self._connected() as db:
            return tables.numbered(db, head)

    def receipt(self, entry: int | None = None) -> SignedHead:
        with self._connected() as db:
            found = tables.sealed(db, entry)
        return self._key().sign(*found)

    def public_key(self) -> str:
        return self._key().public_key()

    def close(self) -> None:
        self._ill = self._ill or LedgerError("SF-L110", "This ledger is closed.")
        self._database.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UsageError(
            "SF-L303",
            "A ledger cannot be copied or pickled: two copies would be two budgets.",
            try_="open it anew in the other process",
        )

    # ---- steps of the calls above --------------------------------------------------------------------------

    def _set_terms(self, kind: Literal["account", "grant"], name: str, budget: Budget) -> None:
        owners(name)
        self._write(kind, partial(_try_terms, kind, name, budget))

    def _await(self, pending: _Pending) -> Released:
        """Someone else has charged this key and is making the answer, or was when it died."""
        deadline = time.monotonic() + self._patience
        while (answer := self._answered(pending)) is None:
            if time.monotonic() >= deadline:
                raise LedgerError(
                    "SF-L107",
                    "This key was charged, but no answer was kept.",
                    why="whoever asked is still at work, or failed after the charge",
                    try_="ask again without the key: it will be charged again",
                )
            time.sleep(_POLL)
        return answer

    def _answered(self, pending: _Pending) -> Released | None:
        with self._connected() as db:
            return _answer(db, pending)

    def _account(self, name: str) -> Account:
        with self._connected() as db:
            return _load(db, name)

    def _page(self, after: int) -> list[Entry]:
        with self._connected() as db:
            return tables.page(db, after, _PAGE)

    # ---- the database --------------------------------------------------------------------------------------

    @contextmanager
    def _well(self) -> Iterator[None]:
        """An ill ledger refuses everything, from the moment it is found to be."""
        if self._ill is not None:
            raise self._ill.with_traceback(None)
        try:
            yield
        except LedgerError as error:
            if error.code in ILL:
                self._ill = error
            raise

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._well(), self._database.connected() as db:
            yield db

    def _write(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Durably, once it returns; in one commit with other threads that write now."""
        job = Job(name, work)
        with self._well(), self._database.coded():
            self._database.group.run(job, self._lead)
            result = job.result()
        if job.wrote:
            steps.step(f"{name}:durable")
        return result

    def _lead(self) -> None:
        with self._database.writing() as db:
            _require_continued(db, self._seen)
            head = tables.head(db)
            batch = self._database.group.take()
            with batch.ending(), self._database.coded():
                with self._database.together(db):
                    newest = batch.attempt(db, head)
                if newest != head:
                    batch.committing()
                    self._database.commit(db, *newest)
                    self._seen = newest


def _try_terms(
    kind: Literal["account", "grant"], name: str, budget: Budget, transaction: Transaction
) -> None:
    old = tables.load(transaction.db, name)
    if old is not None and (old.kind, old.budget) == (kind, budget):
        return
    if old is not None and (old.kind, kind) != ("grant", "grant"):
        sentence = "A budget is fixed when it is first set."
        raise PolicyError("SF-L201", sentence, account=name, set_=f"{old.budget!r}")
    entry = transaction.append(kind, terms(name, budget))
    tables.set_terms(transaction.db, entry, name)


def _try_charge(charge: Charge, transaction: Transaction) -> Charged | Released | _Pending | _Refused:
    db = transaction.db
    looked = tables.look(db, charge)
    paying = {name: _known(name, account) for name, account in looked.accounts.items()}
    if earlier := _earlier(db, charge, looked):
        return earlier
    paid = {}
    for name, account in paying.items():
        after = account.after(charge.cost)
        if after is None:
            return _Refused(name, account)
        paid[name] = after
    entry = transaction.append("charge", charge.fields())
    tables.add_charge(db, entry, charge, paid)
    return Charged(entry.seq, entry.hash, charge.cost, charge.request)


def _earlier(db: Connection, charge: Charge, looked: Looked) -> Released | _Pending | None:
    """What became of this key or, failing that, of this request."""
    if looked.keyed is None:
        return looked.kept
    if looked.keyed.request != charge.request:
        raise PolicyError("SF-L204", "This key was used for another question.", try_="a new key")
    pending = _Pending(looked.keyed.seq, charge.request)
    return _answer(db, pending) or pending


def _answer(db: Connection, pending: _Pending) -> Released | None:
    """The answer to this very charge, or else any answer to the same question."""
    return tables.answer_to_charge(db, pending.seq) or tables.answer_to_request(db, pending.request)


def _load(db: Connection, name: str) -> Account:
    return _known(name, tables.load(db, name))


def _known(name: str, account: Account | None) -> Account:
    if account is None:
        raise unknown(name)
    return account


def _require_continued(db: Connection, seen: tuple[int, str]) -> None:
    """An old copy put back between two connections may have the inode of the file it replaces."""
    require_same(seen[0] == 0 or tables.holds(db, *seen), "its chain lacks an entry that was in it")


def _require_unanswered(db: Connection, charged: Charged) -> None:
    known = tables.holds(db, charged.seq, charged.head)
    if not known or tables.answer_to_charge(db, charged.seq) is not None:
        raise LedgerError(
            "SF-L109", "This charge is not in the ledger, or was answered before.", entry=str(charged.seq)
        )
