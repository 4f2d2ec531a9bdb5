"""How long one program may run, and how much memory it may take: the same numbers for every engine."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run. An engine ends what exceeds them, with an error of its own."""

    seconds: float = 600.0
    memory: int | None = None
    """Bytes for an engine that runs in this process; none leaves its own limit in place."""

    def __post_init__(self) -> None:
        if not self.seconds > 0 or (self.memory is not None and self.memory <= 0):
            raise ValueError("limits are above zero")


_USUAL = RunLimits()
_LIMITS = ContextVar("limits", default=_USUAL)


def current_limits() -> RunLimits:
    """Return the limits of what this thread runs."""
    return _LIMITS.get()


@contextmanager
def limit_runs(limits: RunLimits) -> Iterator[None]:
    """Run what this thread runs inside under other limits."""
    before = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(before)
