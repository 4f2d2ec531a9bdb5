"""What every ledger does with its database, whichever that is: the calls of `Ledger`, one after the other."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import steps, tables
from sfumato.ledger.api import MOST_STEPS, Charged, Released, is_steps, owners
from sfumato.ledger.books import Books, checked
from sfumato.ledger.chain import GENESIS, require_utf8
from sfumato.ledger.commitment import commitment, fresh_nonce
from sfumato.ledger.files import require_same
from sfumato.ledger.group_commit import ILL, Batch, Job
from sfumato.ledger.refusal import shortage, unknown
from sfumato.ledger.transaction import Answered, Refused, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, TextIO

    from sfumato.ledger.api import Charge, Reserved, Verified
    from sfumato.ledger.books import Account
    from sfumato.ledger.chain import Entry
    from sfumato.ledger.receipts import Key, SignedHead
    from sfumato.ledger.shared import Shared
    from sfumato.ledger.tables import Connection
    from sfumato.ledger.transaction import Transaction
    from sfumato.privacy.account import Cost
    from sfumato.privacy.budget import Budget

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for other writers, and for an answer that someone else is making."""

_POLL = 0.02


class Well:
    """An ill ledger refuses everything, from the moment it is found to be."""

    ill: LedgerError | None = None

    def __enter__(self) -> None:
        if self.ill is not None:
            raise self.ill.with_traceback(None)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, LedgerError) and error.code in ILL:
            self.ill = error


