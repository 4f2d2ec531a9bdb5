"""Who may use the server: people, their roles, and their tokens and passwords.

Tokens are 256 random bits; only their SHA-256 is kept, so whoever reads the file can use none of them.
Nothing here can create budget: budgets and quotas are the ledger's alone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.server.stores import PrivateStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN_PREFIX = "sfu_"  # noqa: S105  lets programs that look for leaked secrets find ours
DAY = 86_400
LONGEST_PASSWORD = 1024
SHORTEST_PASSWORD = 12
_NAME = re.compile(r"[^\s:/\\\x00-\x1f\x7f]{1,100}\Z")
_TOKEN = re.compile(r"sfu_[A-Za-z0-9_-]{43}\Z")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT, since REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS tokens (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, name TEXT NOT NULL REFERENCES people (name),
    purpose TEXT NOT NULL, made REAL NOT NULL, expires REAL NOT NULL, revoked INTEGER NOT NULL) STRICT;
"""


class Role(StrEnum):
    """What a person may do. Without a token everyone is PUBLIC."""

    STEWARD = "steward"
    ANALYST = "analyst"
    AUDITOR = "auditor"
    PUBLIC = "public"


GIVEN_ROLES = (Role.STEWARD, Role.ANALYST, Role.AUDITOR)
"""Roles that a person can be given."""


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who may use the server."""

    name: str
    role: Role
    has_password: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {"name": self.name, "role": self.role.value, "has_password": self.has_password}


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What is known about a token that was given out; the token itself is kept nowhere."""

    id: int
    name: str
    purpose: str
    made: datetime
    expires: datetime
    revoked: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "purpose": self.purpose,
            "made": self.made.isoformat(timespec="seconds"),
            "expires": self.expires.isoformat(timespec="seconds"),
            "revoked": self.revoked,
        }


