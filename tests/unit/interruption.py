"""Ctrl-C at a place of one's choice, so that a test can try all of them."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from dis import opmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_RESUME = opmap["RESUME"]


class _Pressed(KeyboardInterrupt):
    """A Ctrl-C of this tool."""


class Interruption:
    """Raises KeyboardInterrupt in this thread at the n-th place after a function has begun.

    Python handles a signal between two instructions: when a function begins, when a generator resumes after
    `yield`, and after a call of a function that is written in C. Python calls a profiler at these places. It
    also calls it when a generator resumes in the middle of `yield from`, and when an exception is thrown into
    a generator. There Python leaves a signal for later. An exception raised there would miss the inner
    generator and leave it half-way, so this class does not count them as places.

    Python itself loses an exception that is raised while it frees an object: in `__del__`, in the callback of
    a weak reference, or in a generator that is dropped. It loses a real Ctrl-C in the same way, and reports
    it to `sys.unraisablehook`. When objects are freed depends on chance, and no program can pass such an
    exception on; the person who pressed Ctrl-C has to press it again. This class does the same: it raises
    again at the next place. An interruption that is lost in any other way was swallowed by our code.
    """

    def __init__(self, function: Callable[..., object], place: int) -> None:
        self.left, self._code, self._is_within = place, function.__code__, False  # type: ignore[attr-defined]
        self._reported = sys.unraisablehook

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is self._code and event in ("call", "return"):
            self._is_within = event == "call"
        if self._is_within and (event == "c_return" or (event == "call" and _handles_signals(frame))):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise _Pressed  # not stored: its frames hold locks until it is freed

    def press_again(self, lost: sys.UnraisableHookArgs) -> None:
        """Take the place of `sys.unraisablehook`."""
        if isinstance(lost.exc_value, _Pressed):
            self.left = 1
            sys.setprofile(self)
        else:
            self._reported(lost)


@contextmanager
def interrupt_at(function: Callable[..., object], place: int) -> Iterator[Interruption]:
    interruption = Interruption(function, place)
    # Garbage of earlier tests would add places that have nothing to do with the function.
    gc.disable()
    sys.unraisablehook = interruption.press_again
    sys.setprofile(interruption)
    try:
        yield interruption
        assert interruption.left > 0, "it was swallowed"
    except KeyboardInterrupt:
        assert interruption.left == 0
    finally:
        sys.setprofile(None)
        sys.unraisablehook = interruption._reported
        gc.enable()


def _handles_signals(frame: FrameType) -> bool:
    """Return whether Python looks for signals where this frame begins or goes on."""
    code, at = frame.f_code.co_code, frame.f_lasti
    # 0 is the start of a function, 1 comes after `yield`, 2 and 3 are within `yield from` and `await`. If an
    # exception is thrown into a generator, it is at none of these instructions.
    return at >= 0 and code[at] == _RESUME and code[at + 1] & 3 < 2
