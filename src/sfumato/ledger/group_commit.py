"""Group commit: threads that write at the same time share one transaction, and so one wait for the disk.

The thread that comes when nobody is at work leads. It runs the jobs of all who wait and commits once. Nobody
hears of a result before that commit: jobs see each other's writes, so if it fails, it fails for all of them.
Then the first of those who came meanwhile leads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sfumato.errors import LedgerError, SfumatoError
from sfumato.ledger import steps
from sfumato.ledger.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.books import Books

T = TypeVar("T")

ILL = ("SF-L101", "SF-L102", "SF-L103", "SF-L108", "SF-L112")
"""After these the ledger refuses everything."""

LARGEST = 500
"""Jobs in one commit: more would keep other processes from theirs for too long."""


PATIENCE = 0.25
"""Of the time that the last commit took, that the next waits for those who were in it."""


class Job(Generic[T]):
    """A thread's work inside a transaction that it may share with others.

    It decides first and writes last: what has written is not refused.
    """

    wrote = False
    leads = False
    done = False
    woken: threading.Event | None = None
    """Who leads waits for nobody, so it needs nothing to be woken by."""
    _error: BaseException | None = None
    _result: T

    def __init__(self, name: str, work: Callable[[Transaction], T]) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self._work = work

    def attempt(self, transaction: Transaction) -> None:
        """Do it, or remember why not. What concerns everyone is raised."""
        before = len(transaction.entries)
        try:
            steps.step(f"{self.name}:begun")
            self._result = self._work(transaction)
        except Exception as error:
            if concerns_everyone(error) or len(transaction.entries) != before:
                raise
            self._error = error
        self.wrote = len(transaction.entries) != before

    def lead(self) -> None:
        """Whoever led before is gone."""
        self.leads = True
        if self.woken is not None:
            self.woken.set()

    def again(self) -> None:
        """Nothing was done."""
        self._error, self.wrote = None, False

    def fail(self, error: BaseException) -> None:
        self._error, self.wrote = error, False

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


class Batch:
    """The jobs of one transaction. All are done when its `with` ends, well or not.

    What is raised within befalls every job. An interruption is the leader's own, the rest hear why.
    """

    _committing = False

    def __init__(self) -> None:
        self.jobs: list[Job[Any]] = []

    def attempt(self, books: Books) -> Transaction:
        """Do all, one after the other."""
        transaction = Transaction(books, alone=len(self.jobs) == 1)
        for job in self.jobs:
            job.attempt(transaction)
        return transaction

    def again(self) -> None:
        self._committing = False
        for job in self.jobs:
            job.again()

    def written(self) -> None:
        """All that they write is decided or with the database, and nothing is committed."""
        for job in self.jobs:
            if job.wrote:
                steps.step(f"{job.name}:written")
        self._committing = True  # from now on nobody can say that nothing was done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and not isinstance(error, Exception):
            error = unconfirmed() if self._committing else busy()
        for job in self.jobs:
            if error is not None:
                job.fail(error)
            job.done = True
            if job.woken is not None:
                job.woken.set()


class Group:
    """Who waits to write, among the threads of one process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Job[Any]] = deque()
        self._led = False
        self._enough = threading.Condition(self._mutex)
        self._missing: set[int] = set()
        self._span = 0.0

    def run(self, job: Job[T], lead: Callable[[], None]) -> None:
        """Until the job is done, by this thread or by another. `lead` takes a batch and does it."""
        try:
            self._join(job)
            if job.woken is not None:
                job.woken.wait()
            while not job.done:
                if self._missing:
                    self._gather()
                start = time.monotonic()
                lead()
                self._span = time.monotonic() - start
        finally:
            self._leave(job)

    def take(self) -> list[Job[Any]]:
        """Those who wait now, for one batch."""
        with self._mutex:
            if len(self._queue) == 1:
                self._missing.clear()
                return [self._queue.popleft()]
            jobs = [self._queue.popleft() for _ in range(min(len(self._queue), LARGEST))]
            self._missing = {job.thread for job in jobs}
            return jobs

    def _gather(self) -> None:
        """A crowd that shared a commit comes back at once if at all: a part of its time is waited for them.

        Else two halves of the crowd would take turns, each waiting for the other's commit.
        """
        with self._mutex:
            self._enough.wait_for(lambda: not self._missing, self._span * PATIENCE)

    def _join(self, job: Job[Any]) -> None:
        with self._mutex:
            if self._led:
                job.woken = threading.Event()
            job.leads = not self._led
            self._led = True
            self._queue.append(job)
            if job.thread in self._missing:
                self._missing.discard(job.thread)
                self._enough.notify()

    def _leave(self, job: Job[Any]) -> None:
        """Whether done, failed or interrupted: nobody may wait for a leader that is gone."""
        with self._mutex:
            if job in self._queue:
                self._queue.remove(job)
            if not job.leads:
                return
            if self._queue:
                self._queue[0].lead()
            else:
                self._led = False


def concerns_everyone(error: Exception) -> bool:
    """Ours is not: the job was refused. But an ill ledger serves nobody, and after an error of the database
    nothing is known of its transaction.
    """
    if isinstance(error, LedgerError):
        return error.code in ILL
    return not isinstance(error, SfumatoError)


def busy() -> LedgerError:
    return LedgerError(
        "SF-L104", "The ledger is busy, so nothing was done.", try_="the same again in a while"
    )


def unconfirmed() -> LedgerError:
    """Written as far as can be seen, but the disk did not say that it will stay: no answer may rest on it."""
    return LedgerError(
        "SF-L108",
        "The disk did not confirm what was written to the ledger, so nothing is answered.",
        spent="this question may have been charged",
        try_="check the disk, then open the ledger anew",
    )
