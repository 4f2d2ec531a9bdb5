"""What every ledger does with its database, whichever that is: the calls of `Ledger`, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from sfumato.errors import LedgerError, UsageError
from sfumato.ledger import failpoints, tables
from sfumato.ledger.api import (
    Charged,
    Released,
    bind_request,
    parse_account,
    require_step_count,
)
from sfumato.ledger.books import Books, check_entries
from sfumato.ledger.chain import GENESIS, require_utf8
from sfumato.ledger.failures import FATAL_CODES, pending_error, require_same_ledger
from sfumato.ledger.group_commit import CommitBatch, Job
from sfumato.ledger.receipts.commitment import commit_to_answer, draw_nonce
from sfumato.ledger.refusal import shortage_error, unknown_account_error
from sfumato.ledger.transaction import BudgetShortage, KeptAnswer, PendingAnswer, Transaction
from sfumato.privacy.account import Allowance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, TextIO

    from sfumato.ledger.api import Charge, Reserved, SnapshotRead, Verified
    from sfumato.ledger.books import AccountState
    from sfumato.ledger.chain import Entry
    from sfumato.ledger.database import LedgerDatabase
    from sfumato.ledger.receipts.signing import SignedHead, SigningKey
    from sfumato.ledger.tables import SqlConnection
    from sfumato.privacy.account import Cost
    from sfumato.privacy.budget import Budget

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds to wait for other writers."""


class HealthGuard:
    """Refuses every use once an error has shown that the ledger is damaged, exchanged or closed."""

    error: LedgerError | None = None

    def __enter__(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)  # or the traceback would grow with each call

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, LedgerError) and error.code in FATAL_CODES:
            self.error = error


