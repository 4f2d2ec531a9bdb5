"""A database that threads take in turns, and that is let go of before a fork.

A connection must not cross a fork: two processes would speak on one socket, or trust one note about locks. So
every connection is closed before a fork and opened again on either side when it is next needed.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from sfumato.ledger.group_commit import Group

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sfumato.ledger.tables import Connection
    from sfumato.ledger.transaction import Transaction

T = TypeVar("T")


class Shared(ABC):
    """Whose turn it is, and who waits to write. Each kind of database has one connection at a time."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.group = Group()
        with _forks:
            _databases.add(self)

    @abstractmethod
    def connected(self) -> AbstractContextManager[Connection]:
        """The connection, for this thread alone."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """One unchanging view over several statements."""

    @abstractmethod
    def write(self, work: Callable[[Any], T]) -> T:
        """Do it in a transaction that `begin` opens and `commit` ends. What is left open is undone.

        Every error of the database becomes one of ours.
        """

    @abstractmethod
    def begin(self, db: Connection, ask: Callable[[], T]) -> T:
        """Put these questions as the only writer of all processes."""

    @abstractmethod
    def commit(self, db: Connection, done: Transaction, written: Callable[[], None]) -> None:
        """Write and commit durably, or it raises. What cannot be known is SF-L108.

        `written` is called once all is with the database and nothing is committed.
        """

    @abstractmethod
    def commit_at_once(self, db: Connection, done: Transaction, written: Callable[[], None]) -> bool:
        """The same without `begin`, if the chain ends where the transaction began. Else nothing is done."""

    @abstractmethod
    def require_text(self, *texts: str) -> None:
        """Refuse what the database cannot keep before it is one job of many."""

    @abstractmethod
    def close(self) -> None: ...


_forks = threading.RLock()
_databases: WeakSet[Shared] = WeakSet()
_waiting: list[Shared] = []


def _before_fork() -> None:
    """Wait for every thread's turn to end, and close. No new database appears meanwhile."""
    _forks.acquire()
    _waiting[:] = sorted(_databases, key=id)
    for database in _waiting:
        database.turn.acquire()
        database.close()


def _after_in_parent() -> None:
    for database in _waiting:
        database.turn.release()
    _waiting.clear()
    _forks.release()


def _after_in_child() -> None:
    """The threads that might have waited for these locks do not exist here."""
    global _forks
    for database in _waiting:
        database.turn = threading.RLock()
        database.group = Group()
    _waiting.clear()
    _forks = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
