"""Labs that the catalogue asks, in folders that are removed when the process ends."""

from __future__ import annotations

from atexit import register
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.lab.lab import Lab


def create_scratch_lab() -> Lab:
    """Return a new lab in a folder of its own, which lasts as long as the process."""
    from sfumato.lab.lab import create

    folder = TemporaryDirectory(prefix="sfumato-audit-")
    lab = create(f"{folder.name}/lab")
    register(_remove, lab, folder)
    return lab


def _remove(lab: Lab, folder: TemporaryDirectory[str]) -> None:
    lab.ledger.close()
    folder.cleanup()
