"""A database that threads use in turns, and whose connection is closed before a fork.

A connection must not cross a fork: two processes would write to one socket, or trust one note about file
locks. So every connection is closed before a fork and opened again, on either side, when it is next needed.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from sfumato.ledger.group_commit import CommitQueue
from sfumato.ledger.sharing import SharedWriting

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from weakref import WeakMethod

    from sfumato.ledger.tables import SqlConnection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MeetingPlace:
    """How processes that share a ledger find and believe each other: `SharedPlace`, by a connection."""

    database: LedgerDatabase
    db: SqlConnection

    def describe(self) -> list[Any]:
        return self.database.describe_place(self.db)

    def announce(self, badge: int) -> bool:
        return self.database.announce_writer(self.db, badge)

    def is_announced(self, badge: int) -> bool:
        return self.database.has_announced(self.db, badge)


class LedgerDatabase(ABC):
    """One connection that threads use in turns, and the queue of those who wait to write."""

    outlives_writers = True
    """Whether what a process has sent can still be written after the process has died, as by a server."""

    def __init__(self) -> None:
        # Reentrant, since a failed commit is looked up through the same object.
        self.turn = threading.RLock()
        self.queue = CommitQueue()
        self.sharing = SharedWriting()
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

    @abstractmethod
    def describe_place(self, db: SqlConnection) -> list[Any]:
        """Return what only processes have in common that may write to the same ledger."""

    def announce_writer(self, db: SqlConnection, badge: int) -> bool:
        """Show to others that the process with this badge may write. Returns whether that was possible.

        Where each process looks for what another has written, there is nothing to show.
        """
        return True

    def has_announced(self, db: SqlConnection, badge: int) -> bool:
        """Return whether the process with this badge has shown that it may write, or need not."""
        return True

    def hand_over(
        self, db: SqlConnection, messages: list[list[Any]], write: WeakMethod[Any]
    ) -> list[Any] | None:
        """Have another process write, or offer to write for others by `write` from now on.

        Returns number and hash of each entry, or None for one that it declined. None as a whole says that
        nobody was asked. An OSError says that all of it may be written, or nothing.
        """
        return self.sharing.ask(MeetingPlace(self, db), messages, write)

    def require_written(self, db: SqlConnection, seq: int, head: str, mark: str) -> None:  # noqa: B027
        """Refuse what another process replies about an entry, unless it is in this ledger.

        Where a name leads to the same server alone, whoever has it writes to the same ledger.
        """

    def forget_threads(self) -> None:
        """Replace locks after a fork, since the threads that may hold them do not exist in the child."""
        self.turn = threading.RLock()
        self.queue = CommitQueue()
        self.sharing.forget()
        self.sharing = SharedWriting()

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
