"""Who sends a request, and what they may do: bearer tokens for programs, cookies for pages.

Every route names its roles with `allow`. A wrong, an expired and a revoked token get the same answer.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from sfumato.curator.payer import no_quota_error
from sfumato.errors import PolicyError
from sfumato.lab.analysts import has_quota
from sfumato.server.context import ServerContext, get_context
from sfumato.server.people import Role
from sfumato.server.problems import SignInNeededError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sfumato.lab.lab import Lab
    from sfumato.lab.session import Session

__all__ = [
    "Role",
    "Visitor",
    "allow",
    "cookie_name",
    "make_csrf_token",
    "may_read_answers",
    "names_own_origin",
    "open_session",
    "open_session_if_any",
    "require_reader",
]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PUBLIC = "visitor"
_NO_QUOTA = "SF-B103"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request."""

    name: str
    role: Role
    csrf: str = ""
    """What forms of this visitor carry, so that no other site can send them; empty without a cookie."""

    @property
    def is_signed_in(self) -> bool:
        """Whether a valid token or cookie came with the request."""
        return self.role is not Role.PUBLIC

    @property
    def analyst(self) -> str | None:
        """The name whose quota questions are charged to; None for a steward."""
        return self.name if self.role is Role.ANALYST else None


def allow(*roles: Role) -> "Callable[..., Awaitable[Visitor]]":
    """Return a dependency that gives the visitor if they have one of these roles, and refuses all others.

    With Role.PUBLIC everyone is let through, signed in or not. Requests that change something and come with a
    cookie must also carry the visitor's CSRF token, in the field `csrf` or the header X-CSRF-Token.
    """
    allowed = frozenset(roles)

    async def admit(request: Request, context: ServerContext = Depends(get_context)) -> Visitor:  # noqa: B008
        visitor = await _find_visitor(request, context)
        request.state.visitor = visitor
        if Role.PUBLIC not in allowed and visitor.role not in allowed:
            if not visitor.is_signed_in:
                raise SignInNeededError
            raise PolicyError(
                "SF-W103",
                f"This is not open to the role {visitor.role}.",
                needed=" or ".join(sorted(allowed)),
            )
        if visitor.csrf and request.method not in _SAFE:
            await _require_own_page(request, visitor)
        return visitor

    admit.roles = allowed  # type: ignore[attr-defined]
    return admit


def open_session(context: ServerContext, visitor: Visitor) -> "Session":
    """Return the session of a visitor, which is always a hostile one."""
    if visitor.role not in (Role.STEWARD, Role.ANALYST):
        raise PolicyError("SF-W103", f"This is not open to the role {visitor.role}.", needed="analyst")
    return context.lab.session(visitor.analyst, hostile=True)


def open_session_if_any(context: ServerContext, visitor: Visitor) -> "Session | None":
    """Return the session of a visitor, or None if they have no quota."""
    try:
        return open_session(context, visitor)
    except PolicyError as problem:
        if problem.code != _NO_QUOTA:
            raise
        return None


def may_read_answers(lab: "Lab", analyst: str | None) -> bool:
    """Return whether an analyst still has a quota; a steward reads all.

    Whoever was revoked does not read what they once paid for: a revoked token and a revoked quota mean that
    the steward wants them to see no more.
    """
    return analyst is None or has_quota(lab, analyst)


def require_reader(lab: "Lab", analyst: str | None) -> None:
    """Refuse an analyst from whom every quota was taken away."""
    if not may_read_answers(lab, analyst):
        raise no_quota_error(analyst)


def cookie_name(context: ServerContext) -> str:
    """Return the name of the cookie of people who signed in; browsers bind __Host- to this very host."""
    return "__Host-sfumato" if context.settings.is_secure else "sfumato"


def make_csrf_token(cookie: str) -> str:
    """Return what forms carry, which nobody can make without the cookie."""
    return hmac.new(cookie.encode(), b"sfumato csrf", hashlib.sha256).hexdigest()


async def _find_visitor(request: Request, context: ServerContext) -> Visitor:
    address = request.client.host if request.client else ""
    sent = request.headers.get("authorization")
    cookie = request.cookies.get(cookie_name(context))
    if sent is None and cookie is None:
        context.rates.count_request(f"address {address}")
        return Visitor(_PUBLIC, Role.PUBLIC)
    context.rates.require_patience(address)
    if sent is not None:
        token = _read_token(sent)
        person = await run_in_threadpool(context.people.find_holder, token)
    else:
        person = await run_in_threadpool(context.people.find_holder, cookie or "", "page")
    if person is None:
        context.rates.count_wrong_token(address)
        if sent is not None:
            raise SignInNeededError
        return Visitor(_PUBLIC, Role.PUBLIC)  # a cookie that has expired is no reason to refuse a public page
    context.rates.count_request(f"person {person.name}")
    csrf = "" if sent is not None else make_csrf_token(cookie or "")
    return Visitor(person.name, person.role, csrf)


def _read_token(sent: str) -> str:
    """Return the token of an Authorization header, or an empty text."""
    kind, _, token = sent.partition(" ")
    return token if kind.lower() == "bearer" else ""


async def _require_own_page(request: Request, visitor: Visitor) -> None:
    """Refuse a change that another site made the visitor's browser send."""
    given = request.headers.get("x-csrf-token")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given is None and kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        field = (await request.form()).get("csrf")
        given = field if isinstance(field, str) else None
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = site in ("same-origin", "none") and names_own_origin(request)
    if not own or given is None or not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
        raise PolicyError(
            "SF-W109",
            "The form was not sent from a page of this server, or has grown old.",
            try_="load the page again, and send the form once more",
        )


def names_own_origin(request: Request) -> bool:
    """Return whether the browser says that one of our pages sent the request, or says nothing about it."""
    origin = request.headers.get("origin")
    if origin is None:
        return True
    context: ServerContext = request.app.state.context
    return origin in (context.settings.address, f"{request.url.scheme}://{request.headers.get('host', '')}")