class StoredLedger(ABC):
    """See `Ledger` for what each call promises. Cannot be copied: two copies would be two budgets.

    Subclasses say how a database is reached, how it is checked, and where the key for receipts lies.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._database = self._connection()
        self._seen = (0, GENESIS)
        self._books: Books | None = None
        self._alone = True
        self._well = Well()

    @abstractmethod
    def _connection(self) -> Shared: ...

    @abstractmethod
    def _check(self, db: Connection) -> Books: ...

    @abstractmethod
    def _key(self) -> Key: ...

    def _begun(self) -> Self:
        """Once it is of this version and all of it has been verified."""
        try:
            self._migrate()
            self._books = self._verified(self._database)
        except LedgerError:
            self.close()
            raise
        return self

    @abstractmethod
    def _migrate(self) -> None: ...

    def open_account(self, account: str, budget: Budget) -> None:
        self._set_terms("account", account, budget)

    def grant(self, account: str, budget: Budget) -> None:
        self._set_terms("grant", account, budget)

    def budget(self, account: str) -> Budget:
        return self._account(account).budget

    def spent(self, account: str) -> Cost:
        return self._account(account).spent

    def accounts(self) -> tuple[str, ...]:
        with self._reading() as (_, books):
            return tuple(sorted(books.accounts))

    def charge(self, charge: Charge) -> Charged | Released:
        self._database.require_text(*charge.accounts, charge.key or "")
        done = self._write("charge", lambda transaction: transaction.charge(charge))
        return done if isinstance(done, Charged) else self._settled(charge, done)

    def reserve(self, charge: Charge, steps: int) -> Reserved | Released:
        _require_steps(steps)
        self._database.require_text(*charge.accounts, charge.key or "")
        done = self._write("reserve", lambda transaction: transaction.reserve(charge, steps))
        return self._settled(charge, done)

    def draw(self, reserved: Reserved, steps: int = 1) -> int:
        _require_steps(steps)
        return self._write("draw", lambda transaction: transaction.draw(reserved, steps))

    def give_back(self, reserved: Reserved) -> Cost:
        return self._write("return", lambda transaction: transaction.give_back(reserved))

    def release(self, charged: Charged, answer: str) -> Released:
        self._database.require_text(answer)
        nonce = fresh_nonce()
        committed = commitment(nonce, answer)
        entry = self._write(
            "release", lambda transaction: transaction.release(charged, committed, nonce, answer)
        )
        released = Released(charged.seq, entry.hash, charged.cost, answer, replayed=False, entry=entry.seq)
        return self._signed(released)

    def find(self, request: str) -> Released | None:
        require_utf8(request)
        with self._reading() as (db, books):
            charge = books.kept.get(request)
            return None if charge is None else tables.answer(db, books, charge)

    def entries(self) -> Iterator[Entry]:
        after = 0
        while page := self._page(after):
            yield from page
            after = page[-1].seq

    def verify(self) -> Verified:
        # A connection of its own: a long check keeps no other thread from charging.
        with closing(self._connection()) as database:
            return self._verified(database).verified()

    def _verified(self, database: Shared) -> Books:
        seen = self._seen
        with self._well, database.reading() as db:
            books = self._check(db)
            require_same(seen[0] == 0 or tables.holds(db, *seen), "its chain lacks an entry that was in it")
        self._seen = max(self._seen, (books.seq, books.head))
        return books

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

    def make_key(self) -> str:
        self._key().make()
        return self.public_key()

    def identity(self) -> str:
        with self._connected() as db:
            return tables.identity(db)

    def close(self) -> None:
        self._well.ill = self._well.ill or LedgerError("SF-L110", "This ledger is closed.")
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
        self._database.require_text(name)
        self._write(kind, lambda transaction: transaction.set_terms(kind, name, budget))

    def _settled(self, charge: Charge, done: T | Answered | Waiting | Refused) -> T | Released:
        match done:
            case Refused(cost, name, account):
                raise shortage(replace(charge, cost=cost), name, account)
            case Waiting():
                return self._signed(self._await(done))
            case Answered(number):
                return self._signed(self._kept(number))
        return done

    def _signed(self, released: Released) -> Released:
        """For others to believe, where that can be had: no answer waits for it."""
        try:
            return replace(released, signed=self._key().sign(released.entry, released.head))
        except (LedgerError, UsageError):
            return released

    def _await(self, waiting: Waiting) -> Released:
        """Someone else has charged this key and is making the answer, or was when it died."""
        deadline = time.monotonic() + self._patience
        while (answer := self._answered(waiting)) is None:
            if time.monotonic() >= deadline:
                raise LedgerError(
                    "SF-L107",
                    "This key was charged, but no answer was kept.",
                    why="whoever asked is still at work, or failed after the charge",
                    try_="ask again without the key: it will be charged again",
                )
            time.sleep(_POLL)
        return answer

    def _answered(self, waiting: Waiting) -> Released | None:
        """The answer to this very charge, or else any answer to the same question."""
        with self._reading() as (db, books):
            number = waiting.seq if waiting.seq in books.releases else books.kept.get(waiting.request)
            return None if number is None else tables.answer(db, books, number)

    def _kept(self, charge: int) -> Released:
        with self._connected() as db:
            return tables.answer(db, self._books or self._up_to_date(db), charge)

    def _account(self, name: str) -> Account:
        with self._reading() as (_, books):
            found = books.accounts.get(name)
        if found is None:
            raise unknown(name)
        return found

    def _page(self, after: int) -> list[Entry]:
        with self._connected() as db:
            return tables.page(db, after)

    # ---- the database --------------------------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._well, self._database.connected() as db:
            yield db

    def _write(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Durably, once it returns; in one commit with other threads that write now."""
        job = Job(name, work)
        with self._well:
            self._database.group.run(job, self._lead)
            result = job.result()
        if job.wrote:
            steps.step(f"{name}:durable")
        return result

    def _lead(self) -> None:
        with Batch() as batch:
            self._database.write(partial(self._do, batch))

    def _do(self, batch: Batch, db: Connection) -> None:
        batch.jobs = self._database.group.take()
        if self._at_once(db, batch):
            return
        transaction = batch.attempt(self._up_to_date(db, self._database.begin))
        if transaction.entries:
            self._database.commit(db, transaction, batch.written)
            self._take(transaction)

    def _at_once(self, db: Connection, batch: Batch) -> bool:
        """Decide by what is known, and let the database make sure that nobody has written since.

        Where others had written the last time, they may again, and to be told so would cost a wait.
        """
        books = self._books
        if books is None or not self._alone:
            return False
        transaction = batch.attempt(books)
        if not transaction.entries:
            done = self._up_to_date(db).seq == transaction.head[0]  # if so, it was decided by all there is
        elif done := self._database.commit_at_once(db, transaction, batch.written):
            self._take(transaction)
        if not done:
            batch.again()
        return done

    # ---- the books -----------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, Books]]:
        with self._connected() as db:
            yield db, self._up_to_date(db)

    def _up_to_date(self, db: Connection, begin: Callable[..., Any] | None = None) -> Books:
        """With all that others have written. `begin` puts the question once nobody else can write."""
        books, seen = self._books or Books(), self._seen
        ask, start = partial(tables.newer, db, books), books.seq
        rows = ask() if begin is None else begin(db, ask)
        self._books = None  # who is interrupted here leaves none: they are made anew from the first entry
        tables.take_in(db, books, rows)
        same = seen[0] <= start or tables.holds(db, *seen)
        require_same(same, "its chain lacks an entry that was in it")
        self._books, self._seen = books, (books.seq, books.head)
        self._alone = books.seq == start
        return books

    def _take(self, transaction: Transaction) -> None:
        """What is durable now. Interrupted here, see above."""
        self._books = None
        self._books, self._seen = transaction.keep(), transaction.head


def _require_steps(steps: int) -> None:
    if not is_steps(steps):
        rule = f"steps are a whole number from 1 to {MOST_STEPS}"
        raise UsageError("SF-L302", "The ledger cannot keep this.", rule=rule)
