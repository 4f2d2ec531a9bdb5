"""Errors as HTTP answers: application/problem+json for programs, a page for people; never a trace.

A question that was charged and not answered is 422 and no 5xx: programs and proxies repeat what failed with
a 5xx by themselves, and without a key the repetition would be charged again.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sfumato.errors import (
    BudgetError,
    DiskError,
    EngineError,
    LedgerError,
    PolicyError,
    SealedError,
    SfumatoError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from starlette.requests import Request

PROBLEM_TYPE = "application/problem+json"
_STATUS: tuple[tuple[type[SfumatoError], int], ...] = (
    (UsageError, 400),
    (BudgetError, 403),
    (PolicyError, 403),
    (SealedError, 422),
    (LedgerError, 503),
    (DiskError, 503),
    (EngineError, 503),
)
_STATUS_OF_CODES = {
    "SF-W101": 401,
    "SF-Q106": 404,
    "SF-U101": 404,
    "SF-W124": 404,
    "SF-W107": 405,
    "SF-C110": 409,
    "SF-L107": 409,
    "SF-L204": 409,
    "SF-P124": 409,
    "SF-W105": 413,
    "SF-W108": 429,
    "SF-W166": 429,
}
_KINDS = {
    "UsageError",
    "BudgetError",
    "PolicyError",
    "SealedError",
    "LedgerError",
    "DiskError",
    "EngineError",
}
_MOST_FIELDS = 20
"""Wrong fields of a request that are named."""


class ProblemBody(BaseModel):
    """An error, as RFC 9457 has it. Facts such as `asked`, `why` and `try` stand beside these fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    kind: str


class SignInNeededError(PolicyError):
    """A request without a token, or with one that is wrong, expired or revoked."""

    def __init__(self) -> None:
        super().__init__(
            "SF-W101",
            "A valid token is needed here.",
            why="there is none, or it is wrong, has expired or was revoked",
            try_="Authorization: Bearer sfu_…, with a token of the steward's",
        )


def find_status(problem: SfumatoError) -> int:
    """Return the HTTP status of an error."""
    known = _STATUS_OF_CODES.get(problem.code)
    return known or next((status for kind, status in _STATUS if isinstance(problem, kind)), 500)


def write_problem(problem: SfumatoError, status: int | None = None) -> dict[str, Any]:
    """Return an error as the members of a problem+json document."""
    kind = next((each.__name__ for each in type(problem).__mro__ if each.__name__ in _KINDS), "SfumatoError")
    return problem.to_dict() | {"status": status or find_status(problem), "kind": kind}


def answer_problem(request: Request, problem: SfumatoError, status: int | None = None) -> Response:
    """Return the answer for an error: JSON below /api, a page or the way to sign in elsewhere."""
    code = status or find_status(problem)
    headers = {"Cache-Control": "no-store"}
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if code in (429, 503):
        headers["Retry-After"] = "1"
    if not wants_page(request):
        body = json.dumps(write_problem(problem, code), ensure_ascii=False)
        return Response(body, code, headers, PROBLEM_TYPE)
    if code == 401 and request.method in ("GET", "HEAD"):
        return RedirectResponse(f"/login?next={quote(request.url.path)}", 303, headers)
    render: Callable[[Request, SfumatoError, int], str] = getattr(
        request.app.state, "render_problem", write_problem_page
    )
    return HTMLResponse(render(request, problem, code), code, headers)


def write_problem_page(request: Request, problem: SfumatoError, status: int) -> str:
    """Return a plain page for an error. The pages set `app.state.render_problem` to a better one."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{escape(problem.code)}</title><h1>{status}</h1>{problem._repr_html_()}"
    )


def wants_page(request: Request) -> bool:
    """Return whether a person looks at the answer: everything outside of /api, asked for as HTML."""
    path = request.url.path
    if path.startswith("/api/") or path == "/api":
        return False
    return "text/html" in request.headers.get("accept", "")


def add_problem_handlers(app: FastAPI) -> None:
    """Let the application answer every error as a problem."""
    app.add_exception_handler(SfumatoError, _answer_coded)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)


def too_large_error(most: int) -> UsageError:
    """Return the refusal of a body that is too long."""
    return UsageError("SF-W105", "The request is too large.", most=f"{most:,} bytes")


def failure_error(incident: str) -> SfumatoError:
    """Return what is said of a failure of ours that no input explains: one sentence, whatever it was."""
    return SfumatoError(
        "SF-W100",
        "Something failed on the server. The steward can look it up.",
        incident=incident,
        charged="if the request was a question it may be charged; with the same key it is charged once",
    )


# Handlers are coroutines: Starlette would run functions in a thread, and these wait for nothing.


async def _answer_coded(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, SfumatoError)  # noqa: S101  as registered
    return answer_problem(request, problem)


async def _answer_invalid(request: Request, problem: Exception) -> Response:
    """Name the fields that are wrong, and never repeat what was in them."""
    assert isinstance(problem, RequestValidationError)  # noqa: S101  as registered
    found = problem.errors()[:_MOST_FIELDS]
    fields = {".".join(map(str, each["loc"])): str(each["type"]).replace("_", " ") for each in found}
    said = "; ".join(f"{name[:80]}: {what}" for name, what in fields.items())
    return answer_problem(
        request, UsageError("SF-W104", "The request does not have the form that it must have.", fields=said)
    )


async def _answer_http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101  as registered
    status = problem.status_code
    if status == 404:
        known: SfumatoError = PolicyError("SF-U101", "There is nothing at this address.", try_="/api/docs")
    elif status == 405:
        known = UsageError("SF-W107", "This address does not take this method.", got=request.method[:20])
    elif status == 413:
        known = UsageError("SF-W105", "The request is too large.")
    else:
        known, status = UsageError("SF-W104", "The request does not have the form that it must have."), 400
    answer = answer_problem(request, known, status)
    for name, value in (problem.headers or {}).items():
        answer.headers[name] = value
    return answer
