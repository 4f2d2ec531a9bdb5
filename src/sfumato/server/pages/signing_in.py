"""Signing in by password or token, and signing out."""

import re
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato.errors import PolicyError
from sfumato.server.access import Role, Visitor, allow, cookie_name, names_own_origin
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render
from sfumato.server.people import Person

router = APIRouter()

Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]
Typed = Annotated[str, Form(max_length=2000)]

_OWN_PATH = re.compile(r"/[A-Za-z0-9_~.\-/%?=&+]*\Z")


@router.get("/login")
def show_sign_in(request: Request, visitor: Everyone, next: str = "/") -> HTMLResponse:  # noqa: A002  in addresses
    """Return the form to sign in with."""
    return render(request, visitor, "login.html", next=keep_own_path(next), error=None, name="")


@router.post("/login", response_model=None)
def sign_in(
    request: Request,
    visitor: Everyone,
    context: Context,
    name: Typed = "",
    password: Typed = "",
    token: Typed = "",
    next: Typed = "/",  # noqa: A002  in addresses
) -> HTMLResponse | RedirectResponse:
    """Give a browser the cookie of a person, or say that it was not right, in one way whatever was wrong."""
    _require_own_form(request)
    address = request.client.host if request.client else ""
    context.rates.require_patience(address)
    person = _find_person(context, name.strip(), password, token.strip())
    if person is None:
        context.rates.count_wrong_token(address)
        wrong = PolicyError(
            "SF-W180",
            "This name and password, or this token, is not right.",
            why="it is wrong, has expired or was revoked",
            try_="type it again, or ask the steward for a new one",
        )
        facts: dict[str, Any] = {"next": keep_own_path(next), "error": wrong, "name": name}
        return render(request, visitor, "login.html", status=403, **facts)
    return give_cookie(context, person, keep_own_path(next))


def give_cookie(context: ServerContext, person: Person, path: str) -> RedirectResponse:
    """Return the way to a page, with the cookie that keeps a person signed in."""
    answer = RedirectResponse(path, 303, {"Cache-Control": "no-store"})
    seconds = context.settings.cookie_seconds
    cookie = context.people.make_token(person.name, seconds=seconds, purpose="page")
    answer.set_cookie(
        cookie_name(context),
        cookie,
        max_age=seconds,
        path="/",
        secure=context.settings.is_secure,
        httponly=True,
        samesite="lax",
    )
    return answer


@router.post("/logout")
def sign_out(request: Request, visitor: Everyone, context: Context) -> RedirectResponse:
    """End the sign-in of this browser: what its cookie holds is of no use afterwards."""
    name = cookie_name(context)
    cookie = request.cookies.get(name)
    if cookie is not None:
        context.people.end_token(cookie)
    answer = RedirectResponse("/login", 303)
    secure = context.settings.is_secure
    answer.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")
    return answer


def keep_own_path(path: str) -> str:
    """Return a path of this server as it is, and the overview in place of anything else."""
    parts = urlsplit(path)
    own = not parts.scheme and not parts.netloc and not path.startswith("//") and _OWN_PATH.match(path)
    return quote(path, safe="/%?=&+~") if own else "/"


def _find_person(context: ServerContext, name: str, password: str, token: str) -> Person | None:
    if token:
        return context.people.find_holder(token)
    return context.people.check_password(name, password) if name and password else None


def _require_own_form(request: Request) -> None:
    """Refuse a sign-in that another site sends: it would put its own person into this browser."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    # Older browsers say the origin alone.
    if site not in ("same-origin", "none") or not names_own_origin(request):
        raise PolicyError(
            "SF-W109",
            "The form was not sent from a page of this server, or has grown old.",
            try_="load the page again, and send the form once more",
        )
