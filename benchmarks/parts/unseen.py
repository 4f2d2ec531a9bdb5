"""Pools of tables, kept apart: constants are chosen on some, results are reported of the others.

Every table comes with public bounds of its features, which are wider than what occurs in it, and is scaled by
them to [−1, 1].
"""

from __future__ import annotations

from functools import cache

from parts.unseen_development import DEVELOPED, KNOWN_BEFORE
from parts.unseen_fresh import FRESH
from parts.unseen_tables import DEVELOPMENT, KNOWN, REPORTED, Source, Table

__all__ = ["DEVELOPMENT", "KNOWN", "REPORTED", "SOURCES", "Source", "Table", "find_sources"]

SOURCES = (
    *(Source(name, DEVELOPMENT, cache(load)) for name, load in DEVELOPED.items()),
    *(Source(name, KNOWN, cache(load), file) for name, (load, file) in KNOWN_BEFORE.items()),
    *(Source(name, REPORTED, cache(load), file) for name, (load, file) in FRESH.items()),
)


def find_sources(pool: str, pattern: str = "") -> list[Source]:
    """Return the tables of a pool whose names hold a text; absent ones are named, loudly, and left out."""
    found = [each for each in SOURCES if each.pool == pool and pattern in each.name]
    for each in found:
        if each.missing:
            print(f"{each.name}: NOT MEASURED: there is no {each.file} under SFUMATO_DATA", flush=True)
    return [each for each in found if not each.missing]
