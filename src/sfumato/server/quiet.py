"""Warnings for a steward's screen, which a server must not write to its log: they have exact counts."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError, StewardWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = Lock()


@contextmanager
def hush_steward_warnings(patience: float = 600.0) -> Iterator[None]:
    """Keep warnings about rows out of the log while the block runs; one block runs at a time.

    Filters of warnings belong to the process and not to a thread, so two such blocks at a time would leave
    the wrong ones behind.
    """
    if not _LOCK.acquire(timeout=patience):
        raise PolicyError(
            "SF-W108", "Others are at this at the moment.", try_="the same again in a few seconds"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StewardWarning)
            yield
    finally:
        _LOCK.release()
