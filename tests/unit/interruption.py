"""Ctrl-C at a place of one's choice, so that a test can try all of them."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


class Interruption:
    """Raises KeyboardInterrupt in this thread once a function has come to so many places.

    Python looks for signals when a function begins and after a call of one written in C. A profiler is
    called in the same places.
    """

    def __init__(self, function: Callable[..., object], place: int) -> None:
        self.left, self._code, self._is_within = place, function.__code__, False  # type: ignore[attr-defined]

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is self._code and event in ("call", "return"):
            self._is_within = event == "call"
        if self._is_within and event in ("call", "c_return"):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


@contextmanager
def interrupt_at(function: Callable[..., object], place: int) -> Iterator[Interruption]:
    interruption = Interruption(function, place)
    # Python swallows what is raised while garbage of earlier tests is collected, wherever that happens to be.
    gc.disable()
    sys.setprofile(interruption)
    try:
        yield interruption
        assert interruption.left > 0, "it was swallowed"
    except KeyboardInterrupt:
        assert interruption.left == 0
    finally:
        sys.setprofile(None)
        gc.enable()
