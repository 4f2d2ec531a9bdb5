"""A window for auditors: every noisy answer passes here on its way out.

Nothing is kept and nothing happens unless an auditor has opened `recording` around the call, in the same
thread or task. A recorder sees exact values; it belongs in tests and audits of made-up data.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class MechanismCall:
    """One use of a mechanism: what it was given, and how far one unit can move that, as priced."""

    mechanism: Any
    exact: Any
    sensitivity: Fraction | int | None
    """In the mechanism's own norm; none where the caller did not say."""
    within: Any = None
    """What was begun before and goes on with this call: all calls within it are one use, at one price."""


class Recorder(Protocol):
    """Stands between a mechanism and whoever asked it."""

    def answer(self, call: MechanismCall, draw: Callable[[], Answer]) -> Answer:
        """The answer to give, drawn now or taken from elsewhere."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("sfumato.recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Show every answer of this thread or task to the recorder, until the block ends."""
    before = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(before)


def observed(
    mechanism: Any,
    exact: Any,
    sensitivity: Fraction | int | None,
    draw: Callable[[], Answer],
    *,
    within: Any = None,
) -> Answer:
    """What a mechanism gives back: its draw, unless a recorder stands in between.

    A mechanism made of others is one call: what those others answer stays inside.
    """
    recorder = _RECORDER.get()
    if recorder is None:
        return draw()
    return recorder.answer(MechanismCall(mechanism, exact, sensitivity, within), lambda: unobserved(draw))


def unobserved(draw: Callable[[], Answer]) -> Answer:
    """A draw that no recorder sees, as it is told to no one."""
    before = _RECORDER.set(None)
    try:
        return draw()
    finally:
        _RECORDER.reset(before)
