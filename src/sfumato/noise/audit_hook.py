"""The hook for auditors: every noisy answer passes here on its way out.

Nothing is kept and nothing happens unless an auditor has opened `recording` around the call, in the same
thread or task. A recorder sees exact values; it belongs in tests and audits of synthetic data.
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
    """One use of a mechanism: its exact input, and the sensitivity it was priced for."""

    mechanism: Any
    exact: Any
    sensitivity: Fraction | int | None
    """Sensitivity in the mechanism's own norm; None where the caller did not state it."""
    within: Any = None
    """The longer use that this call belongs to: all calls within it are one use, at one price."""


class Recorder(Protocol):
    """An auditor that stands between a mechanism and its caller."""

    def answer(self, call: MechanismCall, draw: Callable[[], Answer]) -> Answer:
        """Return the answer to give, drawn now or taken from elsewhere."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("sfumato.recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Pass every answer of this thread or task through the recorder, until the block ends."""
    before = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(before)


def is_recorded() -> bool:
    """Return whether an auditor sees the answers of this thread or task."""
    return _RECORDER.get() is not None


def observed(
    mechanism: Any,
    exact: Any,
    sensitivity: Fraction | int | None,
    draw: Callable[[], Answer],
    *,
    within: Any = None,
) -> Answer:
    """Return the draw of a mechanism, or what a recorder gives instead.

    A mechanism made of others is one call: what those others answer stays unobserved.
    """
    recorder = _RECORDER.get()
    if recorder is None:
        return draw()
    return recorder.answer(MechanismCall(mechanism, exact, sensitivity, within), lambda: unobserved(draw))


def unobserved(draw: Callable[[], Answer]) -> Answer:
    """Return a draw that no recorder sees, because it is released to no one."""
    before = _RECORDER.set(None)
    try:
        return draw()
    finally:
        _RECORDER.reset(before)
