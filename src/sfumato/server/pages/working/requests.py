"""The Requests page: an analyst asks for more budget with a reason, and the steward answers once."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from sfumato.errors import SfumatoError
from sfumato.lab.work.requests import BudgetRequest
from sfumato.server.access import Role, Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.typed import read_optional_number, read_typed_number
from sfumato.server.pages.forms import (
    Analyst,
    Answered,
    Asker,
    Context,
    Fields,
    Steward,
    StewardFields,
    answer_form,
)
from sfumato.server.pages.rendering import render

router = APIRouter()

Number = Annotated[int, Path(ge=1, le=10**9)]
_EMPTY = dict.fromkeys(("epsilon", "delta", "reason"), "")


@router.get("/requests")
def show_requests(
    request: Request, visitor: Asker, context: Context, epsilon: str = "", done: str = ""
) -> HTMLResponse:
    """Return the requests: an analyst's own, or for a steward everyone's."""
    typed = {"epsilon": epsilon[:40]}
    return show_page(request, visitor, context, typed=typed, notice=_say_done(done))


@router.post("/requests", response_model=None)
def send_request(request: Request, visitor: Analyst, context: Context, fields: Fields) -> Answered:
    """Write down that an analyst asks for more budget."""
    typed = _EMPTY | fields

    def send() -> str:
        context.lab.request(
            visitor.name,
            epsilon=read_typed_number(typed["epsilon"], "ε"),
            delta=read_optional_number(typed["delta"], "δ") or 0,
            reason=typed["reason"],
        )
        return "/requests?done=sent"

    return answer_form(
        send, lambda problem: show_page(request, visitor, context, problem=problem, typed=typed)
    )


@router.post("/requests/{number}/withdraw", response_model=None)
def withdraw_request(request: Request, visitor: Analyst, context: Context, number: Number) -> Answered:
    """Take back a request of one's own that was not answered."""

    def withdraw() -> str:
        sent = [each for each in context.lab.request_desk.list_sent(visitor.name) if each.number == number]
        for each in sent:
            each.withdraw()
        return "/requests?done=withdrawn" if sent else "/requests"

    return answer_form(withdraw, lambda problem: show_page(request, visitor, context, problem=problem))


@router.post("/requests/{number}/grant", response_model=None)
def grant_request(
    request: Request, visitor: Steward, context: Context, number: Number, fields: StewardFields
) -> Answered:
    """Raise the quotas that a request is about, by what was asked for or by what the steward typed."""

    def grant() -> str:
        epsilon = read_optional_number(fields.get("epsilon", ""), "ε")
        delta = read_optional_number(fields.get("delta", ""), "δ")
        context.lab.request_desk.grant(number, epsilon, delta, fields.get("note", "").strip())
        return "/requests?done=granted"

    return answer_form(grant, lambda problem: show_page(request, visitor, context, problem=problem))


@router.post("/requests/{number}/decline", response_model=None)
def decline_request(
    request: Request, visitor: Steward, context: Context, number: Number, fields: StewardFields
) -> Answered:
    """Say no to a request, and why."""

    def decline() -> str:
        context.lab.request_desk.decline(number, fields.get("note", ""))
        return "/requests?done=declined"

    return answer_form(decline, lambda problem: show_page(request, visitor, context, problem=problem))


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
    facts: dict[str, Any] = {
        "waiting": [each for each in found if each.state in ("open", "granting")],
        "answered": [each for each in reversed(found) if each.state not in ("open", "granting")],
        "typed": _EMPTY | (typed or {}),
        "notice": notice,
        "is_steward": visitor.role is Role.STEWARD,
    }
    return render(request, visitor, "requests.html", problem=problem, **facts)


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