class PeopleStore:
    """People, their roles, tokens and passwords, in a private file of the lab's folder."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._store = PrivateStore(path, _SCHEMA)
        # Hashing takes 64 MiB each, by design: a few at a time, so that a flood of guesses fills no memory.
        self._hashing = threading.BoundedSemaphore(2)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    # ---- people ----

    def add_person(self, name: str, role: Role | str) -> Person:
        """Add a person, or give one another role, and return them. Their tokens then carry the new role."""
        if not isinstance(name, str) or not _NAME.match(name):
            raise UsageError(
                "SF-C113",
                "A person's name has 1 to 100 characters, without spaces, colons or slashes.",
                try_="ada",
            )
        if role not in GIVEN_ROLES:
            raise UsageError("SF-E187", "A person is a steward, an analyst or an auditor.", got=str(role))
        with self._store.change() as store:
            store.execute(
                "INSERT INTO people VALUES (?, ?, NULL, ?)"
                " ON CONFLICT (name) DO UPDATE SET role = excluded.role",
                (name, str(role), self._clock()),
            )
        return self.find_person(name)

    def find_person(self, name: str) -> Person:
        """Return a person by name."""
        found = [each for each in self.list_people() if each.name == name]
        if not found:
            raise UsageError("SF-U101", "There is no person of this name.", try_="GET /api/people")
        return found[0]

    def list_people(self) -> tuple[Person, ...]:
        """Return every person, by name."""
        rows = self._store.read_rows("SELECT name, role, password IS NOT NULL FROM people ORDER BY name")
        return tuple(Person(name, Role(role), bool(known)) for name, role, known in rows)

    def remove_person(self, name: str) -> None:
        """Remove a person with their tokens. A quota of theirs stays in the ledger until it is revoked."""
        self.find_person(name)
        with self._store.change() as store:
            store.execute("DELETE FROM tokens WHERE name = ?", (name,))
            store.execute("DELETE FROM people WHERE name = ?", (name,))

    # ---- tokens ----

    def make_token(self, name: str, *, seconds: float = 90 * DAY, purpose: str = "api") -> str:
        """Return a new token for a person. It is shown once: only its SHA-256 is kept."""
        self.find_person(name)
        if not 0 < seconds <= 3660 * DAY:
            raise UsageError("SF-N101", "A token lasts between a moment and ten years.", try_="90 days")
        token, now = TOKEN_PREFIX + secrets.token_urlsafe(32), self._clock()
        with self._store.change() as store:
            store.execute(
                "INSERT INTO tokens (digest, name, purpose, made, expires, revoked)"
                " VALUES (?, ?, ?, ?, ?, 0)",
                (_digest(token), name, purpose, now, now + seconds),
            )
        return token

    def find_holder(self, token: str, purpose: str = "api") -> Person | None:
        """Return who holds a token, or None if it is wrong, expired, revoked or for another purpose.

        It is looked up by its SHA-256: how long that takes tells nothing about tokens that are valid.
        """
        if not _TOKEN.match(token):
            token = ""
        rows = self._store.read_rows(
            "SELECT people.name, role, password IS NOT NULL FROM tokens JOIN people USING (name)"
            " WHERE digest = ? AND purpose = ? AND expires > ? AND NOT revoked",
            (_digest(token), purpose, self._clock()),
        )
        return next((Person(name, Role(role), bool(known)) for name, role, known in rows), None)

    def use_up_token(self, token: str, purpose: str) -> Person | None:
        """Return who holds a token and end it, in one step: of two who use it at once, one gets None."""
        person = self.find_holder(token, purpose)
        with self._store.change() as store:
            used = store.execute(
                "UPDATE tokens SET revoked = 1 WHERE digest = ? AND purpose = ? AND NOT revoked",
                (_digest(token), purpose),
            ).rowcount
        return person if used else None

    def list_tokens(self, name: str | None = None) -> tuple[TokenFacts, ...]:
        """Return what is known about the tokens of a person, or of everyone, newest first."""
        rows = self._store.read_rows(
            "SELECT id, name, purpose, made, expires, revoked FROM tokens"
            " WHERE ? IS NULL OR name = ? ORDER BY id DESC",
            (name, name),
        )
        return tuple(
            TokenFacts(number, who, purpose, _moment(made), _moment(expires), bool(revoked))
            for number, who, purpose, made, expires, revoked in rows
        )

    def revoke_token(self, id_: int) -> None:
        """End a token at once, for all server processes."""
        with self._store.change() as store:
            changed = store.execute("UPDATE tokens SET revoked = 1 WHERE id = ?", (id_,)).rowcount
        if not changed:
            raise UsageError("SF-U101", "There is no token of this number.", try_="GET /api/tokens")

    def end_token(self, token: str) -> None:
        """End the token that its holder sends, such as at signing out."""
        with self._store.change() as store:
            store.execute("UPDATE tokens SET revoked = 1 WHERE digest = ?", (_digest(token),))

    def remove_expired_tokens(self) -> None:
        """Forget tokens that expired more than a month ago."""
        with self._store.change() as store:
            store.execute("DELETE FROM tokens WHERE expires < ?", (self._clock() - 30 * DAY,))

    # ---- passwords ----

    def set_password(self, name: str, password: str) -> None:
        """Give a person a password for the pages. It is kept as an argon2 hash."""
        self.find_person(name)
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise UsageError(
                "SF-P113", f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters."
            )
        with self._hashing:
            hashed = _hasher().hash(password)
        with self._store.change() as store:
            store.execute("UPDATE people SET password = ? WHERE name = ?", (hashed, name))
            # Whoever signed in with the old one has to sign in again.
            store.execute("UPDATE tokens SET revoked = 1 WHERE name = ? AND purpose = 'page'", (name,))

    def check_password(self, name: str, password: str) -> Person | None:
        """Return the person of this name and password, or None; a wrong name takes as long to refuse."""
        from argon2.exceptions import Argon2Error, InvalidHashError

        rows = self._store.read_rows(
            "SELECT password FROM people WHERE name = ? AND password IS NOT NULL", (name,)
        )
        hashed = rows[0][0] if rows else _unknown_hash()
        try:
            with self._hashing:
                _hasher().verify(hashed, password[:LONGEST_PASSWORD])
        except (Argon2Error, InvalidHashError):
            return None
        return self.find_person(name) if rows else None


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher()


_UNKNOWN: list[str] = []


def _unknown_hash() -> str:
    """Return the hash of a password that nobody has, made once."""
    if not _UNKNOWN:
        _UNKNOWN.append(_hasher().hash(secrets.token_urlsafe(32)))
    return _UNKNOWN[0]