class StoredLedger(ABC):
    """Implements `Ledger`, which says what each call promises. Copies are refused: they would double budgets.

    Subclasses say how the database is reached and checked, and where the signing key lies.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._database = self._make_database()
        self._newest = (0, GENESIS)
        """Number and hash of the newest entry that was durable when this process saw it.

        The chain must always hold it. The books are ahead of it only while a batch is being written.
        """
        self._books: Books | None = None
        self._is_only_writer = True
        self._guard = HealthGuard()

    @abstractmethod
    def _make_database(self) -> LedgerDatabase: ...

    @abstractmethod
    def _check(self, db: SqlConnection) -> Books: ...

    def _check_at_start(self, db: SqlConnection) -> Books:
        """Check the ledger when it is opened. Where there is a checkpoint, decisions are not repeated."""
        return self._check(db)

    @abstractmethod
    def _find_key(self) -> SigningKey: ...

    def _start(self) -> Self:
        """Verify all of the ledger. Returns it, ready for use."""
        try:
            self._books = self._verify(self._database, self._check_at_start)
        except LedgerError:
            self.close()
            raise
        return self

    # ---- the calls of `Ledger` -----------------------------------------------------------------------------

    def open_account(self, account: str, budget: Budget, neighbours: str | None = None) -> None:
        self._set_terms("account", account, budget, neighbours)

    def grant(self, account: str, budget: Budget) -> None:
        self._set_terms("grant", account, budget)

    def read_budget(self, account: str) -> Budget:
        return self._find_account(account).budget

    def read_allowance(self, account: str) -> Allowance:
        found = self._find_account(account)
        return Allowance(found.budget, found.caps)

    def read_spent(self, account: str) -> Cost:
        return self._find_account(account).spent

    def list_accounts(self) -> tuple[str, ...]:
        with self._reading() as (_, books):
            return tuple(sorted(books.accounts))

    def charge(self, charge: Charge, *, take_over: bool = False) -> Charged | Released:
        self._database.require_text(*charge.accounts, charge.key or "", charge.neighbours or "")
        done = self._write("charge", lambda transaction: transaction.charge(charge))
        if take_over and isinstance(done, PendingAnswer) and done.charged.head:
            return done.charged
        # Most charges are new, and `_settle` has nothing to do for them.
        return done if isinstance(done, Charged) else self._settle(charge, done)

    def reserve(self, charge: Charge, steps: int) -> Reserved | Released:
        require_step_count(steps)
        self._database.require_text(*charge.accounts, charge.key or "", charge.neighbours or "")
        done = self._write("reserve", lambda transaction: transaction.reserve(charge, steps))
        return self._settle(charge, done)

    def draw(self, reserved: Reserved, steps: int = 1) -> int:
        require_step_count(steps)
        return self._write("draw", lambda transaction: transaction.draw(reserved, steps))

    def note_unread(self, charged: Charged) -> None:
        self._write("unread", lambda transaction: transaction.note_unread(charged))

    def give_back(self, reserved: Reserved) -> Cost:
        return self._write("return", lambda transaction: transaction.give_back(reserved))

    def release(self, charged: Charged, answer: str) -> Released:
        self._database.require_text(answer)
        # Drawn and hashed before the lock is taken, so that others wait for less.
        nonce = draw_nonce()
        commitment = commit_to_answer(nonce, answer)

        def write(transaction: Transaction) -> tuple[int, str]:
            entry = transaction.release(charged, commitment, nonce, answer)
            return entry.seq, entry.hash

        seq, head = self._write("release", write)
        return self._sign(Released(charged.seq, head, charged.cost, answer, replayed=False, entry=seq))

    def find_charge(self, charge: Charge) -> Charged | None:
        with self._reading() as (_, books):
            seq = None if charge.key is None else books.keys.get((charge.payers, charge.key))
            head = "" if seq is None else books.heads.get(seq, "")
            if seq is None or not head or books.charges[seq][0] != charge.bound_request:
                return None
        return Charged(seq, head, charge.cost, charge.request)

    def was_given_up(self, charge: Charge) -> bool:
        with self._reading() as (_, books):
            return books.find_unread(charge) is not None

    def find_release(self, request: str, data: str = "") -> Released | None:
        require_utf8(request)
        with self._reading() as (db, books):
            charge = books.answered.get(bind_request(request, data))
            return None if charge is None else tables.read_answer(db, books, charge)

    def belongs_to(self, lab: str) -> bool:
        """Return whether the lab of this identity has claimed the ledger."""
        with self._reading() as (_, books):
            return books.lab == lab

    def claim(self, lab: str) -> None:
        if not self.belongs_to(lab):
            self._write("lab", lambda transaction: transaction.claim(lab))

    def note_snapshot(self, table: str, identity: str, before: SnapshotRead | None) -> None:
        self._write("snapshot", lambda transaction: transaction.note_snapshot(table, identity, before))

    def require_newest(self, snapshot: SnapshotRead) -> None:
        with self._reading() as (_, books):
            books.require_newest(snapshot)

    def read_entries(self, after: int = 0) -> Iterator[Entry]:
        # A page at a time, so that no lock is held while the caller works on the entries.
        while page := self._read_page(after):
            yield from page
            after = page[-1].seq

    def verify(self) -> Verified:
        # A connection of its own: a long check keeps no other thread from charging.
        with closing(self._make_database()) as database:
            return self._verify(database, self._check).summarize()

    def export(self, to: TextIO) -> int:
        lines = (entry.to_json() + "\n" for entry in check_entries(self.read_entries()))
        return sum(bool(to.write(line)) for line in lines)

    def find_entry(self, head: str) -> int | None:
        with self._connected() as db:
            return tables.find_entry(db, head)

    def sign_receipt(self, entry: int | None = None) -> SignedHead:
        with self._connected() as db:
            found = tables.read_head(db, entry)
            self._update_books(db)  # afterwards, so that the entry is durable before it is signed
        return self._find_key().sign(*found)

    def read_public_key(self) -> str:
        return self._find_key().read_public_key()

    def create_key(self) -> str:
        self._find_key().create()
        return self.read_public_key()

    def read_identity(self) -> str:
        with self._connected() as db:
            return tables.read_identity(db)

    def close(self) -> None:
        self._guard.error = self._guard.error or LedgerError("SF-L110", "This ledger is closed.")
        self._database.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UsageError(
            "SF-L303",
            "A ledger cannot be copied or pickled: two copies would be two budgets.",
            try_="open it in the other process",
        )

    # ---- steps of the calls above --------------------------------------------------------------------------

    def _verify(self, database: LedgerDatabase, check: Callable[[SqlConnection], Books]) -> Books:
        newest = self._newest  # before the check begins, since other threads go on writing
        with self._guard, database.lend_snapshot() as db:
            books = check(db)
            same = newest[0] == 0 or tables.has_entry(db, *newest)
            require_same_ledger(same, "its chain lacks an entry that was in it")
        with self._guard, database.lend_connection() as db:
            database.confirm(db)
        self._newest = max(self._newest, (books.seq, books.head))
        return books

    def _set_terms(
        self,
        kind: Literal["account", "grant"],
        name: str,
        budget: Budget,
        neighbours: str | None = None,
    ) -> None:
        parse_account(name)
        self._database.require_text(name, neighbours or "")
        terms = kind, name, budget, neighbours
        self._write(kind, lambda transaction: transaction.set_terms(*terms))

    def _settle(self, charge: Charge, done: T | KeptAnswer | PendingAnswer | BudgetShortage) -> T | Released:
        """Turn the outcome of a charge into what its caller gets: a value, a kept answer, or an error."""
        match done:
            case BudgetShortage(cost, name, account):
                raise shortage_error(replace(charge, cost=cost), name, account)
            case PendingAnswer():
                raise pending_error()
            case KeptAnswer(number):
                return self._sign(self._read_answer(number))
        return done

    def _sign(self, released: Released) -> Released:
        """Add a signature if there is a key for it. An answer does not depend on one."""
        try:
            return replace(released, signed=self._find_key().sign(released.entry, released.head))
        except (LedgerError, UsageError):
            return released

    def _read_answer(self, charge: int) -> Released:
        with self._connected() as db:
            return tables.read_answer(db, self._books or self._update_books(db), charge)

    def _find_account(self, name: str) -> AccountState:
        with self._reading() as (_, books):
            found = books.accounts.get(name)
        if found is None:
            raise unknown_account_error(name)
        return found

    def _read_page(self, after: int) -> list[Entry]:
        with self._connected() as db:
            return tables.read_page(db, after)

    # ---- the database --------------------------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Iterator[SqlConnection]:
        with self._guard, self._database.lend_connection() as db:
            yield db

    def _write(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Run a job, in one commit with other threads that write now. Once this returns, it is durable."""
        job = Job(name, work)
        with self._guard:
            self._database.queue.run_job(job, self._lead)
            result = job.take_result()
        # Outside of the guard: what a test raises here does not concern the ledger.
        if job.wrote:
            failpoints.reach(f"{job.name}:durable")
        return result

    def _lead(self) -> None:
        with CommitBatch() as batch:
            self._database.write(partial(self._run_batch, batch))

    def _run_batch(self, batch: CommitBatch, db: SqlConnection) -> None:
        # Taken only now, so that threads that came while this one waited for its turn are in the batch.
        batch.jobs = self._database.queue.take_jobs()
        if self._try_at_once(db, batch):
            return
        try:
            books = self._update_books(db, self._database.begin)
            transaction = batch.attempt_all(books)
            if transaction.entries:
                self._database.commit(db, transaction, batch.mark_written)
                self._apply(transaction)
            elif transaction.end != self._newest:
                # The decisions rest on entries of others, which may not be durable yet.
                self._database.confirm(db)
                self._newest = transaction.end
        finally:
            self._drop_doubtful_books()

    def _try_at_once(self, db: SqlConnection, batch: CommitBatch) -> bool:
        """Decide by the books in memory, on the condition that nobody has written since.

        Returns whether that was so. If another process wrote the last time, it may again, and finding out
        would cost a wait, so this is not tried.
        """
        books = self._books
        if books is None or not self._is_only_writer:
            return False
        transaction = batch.attempt_all(books)
        if not transaction.entries:
            # Nothing to write: the decision stands if the books it was made by are still all there is.
            done = self._update_books(db).seq == transaction.end[0]
        elif done := self._database.commit_at_once(db, transaction, batch.mark_written):
            self._apply(transaction)
        if not done:
            self._is_only_writer = False
            batch.reset()
        return done

    # ---- the books -----------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[tuple[SqlConnection, Books]]:
        with self._connected() as db:
            yield db, self._update_books(db)

    def _update_books(self, db: SqlConnection, begin: Callable[..., Any] | None = None) -> Books:
        """Return the books with everything that others have written.

        `begin`, if given, locks out other writers before the entries are read.
        """
        books, newest = self._books or Books(), self._newest
        ask, start = partial(tables.query_newer, db, books), books.seq
        rows = ask() if begin is None else begin(db, ask)
        # An interruption from here on could leave half an entry in the books. Without books, the next call
        # makes them again from the first entry.
        self._books = None
        tables.add_newer(db, books, rows)
        same = newest[0] <= start or tables.has_entry(db, *newest)
        require_same_ledger(same, "its chain lacks an entry that was in it")
        self._is_only_writer = books.seq == start
        if begin is None:
            if books.seq > newest[0]:
                self._database.confirm(db)
            self._newest = books.seq, books.head
        self._books = books
        return books

    def _drop_doubtful_books(self) -> None:
        """Forget books with entries that a crash of the server may still undo."""
        if self._books is not None and self._books.seq > self._newest[0]:
            self._books = None

    def _apply(self, transaction: Transaction) -> None:
        """Add to the books what is durable now."""
        self._books = None  # as above
        self._books, self._newest = transaction.apply_to_books(), transaction.end
