"""A database that threads use in turns, and whose connection is closed before a fork.

A connection must not cross a fork: two processes would write to one socket, or trust one note about file
locks. So every connection is closed before a fork and opened again, on either side, when it is next needed.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from sfumato.ledger.group_commit import CommitQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sfumato.ledger.tables import SqlConnection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")


class LedgerDatabase(ABC):
    """One connection that threads use in turns, and the queue of those who wait to write."""

    def __init__(self) -> None:
        # Reentrant, since a failed commit is looked up through the same object.
        self.turn = threading.RLock()
        self.queue = CommitQueue()
        with _forks:
            _databases.add(self)

    @abstractmethod
    def lend_connection(self) -> AbstractContextManager[SqlConnection]:
        """Yield the connection, for this thread alone."""

    @abstractmethod
    def lend_snapshot(self) -> AbstractContextManager[SqlConnection]:
        """Yield a connection on which several statements see one unchanging state."""

    @abstractmethod
    def write(self, work: Callable[[Any], T]) -> T:
        """Call `work` so that it can write, and undo what it leaves open. Returns its result.

        It opens its transaction with `begin` and ends it with `commit`, or does both with `commit_at_once`.
        Every error of the database becomes one of ours.
        """

    @abstractmethod
    def begin(self, db: SqlConnection, ask: Callable[[], T]) -> T:
        """Become the only writer among all processes, then return the result of `ask`."""

    @abstractmethod
    def commit(self, db: SqlConnection, done: Transaction, mark_written: Callable[[], None]) -> None:
        """Write and commit durably, or raise. SF-L108 says that nobody can know which happened.

        `mark_written` is called once everything was sent to the database and before the commit.
        """

    @abstractmethod
    def commit_at_once(self, db: SqlConnection, done: Transaction, mark_written: Callable[[], None]) -> bool:
        """Write and commit without `begin`, if the chain still ends where the transaction began.

        Returns whether it did. If not, nothing was written, and nobody is locked out.
        """

    def confirm(self, db: SqlConnection) -> None:  # noqa: B027 - most databases show only what is durable
        """Undo what is open, and return once everything that this connection has read is durable."""

    def forget_threads(self) -> None:
        """Replace locks after a fork, since the threads that may hold them do not exist in the child."""
        self.turn = threading.RLock()
        self.queue = CommitQueue()

    @abstractmethod
    def require_text(self, *texts: str) -> None:
        """Refuse texts that the database cannot keep, before they fail a batch that others share."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. The next use opens it again."""


_forks = threading.RLock()
_databases: WeakSet[LedgerDatabase] = WeakSet()
_closed_for_fork: list[LedgerDatabase] = []


def _before_fork() -> None:
    """Wait until no thread uses a database, and close them all. No new one can appear meanwhile."""
    _forks.acquire()  # released on either side of the fork
    _closed_for_fork[:] = _databases
    for database in _closed_for_fork:
        database.turn.acquire()
        database.close()


def _after_in_parent() -> None:
    for database in _closed_for_fork:
        database.turn.release()
    _closed_for_fork.clear()
    _forks.release()


def _after_in_child() -> None:
    global _forks
    for database in _closed_for_fork:
        database.forget_threads()
    _closed_for_fork.clear()
    _forks = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
