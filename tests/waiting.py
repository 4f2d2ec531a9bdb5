"""Wait for a state instead of a time, so that no test depends on how busy the machine is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a test gives up waiting. Only something that hangs takes so long."""


def wait_until(is_reached: Callable[[], object], what: str) -> None:
    """Return as soon as `is_reached()` is true; fail with `what` after `PATIENCE` seconds."""
    late = time.monotonic() + PATIENCE
    while not is_reached():
        assert time.monotonic() < late, f"waited {PATIENCE:.0f} s for nothing: {what}"
        time.sleep(0.01)
