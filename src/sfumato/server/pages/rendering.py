"""Pages out of templates: the frame with its navigation, static files, and how numbers are written.

Templates escape every text. They hold no inline script and no inline style, so the strict policy of the
server has no exception.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sfumato.errors.numbers import format_bound, format_number, format_share
from sfumato.server.access import Role, Visitor
from sfumato.server.problems import find_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastapi import Request

    from sfumato.errors import SfumatoError

ROOM: Final = Path(__file__).parents[1]
STATIC: Final = ROOM / "static"
TEMPLATES: Final = ROOM / "templates"

_ASKING: Final = frozenset({"steward", "analyst"})
_EVERYONE: Final = frozenset({*_ASKING, "auditor", "public"})

NAVIGATION: Final[tuple[tuple[str, str, frozenset[str]], ...]] = (
    ("/", "Overview", _ASKING),
    ("/register", "Register", frozenset({"steward"})),
    ("/ask", "Ask", _ASKING),
    ("/models", "Models", _ASKING),
    ("/synthetic", "Synthetic", _EVERYONE),
    ("/streams", "Streams", _ASKING),
    ("/surveys", "Surveys", _EVERYONE),
    ("/requests", "Requests", _ASKING),
    ("/quotas", "Quotas", frozenset({"steward"})),
    ("/ledger", "Ledger", frozenset({"steward", "auditor"})),
    ("/learn", "Learn", _EVERYONE),
    ("/promise", "Promise", _EVERYONE),
)
"""Every page of the navigation: its address, its name, and the roles that may open it."""

_NOBODY: Final = Visitor("", Role.PUBLIC)
_HEADINGS: Final = {
    401: "Please sign in",
    403: "This is not possible",
    404: "There is nothing here",
    409: "This was sent before",
    413: "This is too large",
    422: "Charged, and not answered",
    429: "One moment, please",
    500: "Something failed",
    503: "Not now",
}


@dataclass(frozen=True, slots=True)
class PageLink:
    """One entry of the navigation."""

    path: str
    label: str
    current: bool


def render(
    request: Request,
    visitor: Visitor,
    template: str,
    *,
    status: int | None = None,
    problem: SfumatoError | None = None,
    **facts: Any,
) -> HTMLResponse:
    """Return a page. Templates see the facts, the problem, the visitor, and what the frame needs.

    A page with a problem has the status of the problem, unless another one is given.
    """
    path = request.url.path
    page = make_environment().get_template(template)
    framed = {
        "visitor": visitor,
        "csrf": visitor.csrf,
        "path": path,
        "navigation": list_links(request, visitor),
        "notice": "",
        "problem": problem,
    }
    known = 200 if problem is None else find_status(problem)
    return HTMLResponse(page.render({**framed, **facts}), status_code=status or known)


def write_problem_page(request: Request, problem: SfumatoError, status: int) -> str:
    """Return the page of an error, in the frame of the visitor where that is known."""
    visitor = getattr(request.state, "visitor", None) or _NOBODY
    heading = _HEADINGS.get(status, "This did not work")
    page = render(request, visitor, "error.html", status=status, heading=heading, error=problem)
    return bytes(page.body).decode()


def is_partial(request: Request) -> bool:
    """Return whether htmx sent the request, so that a part of a page is enough for an answer."""
    return request.headers.get("hx-request") == "true"


def list_links(request: Request, visitor: Visitor) -> list[PageLink]:
    """Return the navigation: pages that this application has and the visitor's role may open."""
    served, path, role = _list_paths(request), request.url.path, str(visitor.role)
    return [
        PageLink(address, label, path == address or (address != "/" and path.startswith(f"{address}/")))
        for address, label, roles in NAVIGATION
        if role in roles and address in served
    ]


@cache
def address_static(name: str) -> str:
    """Return the address of a static file. It changes with the file, so browsers may keep it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@cache
def make_environment() -> Environment:
    """Return the templates with the filters that pages use."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = address_static
    environment.filters |= {"number": show_number, "left": show_left, "percent": show_share}
    environment.filters["slug"] = make_slug
    return environment


def show_left(value: float) -> str:
    """Return what is left of a budget, rounded down: a question of this price is not refused for rounding."""
    return format_bound(value, up=False)


def show_number(value: float | None) -> str:
    """Return a number of a page; a dash if there is none."""
    return "–" if value is None else format_number(value)


def show_share(share: float) -> str:
    """Return a share in whole per cent; what is above nothing is never shown as nothing."""
    return "under 1 %" if 0 < share < 0.005 else format_share(share, 0)


def make_slug(text: str) -> str:
    """Return a text that can be the id of an element."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-") or "item"


def _list_paths(request: Request) -> frozenset[str]:
    """Return the addresses that the application has; they are looked up once for each application."""
    state = request.app.state
    if not hasattr(state, "page_paths"):
        state.page_paths = frozenset(_walk_paths(request.app.routes))
    found: frozenset[str] = state.page_paths
    return found


def _walk_paths(routes: Iterable[Any]) -> Iterator[str]:
    for route in routes:
        # FastAPI keeps the routes of a router that was included with that router.
        inner = getattr(route, "original_router", None)
        yield from (str(getattr(route, "path", "")),) if inner is None else _walk_paths(inner.routes)
