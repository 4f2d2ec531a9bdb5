"""Random bytes that depend on the name of a test only, instead of the operating system's.

A suite of thousands of statistical tests would fail now and then even if each test failed once in a
million runs, and nobody could tell such a failure from a mistake. `seeded_bytes` therefore seeds everything
that draws randomness in Python: `os.urandom`, `secrets`, `random`, NumPy and torch. Processes that a test
forks or starts get a stream each: forks through `os.register_at_fork`, new interpreters through the variable
SFUMATO_TEST_STREAM, which `sitecustomize.py` in this folder reads. `pytest --unseeded` keeps the operating
system's randomness; `make slow` uses it.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from threading import Lock
from typing import Any

VARIABLE = "SFUMATO_TEST_STREAM"
"""Name of the stream of a new interpreter."""

_SYSTEM = os.urandom


class SeededBytes:
    """A stream of bytes for one test, fixture or process."""

    def __init__(self, name: str) -> None:
        self.name, self._processes, self._lock = name, 0, Lock()
        # Of the standard library, because NumPy would cost every new interpreter 0.1 s.
        self._stream = random.Random(name)

    def __call__(self, count: int) -> bytes:
        with self._lock:
            return self._stream.randbytes(count)

    def name_next_process(self) -> str:
        self._processes += 1
        return f"{self.name}, process {self._processes}"


_current: SeededBytes | None = None
_name_of_fork = ""


def _before_fork() -> None:
    global _name_of_fork
    if _current is not None:
        _name_of_fork = _current.name_next_process()


def _after_fork() -> None:
    if _current is not None:
        _use(SeededBytes(_name_of_fork))


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def name_stream(environment: MutableMapping[str, str]) -> None:
    """Name the stream of a process that is about to start, in its environment."""
    if _current is not None:
        environment[VARIABLE] = _current.name_next_process()


def _watch_processes(event: str, arguments: tuple[Any, ...]) -> None:
    """Name the stream of each interpreter that `subprocess` starts."""
    if event == "subprocess.Popen":
        environment = arguments[3]
        if environment is None:
            environment = os.environ
        if isinstance(environment, MutableMapping):
            name_stream(environment)


sys.addaudithook(_watch_processes)


def _use(stream: SeededBytes | None, variable: str | None = None) -> None:
    """Draw from `stream` from now on, or from the operating system if it is None.

    `variable` is what the environment names from now on; by default the stream of one more process.
    """
    global _current
    _current = stream
    os.urandom = random._urandom = _SYSTEM if stream is None else stream  # type: ignore[attr-defined, assignment]
    if stream is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = variable or stream.name_next_process()  # for interpreters of other modules


def _seed_generators(name: str) -> None:
    """Seed the global generators of the libraries that are loaded."""
    seed = int.from_bytes(sha256(name.encode()).digest()[:4], "big")
    random.seed(seed)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _read_generators() -> list[tuple[Callable[[Any], object], Any]]:
    """Return the state of each global generator, after the function that sets it."""
    states: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy.random"]
        states.append((numpy.set_state, numpy.get_state()))
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        states.append((torch.set_rng_state, torch.get_rng_state()))
    return states


def follow_environment() -> None:
    """Use the stream that the environment names, if it names one."""
    name = os.environ.get(VARIABLE)
    if name:
        _use(SeededBytes(name))
        random.seed(name)


class SeedsItsReader:
    """Pickles as `value`, and gives the process that reads it a stream of its own."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        name = None if _current is None else _current.name_next_process()
        return _seed_and_return, (name, self._value)


def _seed_and_return(name: str | None, value: object) -> object:
    if name is not None:
        _use(SeededBytes(name))
    return value


@contextmanager
def seeded_bytes(name: str) -> Iterator[None]:
    """Draw everything from the stream `name` until the block ends.

    The block does not change later draws: it may set up a shared fixture, and the order of the tests decides
    in which of them that happens.
    """
    before, variable, generators = _current, os.environ.get(VARIABLE), _read_generators()
    _use(SeededBytes(name))
    _seed_generators(name)
    try:
        yield
    finally:
        _use(before, variable)
        for restore, state in generators:
            restore(state)


def stream_of_shared(name: str) -> AbstractContextManager[None]:
    """Return the block in which to start processes that several tests share, unless nothing is seeded."""
    return nullcontext() if _current is None else seeded_bytes(name)
