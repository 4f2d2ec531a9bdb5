"""The Requests page: an analyst asks for more budget with a reason, and the steward answers once."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato.errors import SfumatoError
from sfumato.lab.work.requests import BudgetRequest
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.typed import read_optional_number, read_typed_number
from sfumato.server.pages.rendering import render
from sfumato.server.problems import find_status

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Analyst = Annotated[Visitor, Depends(allow(Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]
Typed = Annotated[str, Form(max_length=60)]
Text = Annotated[str, Form(max_length=4000)]
Number = Annotated[int, Path(ge=1, le=10**9)]


@router.get("/requests")
def show_requests(
    request: Request, visitor: Asker, context: Context, epsilon: str = "", done: str = ""
) -> HTMLResponse:
    """Return the requests: an analyst's own, or for a steward everyone's."""
    return show_page(request, visitor, context, typed={"epsilon": epsilon[:40]}, notice=_say_done(done))


@router.post("/requests", response_model=None)
def send_request(
    request: Request,
    visitor: Analyst,
    context: Context,
    epsilon: Typed = "",
    delta: Typed = "",
    reason: Text = "",
    project: Typed = "",
) -> HTMLResponse | RedirectResponse:
    """Write down that an analyst asks for more budget."""
    typed = {"epsilon": epsilon, "delta": delta, "reason": reason, "project": project}
    try:
        amounts = read_typed_number(epsilon, "ε"), read_optional_number(delta, "δ") or 0
        context.lab.request(
            visitor.name, epsilon=amounts[0], delta=amounts[1], reason=reason, project=project or None
        )
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem, typed=typed)
    return RedirectResponse("/requests?done=sent", 303)


@router.post("/requests/{number}/withdraw", response_model=None)
def withdraw_request(
    request: Request, visitor: Analyst, context: Context, number: Number
) -> HTMLResponse | RedirectResponse:
    """Take back a request of one's own that was not answered."""
    sent = [each for each in context.lab.request_desk.list_sent(visitor.name) if each.number == number]
    try:
        for each in sent:
            each.withdraw()
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/requests?done=withdrawn" if sent else "/requests", 303)


@router.post("/requests/{number}/grant", response_model=None)
def grant_request(
    request: Request,
    visitor: Steward,
    context: Context,
    number: Number,
    epsilon: Typed = "",
    delta: Typed = "",
    note: Text = "",
) -> HTMLResponse | RedirectResponse:
    """Raise the quotas that a request is about, by what was asked for or by what the steward typed."""
    try:
        context.lab.request_desk.grant(
            number, read_optional_number(epsilon, "ε"), read_optional_number(delta, "δ"), note.strip()
        )
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/requests?done=granted", 303)


@router.post("/requests/{number}/decline", response_model=None)
def decline_request(
    request: Request, visitor: Steward, context: Context, number: Number, note: Text = ""
) -> HTMLResponse | RedirectResponse:
    """Say no to a request, and why."""
    try:
        context.lab.request_desk.decline(number, note)
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/requests?done=declined", 303)


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    *,
    problem: SfumatoError | None = None,
    typed: dict[str, str] | None = None,
    notice: str = "",
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    found = list_visible(context, visitor)
    projects = context.lab.projects(visitor.name) if visitor.role is Role.ANALYST else ()
    facts = {
        "waiting": [each for each in found if each.state in ("open", "granting")],
        "answered": [each for each in reversed(found) if each.state not in ("open", "granting")],
        "projects": [each.name for each in projects if each.is_open],
        "typed": {"epsilon": "", "delta": "", "reason": "", "project": "", **(typed or {})},
        "problem": problem,
        "notice": notice,
        "is_steward": visitor.role is Role.STEWARD,
    }
    return render(
        request, visitor, "requests.html", status=200 if problem is None else find_status(problem), **facts
    )


def list_visible(context: ServerContext, visitor: Visitor) -> tuple[BudgetRequest, ...]:
    """Return the requests that a visitor may see: a steward everyone's, an analyst their own."""
    if visitor.role is Role.STEWARD:
        return context.lab.requests()
    return context.lab.request_desk.list_sent(visitor.name)


def _say_done(done: str) -> str:
    return {
        "sent": "Your request was sent. The steward sees it on this page.",
        "withdrawn": "Your request was withdrawn.",
        "granted": "The request was granted, and the quota raised.",
        "declined": "The request was declined.",
    }.get(done, "")
