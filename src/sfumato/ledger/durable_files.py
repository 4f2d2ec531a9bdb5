"""Small JSON files of a lab, each replaced whole and durably."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Once this returns, the file holds the body, even if the machine stops; until then, what it held."""
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(body, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
