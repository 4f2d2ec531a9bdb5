"""Where failures after a charge are written down: a file of the steward's, never the analyst's screen."""

from __future__ import annotations

import os
import secrets
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Incidents:
    """A log that only the lab's owner may read. It may name data, so nothing of it is shown to who asked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self) -> str:
        """Write down the error being handled and give its number; the number says nothing about it."""
        incident = secrets.token_hex(8)
        # Whatever fails here must not turn the one sentence into another: a full disk, or an odd character.
        with suppress(Exception):
            text = f"{datetime.now(UTC).isoformat()} incident {incident}\n{traceback.format_exc()}\n"
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(file, "a", encoding="utf-8", errors="backslashreplace") as log:
                log.write(text)
        return incident


def find_interrupt(error: BaseException) -> BaseException | None:
    """Return the interrupt that led to an error, without its frames, which may hold exact numbers.

    An interrupt is Ctrl-C or the end of the process. Libraries that clean up after one may fail in doing so,
    and their error takes its place, so it is looked for among the causes too.
    """
    following: list[BaseException | None] = [error]
    seen: set[int] = set()
    while following:
        each = following.pop()
        if each is None or id(each) in seen:
            continue
        if not isinstance(each, Exception):
            each.__cause__ = each.__context__ = None
            return each.with_traceback(None)
        seen.add(id(each))
        following += [each.__context__, each.__cause__]
    return None
