"""How long one program may run, and how much memory and disk it may take: the same for every engine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

USUAL_MEMORY = 4 * 2**30
"""Bytes that DuckDB may take for questions if nothing else is set; at most half of the machine's memory."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run. An engine ends what exceeds them, with an error of its own."""

    seconds: float = 600.0
    memory: int | None = None
    """Bytes for an engine that runs in this process; none stands for the usual limit."""
    spill: int = 16 * 2**30
    """Bytes on disk for what does not fit in that memory."""

    def __post_init__(self) -> None:
        if not self.seconds > 0 or (self.memory is not None and self.memory <= 0) or self.spill < 0:
            raise ValueError("limits are above zero")
        if type(self.memory or 0) is not int or type(self.spill) is not int:
            raise TypeError("bytes are whole numbers")

    @property
    def bytes_in_memory(self) -> int:
        """The memory that is set, or else the usual one, which follows from the machine alone."""
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return self.memory or min(USUAL_MEMORY, machine // 2)

    def within(self, other: RunLimits) -> RunLimits:
        """Return limits that keep both these and others."""
        memory = min(filter(None, (self.memory, other.memory)), default=None)
        return RunLimits(min(self.seconds, other.seconds), memory, min(self.spill, other.spill))

    def to_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "memory": self.memory, "spill": self.spill}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> RunLimits:
        return cls(fields["seconds"], fields["memory"], fields["spill"])


_USUAL = RunLimits()
_LIMITS: ContextVar[RunLimits | None] = ContextVar("limits", default=None)


def current_limits() -> RunLimits:
    """Return the limits of what this thread runs."""
    return _LIMITS.get() or _USUAL


@contextmanager
def limit_runs(limits: RunLimits) -> Iterator[None]:
    """Run what this thread runs inside under other limits."""
    before = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(before)


@contextmanager
def limit_more(limits: RunLimits) -> Iterator[None]:
    """Run what this thread runs inside under these limits, and under those that hold for it already."""
    outer = _LIMITS.get()
    with limit_runs(limits if outer is None else outer.within(limits)):
        yield
