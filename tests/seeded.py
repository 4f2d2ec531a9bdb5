"""Random bytes that depend on nothing but the name of the test, in place of the operating system's.

A suite of thousands of tests on noise would fail now and then even if each of them did so only once in a
million runs, and nobody could tell such a failure from a mistake. Every draw of a test is therefore the same
in every run, in the processes that it forks too. `pytest --unseeded` gives the operating system's bytes back:
`make slow` does, and so does whoever looks for a test that depends on luck.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock

import numpy as np


class SeededBytes:
    """A stream of bytes for one test. Each process that the test forks has a stream of its own."""

    def __init__(self, name: str) -> None:
        self._name, self._forks, self._lock = name, 0, Lock()
        self._begin()

    def __call__(self, count: int) -> bytes:
        with self._lock:
            return self._stream.bytes(count)

    def before_fork(self) -> None:
        self._forks += 1

    def after_fork(self) -> None:
        """Begin the stream of the new process, which no other process of this test has."""
        self._name, self._forks, self._lock = f"{self._name}, process {self._forks}", 0, Lock()
        self._begin()

    def _begin(self) -> None:
        self._stream = np.random.Generator(np.random.PCG64(list(sha256(self._name.encode()).digest())))


_current: SeededBytes | None = None


def _before_fork() -> None:
    if _current is not None:
        _current.before_fork()


def _after_fork() -> None:
    if _current is not None:
        _current.after_fork()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


@contextmanager
def seeded_bytes(name: str) -> Iterator[None]:
    """Give the bytes of a test to all that asks `os.urandom`, `secrets` or an unseeded NumPy generator."""
    global _current
    before = os.urandom, random._urandom  # type: ignore[attr-defined]
    _current = SeededBytes(name)
    os.urandom = random._urandom = _current  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        _current = None
        os.urandom, random._urandom = before  # type: ignore[attr-defined]
