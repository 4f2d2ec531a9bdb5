"""Equal questions of one person at the same moment: one is asked, and the others find its answer."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.files.disk_errors import name_disk_errors
from sfumato.files.durable import create_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def ask_alone(folder: Path, analyst: str | None, *asked: str) -> Iterator[None]:
    """Let one person send one question at a time, over all server processes of this machine.

    Of two equal requests at once the second waits, and finds the answer of the first: it costs nothing.
    """
    text = json.dumps([analyst, *asked])
    place = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:3]
    with name_disk_errors():
        create_private_folder(folder / "asking")
        descriptor = os.open(folder / "asking" / place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
