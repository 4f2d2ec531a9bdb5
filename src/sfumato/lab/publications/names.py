"""Names of publications and of their columns, such that every tool can use them unquoted."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_NAME = 60
"""Most characters of a name: PostgreSQL cuts names off after 63 bytes."""
_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_NAME - 1}}}", re.ASCII)


def require_publication_name(name: Any) -> str:
    """Return the name of a publication, or refuse one that is no plain word in URLs and in SQL."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise UsageError(
        "SF-C113",
        f"The name of a publication has at most {LONGEST_NAME} small letters, digits and _, a letter first.",
        try_="visits_by_ward",
    )


def simplify_name(text: str) -> str:
    """Return the name that is nearest to a text; long ones end with a part of their hash."""
    plain = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    named = plain if plain[:1].isalpha() else f"t_{plain}"
    if len(named) <= LONGEST_NAME:
        return named
    return f"{named[: LONGEST_NAME - 9]}_{sha256(text.encode()).hexdigest()[:8]}"


def make_unique(names: Iterable[str]) -> list[str]:
    """Return names with numbers behind those that would be taken for an earlier one in small letters."""
    taken: set[str] = set()
    found = []
    for name in names:
        numbered, at = name, 2
        while numbered.casefold() in taken:
            numbered, at = f"{name}_{at}", at + 1
        taken.add(numbered.casefold())
        found.append(numbered)
    return found
