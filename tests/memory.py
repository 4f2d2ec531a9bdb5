"""Where folders and servers of tests lie in memory: they sync as always, and syncing costs nothing there."""

from __future__ import annotations

import shutil
from pathlib import Path

_ROOM = 4 << 30
"""Bytes that have to be free; containers often have next to none."""
_PLACE = Path("/dev/shm")

MEMORY = _PLACE if _PLACE.is_dir() and shutil.disk_usage(_PLACE).free > _ROOM else None
"""The folder, or None where there is none or little room."""
