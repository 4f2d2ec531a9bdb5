"""Changes of the catalog, one at a time, and erasing the snapshots that they leave over."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_decimal
from sfumato.files.disk_errors import name_disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.curator.catalog.catalog import Catalog
    from sfumato.engines.router import EngineRouter

PATIENCE = 10.0
"""Seconds that questions have to finish, when the snapshot that they read was replaced."""
_ENDING = 60.0
"""Seconds within which a question that is ended stops."""
_UNREACHABLE = ("SF-C209", "SF-N113")
"""Codes of errors that say that a database or Spark, or its library, is not available now."""


@contextmanager
def change_alone(catalog: Catalog, engine: EngineRouter, patience: float) -> Iterator[None]:
    """Allow one change at a time, and erase snapshots of no use before it and after.

    Questions about a snapshot that went out of use may go on for so many seconds, and are then ended.
    """
    unread = partial(_erase_unread, catalog, engine)
    with name_disk_errors(), catalog.lock_for_change():
        _erase_leftovers(catalog, unread)
        try:
            yield
        except BaseException:
            _erase_leftovers(catalog, unread)
            raise
        _erase_leftovers(catalog, partial(_erase_read, catalog, engine, patience=patience))


def _erase_leftovers(catalog: Catalog, erase: Callable[[str], bool]) -> None:
    """Erase snapshots of no use; those in a place that cannot be reached now are left for later."""
    for snapshot in catalog.contents.leftovers:
        try:
            if erase(snapshot):
                catalog.forget_snapshot(snapshot)
        except UsageError as problem:
            if problem.code not in _UNREACHABLE:
                raise


def _erase_unread(catalog: Catalog, engine: EngineRouter, snapshot: str, patience: float = 0) -> bool:
    """Erase a snapshot, and return whether that was possible: nobody reads it within so many seconds."""
    with catalog.lock_for_erasing(snapshot, patience) as alone:
        if alone:
            engine.erase(snapshot)
    return alone


def _erase_read(catalog: Catalog, engine: EngineRouter, snapshot: str, patience: float) -> bool:
    """Erase a snapshot, and end what still reads it after so many seconds."""
    if _erase_unread(catalog, engine, snapshot, patience):
        return True
    with engine.end_runs(snapshot):
        if _erase_unread(catalog, engine, snapshot, _ENDING):
            return True
    raise PolicyError(
        "SF-L122",
        "The change is made, but a question still reads the rows that it replaced or dropped.",
        why=f"it could not be ended within {format_decimal(_ENDING, 0)} seconds",
        try_="end the process that asks; the next change erases these rows",
    )
