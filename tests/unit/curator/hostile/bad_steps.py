"""Steps that go wrong in a worker after rows were read, each in its own way. Workers import this module."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Laplace

if TYPE_CHECKING:
    from sfumato.engines.program import EngineProgram
    from sfumato.privacy.events import Event


def _take_memory() -> None:
    taken = []
    while True:
        taken.append(b"x" * 2**26)


WAYS = {
    "raises": lambda: 1 // 0,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crashes": lambda: ctypes.string_at(0),
    "takes memory": _take_memory,
    "never ends": lambda: time.sleep(1000),
    "leaves": lambda: os._exit(0),
}


@tagged("BadStep", "program", "way")
@dataclass(frozen=True, slots=True)
class BadStep:
    """A step that fails in one of the ways above, or says which process it ran in."""

    program: EngineProgram[Any]
    way: str

    def event(self) -> Event:
        return Laplace(1)

    def release(self, exact: Any) -> object:
        if self.way in WAYS:
            WAYS[self.way]()
        return [os.getpid(), "pandas" in sys.modules]


class NeverAnswers:
    """A step whose program cannot even be looked at in time."""

    @property
    def program(self) -> Any:
        time.sleep(1000)


@dataclass(frozen=True, slots=True)
class NotesModules:
    """A step that does what another does, and then writes to a file which modules its worker has imported."""

    step: Any
    path: str

    @property
    def program(self) -> Any:
        return self.step.program

    def release(self, exact: Any) -> object:
        released: object = self.step.release(exact)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(" ".join(sorted(sys.modules)) + "\n")
        return released
