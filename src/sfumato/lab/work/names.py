"""Names and days that people type: analysts, projects, and when something ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.ledger.api import PROJECT
from sfumato.ledger.chain import require_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PROJECT_NAME = 80
MAX_TEXT = 2000
"""Most characters of a purpose, a reason or a note."""
_PROJECT_NAME = re.compile(r"[^\W_][\w .()+-]{0,79}")


def read_today() -> date:
    """Return the day, in UTC, by which projects end and requests are dated."""
    return datetime.now(UTC).date()


def is_project_name(name: Any) -> bool:
    """Return whether a project could have this name."""
    return isinstance(name, str) and _PROJECT_NAME.fullmatch(name) is not None and name == name.strip()


def show_name(name: Any) -> str:
    """Return what was given as a name, as an error can show it."""
    return str(name)[:80].encode("utf-8", "replace").decode()


def require_project_name(name: Any) -> str:
    """Return the name of a project: letters, digits, and a few signs that no account name gives a meaning."""
    if is_project_name(name):
        return str(name)
    raise UsageError(
        "SF-P110",
        f"A project has a name of 1 to {MAX_PROJECT_NAME} letters, digits, spaces and . _ - + ( ).",
        try_='lab.create_project("readmissions", purpose="…", epsilon=1, members=["ada"])',
    )


def require_member(name: Any) -> str:
    """Return the name of an analyst."""
    if isinstance(name, str) and name.strip() and ":" not in name and not name.startswith(PROJECT):
        require_utf8(name)
        return name
    raise UsageError(
        "SF-P111",
        f"A member is the name of an analyst, without a colon, that does not begin with '{PROJECT}'.",
        try_='members=["ada", "ben"]',
    )


def parse_members(members: Iterable[str]) -> list[str]:
    """Return the members of a project, each once, sorted."""
    if isinstance(members, str):
        raise UsageError("SF-P111", "members= takes a list of names.", try_=f'members=["{members[:40]}"]')
    return sorted({require_member(each) for each in members})


def parse_last_day(until: Any) -> str | None:
    """Return the last day of a project as a text, or None if it has none."""
    try:
        day = date.fromisoformat(until) if isinstance(until, str) else until
    except ValueError:
        day = object()
    if day is None:
        return None
    # A moment would have to say in which time zone it is; days are those of UTC.
    if isinstance(day, date) and not isinstance(day, datetime):
        return day.isoformat()
    raise UsageError("SF-P112", "until= is the last day of a project, in UTC.", try_='until="2027-06-30"')


def require_text(text: Any, what: str) -> str:
    """Return a text that people will read, without spaces around it."""
    if isinstance(text, str) and text.strip() and len(text) <= MAX_TEXT:
        require_utf8(text)
        return text.strip()
    raise UsageError(
        "SF-P113",
        f"{what} is needed, in words, of at most {MAX_TEXT:,} characters.",
        try_="a sentence or two",
    )
