"""Group commit: threads that write at the same time share one transaction, and so one wait for the disk.

A thread that finds nobody at work leads. It runs the jobs of all waiting threads and commits once. No thread
learns a result before that commit: jobs see each other's writes, so a failed commit fails all of them. Then
the first thread that came in the meantime leads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sfumato.ledger import failpoints
from sfumato.ledger.failures import busy_error, concerns_all_jobs, unconfirmed_error
from sfumato.ledger.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.books import Books

T = TypeVar("T")

MAX_BATCH = 500
"""Most jobs in one commit: a larger one would keep other processes waiting for too long.

No privacy depends on it. `benchmarks/ledger.py` runs at most 64 threads, which always fit.
"""

REJOIN_WAIT = 0.25
"""Fraction of the last commit's duration to wait for its writers to rejoin.

Chosen with `benchmarks/ledger.py` (64 threads). No privacy depends on it.
"""


class Job(Generic[T]):
    """One thread's work inside a transaction that it may share with others.

    A job decides first and writes last: once it has written, it is no longer refused.
    """

    wrote = False
    leads = False
    done = False
    woken: threading.Lock | None = None
    """Released once the job is done or has to lead. A thread that leads from the start needs none."""
    _error: BaseException | None = None
    _result: T

    def __init__(self, name: str, work: Callable[[Transaction], T]) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self._work = work

    def attempt(self, transaction: Transaction) -> None:
        """Run the work and keep its result or its refusal. Errors that concern every job are raised."""
        before = len(transaction.entries)
        try:
            failpoints.reach(f"{self.name}:begun")
            self._result = self._work(transaction)
        except Exception as error:
            # A job that fails after it has written leaves half of its entries behind: all must be undone.
            if concerns_all_jobs(error) or len(transaction.entries) != before:
                raise
            self._error = error
        self.wrote = len(transaction.entries) != before

    def promote(self) -> None:
        """Make this job's thread the leader, since the last one has left."""
        self.wake()
        self.leads = True

    def finish(self) -> None:
        """Let the job's thread take its result."""
        self.done = True
        self.wake()

    def wake(self) -> None:
        """Let the job's thread go on. A second call changes nothing."""
        if self.woken is not None:
            with suppress(RuntimeError):  # it was released before
                self.woken.release()

    def reset(self) -> None:
        """Forget an attempt of which nothing was written."""
        self._error, self.wrote = None, False

    def fail(self, error: BaseException) -> None:
        self._error, self.wrote = error, False

    def take_result(self) -> T:
        """Return what the work returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result


class CommitBatch:
    """The jobs of one transaction. When its `with` block ends, well or not, all of them are done.

    An error in the block fails every job. An interruption is raised in the leader's thread only; the other
    threads get an error that says whether anything may have been written.
    """

    _committing = False

    def __init__(self) -> None:
        self.jobs: list[Job[Any]] = []

    def attempt_all(self, books: Books) -> Transaction:
        """Run all jobs, one after the other, in one transaction."""
        transaction = Transaction(books, alone=len(self.jobs) == 1)
        for job in self.jobs:
            job.attempt(transaction)
        return transaction

    def reset(self) -> None:
        """Forget an attempt of which nothing was written, so that all jobs can run again."""
        self._committing = False
        for job in self.jobs:
            job.reset()

    def mark_written(self) -> None:
        """Note that everything was sent to the database, and that the commit comes next."""
        for job in self.jobs:
            if job.wrote:
                failpoints.reach(f"{job.name}:written")
        self._committing = True  # from here on, an interruption leaves open whether the commit happened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # KeyboardInterrupt and its like belong to the leader's thread, and are raised there.
        if error is not None and not isinstance(error, Exception):
            error = unconfirmed_error() if self._committing else busy_error()
        for job in self.jobs:
            if error is not None:
                job.fail(error)
            job.finish()


class CommitQueue:
    """The threads of one process that wait to write.

    They wait for plain locks: Ctrl-C in the wait of a condition or an event may come while its inner lock is
    not held, and is then hidden by a RuntimeError. Whatever has to happen after Ctrl-C can be begun twice.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Job[Any]] = deque()
        self._leader: Job[Any] | None = None
        self._taken: list[Job[Any]] = []
        """Jobs of the batch that is under way."""
        self._all_back: threading.Lock | None = None
        """Released once all absent threads are back, while a leader waits for them."""
        self._absent: set[int] = set()
        """Threads of the last commit that have not come back yet."""
        self._last_duration = 0.0

    def run_job(self, job: Job[T], lead: Callable[[], None]) -> None:
        """Return once the job is done, by this thread or another. `lead` takes waiting jobs and runs them."""
        try:
            self._join(job)
            if job.woken is not None:
                job.woken.acquire()
            # Woken and not done, this thread leads. It may have to lead twice, if a batch is full without it.
            while not job.done:
                if self._absent:
                    self._wait_for_absent()
                start = time.monotonic()
                lead()
                self._last_duration = time.monotonic() - start
        finally:
            try:
                self._leave(job)
            except KeyboardInterrupt:
                self._leave(job)
                raise

    def take_jobs(self) -> list[Job[Any]]:
        """Return the jobs that wait now, for one batch."""
        with self._mutex:
            if len(self._queue) == 1:
                # A thread by itself is not waited for: nobody would share the commit.
                self._absent.clear()
                self._taken = [self._queue[0]]
                self._queue.popleft()
                return self._taken
            jobs = self._taken = list(islice(self._queue, MAX_BATCH))
            for _ in jobs:
                self._queue.popleft()
            self._absent = {job.thread for job in jobs}
            return jobs

    def _wait_for_absent(self) -> None:
        """Wait a little for the threads of the last commit.

        Threads that shared a commit usually write again at once. Without the wait they would split into two
        halves that take turns, each waiting for the other's commit.
        """
        with self._mutex:
            if not self._absent:
                return
            back = self._all_back = _make_held_lock()
        back.acquire(timeout=self._last_duration * REJOIN_WAIT)

    def _join(self, job: Job[Any]) -> None:
        with self._mutex:
            if self._leader is None:
                self._leader, job.leads = job, True
            else:
                job.woken = _make_held_lock()
            self._queue.append(job)
            if job.thread in self._absent:
                self._absent.discard(job.thread)
                if self._all_back is not None and not self._absent:
                    self._all_back.release()
                    self._all_back = None

    def _leave(self, job: Job[Any]) -> None:
        """Hand over the lead, however the job ended: nobody may wait for a leader that is gone."""
        with self._mutex:
            if job in self._queue:  # interrupted before anyone took it
                self._queue.remove(job)
            if self._leader is job:
                self._finish_taken()
                self._leader = self._queue[0] if self._queue else None
            if self._leader is not None and not self._leader.leads:
                self._leader.promote()

    def _finish_taken(self) -> None:
        """Let nobody wait for a batch whose leader was interrupted while it told the others."""
        for job in self._taken:
            if not job.done:
                job.fail(unconfirmed_error())
                job.finish()
        self._taken = []


def _make_held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
