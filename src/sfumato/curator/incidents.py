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
