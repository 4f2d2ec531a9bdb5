"""Questions about the catalog, which is public: SHOW TABLES, and DESCRIBE of a table."""

from __future__ import annotations

import re

_NAME = r"(?P<quote>\"?)(?P<name>[A-Za-z_]\w{0,62})(?P=quote)"
_LISTING = re.compile(r"\s*SHOW\s+(ALL\s+)?TABLES\s*;?\s*", re.ASCII | re.IGNORECASE)
_DESCRIPTION = re.compile(
    rf"\s*(?:DESC|DESCRIBE|SHOW\s+COLUMNS\s+(?:FROM|IN)|SHOW)\s+(?:TABLE\s+)?{_NAME}\s*;?\s*",
    re.ASCII | re.IGNORECASE,
)


def lists_tables(text: object) -> bool:
    """Return whether a text asks which tables there are."""
    return isinstance(text, str) and _LISTING.fullmatch(text) is not None


def find_described_table(text: object) -> str | None:
    """Return the table that a text asks to describe, or None if it asks something else."""
    found = _DESCRIPTION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else found["name"]
