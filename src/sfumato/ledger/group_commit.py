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

from sfumato.ledger import failpoints, tables
from sfumato.ledger.failures import busy_error, concerns_all_jobs, unconfirmed_error
from sfumato.ledger.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger.books import Books
    from sfumato.ledger.carried import CarriedWrite
    from sfumato.ledger.tables import SqlConnection

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
    is_written = False
    """True once another process has written it durably."""
    carried: CarriedWrite | None = None
    """What another process was asked to write in its place."""
    woken: threading.Lock | None = None
    """Released once the job is done or has to lead. A thread that leads from the start needs none."""
    _error: BaseException | None = None
    _result: T

    def __init__(
        self,
        name: str,
        work: Callable[[Transaction], T],
        carry: Callable[[], CarriedWrite] | None = None,
        *,
        is_for_others: bool = False,
    ) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self.carry = carry
        """Makes what another process has to know to do this job, if another one can."""
        self.is_for_others = is_for_others
        """True if the work writes for other processes. It sees its own writes."""
        self._work = work

    def look_up(self, db: SqlConnection, after: int) -> None:
        """Take the result from the chain, if another process has written this job's entry to it."""
        if self.carried is None:
            return
        found = tables.find_mark(db, after, self.carried.mark)
        if found is not None:
            result = self.carried.read_reply(*found)
            self._work = lambda _: result

    def take_reply(self, seq: int, head: str) -> None:
        """Take the result from another process, which has written it durably."""
        if self.carried is not None:
            self._result, self.wrote, self.is_written = self.carried.read_reply(seq, head), True, True

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
    in_doubt = False
    """True once another process was asked and has not replied, so that it may have written the jobs."""
    may_come_late = False
    """Whether it may still do so, even if nothing of the jobs is found under the lock."""
    asked_after = 0
    """Number of the entry after which it would have written them."""

    def __init__(self) -> None:
        self.jobs: list[Job[Any]] = []

    @property
    def open_jobs(self) -> list[Job[Any]]:
        return [job for job in self.jobs if not job.is_written]

    @property
    def can_be_carried(self) -> bool:
        """Whether another process can do all of the jobs."""
        return all(job.carry is not None for job in self.jobs)

    def carry_all(self) -> list[list[Any]]:
        """Return the jobs as another process can do them."""
        for job in self.jobs:
            job.carried = job.carried or (job.carry() if job.carry else None)
        return [self._write_message(job.carried) for job in self.jobs if job.carried]

    def _write_message(self, carried: CarriedWrite) -> list[Any]:
        return carried.seek_after(self.asked_after) if self.in_doubt else carried.message

    def attempt_all(self, books: Books) -> Transaction:
        """Run all jobs, one after the other, in one transaction."""
        jobs = self.open_jobs
        transaction = Transaction(books, alone=len(jobs) == 1 and not jobs[0].is_for_others)
        for job in jobs:
            job.attempt(transaction)
        return transaction

    def reset(self) -> None:
        """Forget an attempt of which nothing was written, so that all jobs can run again."""
        self._committing = self.in_doubt
        for job in self.open_jobs:
            job.reset()

    def mark_asked(self, newest: int) -> None:
        """Note that another process is asked to write, so that an interruption leaves open whether it did.

        What it writes comes after the entry `newest`. Other threads may read further before it is looked up.
        """
        self._committing, self.asked_after = True, newest

    def mark_written(self) -> None:
        """Note that everything was sent to the database, and that the commit comes next."""
        for job in self.open_jobs:
            if job.wrote:
                failpoints.reach(f"{job.name}:written")
        self._committing = True  # from here on, an interruption leaves open whether the commit happened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # KeyboardInterrupt and its like belong to the leader's thread, and are raised there.
        is_interrupted = error is not None and not isinstance(error, Exception)
        if is_interrupted:
            error = unconfirmed_error() if self._committing else busy_error()
        for job in self.jobs:
            if error is not None and not job.is_written:
                # Who waits in another process looks for its entry. This ledger is not in doubt by that.
                job.fail(ConnectionResetError() if is_interrupted and job.is_for_others else error)
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
                following = self._queue[0] if self._queue else None
                if following is not None and (job.is_for_others or following.is_for_others):
                    self._absent.add(job.thread)  # or this process and the others would take turns
                self._leader = following
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
