"""What a respondent's link opens: the question, coins that are tossed in the browser, and the result.

The page gets the truth and tosses; the server gets the report. Without a script, people toss a fair coin
themselves.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from sfumato.errors import SfumatoError, UsageError
from sfumato.lab.surveys.invitation import Invitation
from sfumato.local import read_client
from sfumato.server import surveys
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render
from sfumato.server.problems import find_status
from sfumato.server.surveys import PRIVATE_HEADERS

router = APIRouter()

Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("/surveys/client.js")
def send_client(_: Everyone) -> Response:
    """Return the program that randomizes answers: the very file that sf.local ships and tests."""
    return Response(read_client(), media_type="text/javascript", headers={"Cache-Control": "no-cache"})


@router.get("/s/{link}")
def show_question(request: Request, link: str, visitor: Everyone, context: Context) -> Response:
    """Show the question, what the coins do, and where to answer."""
    return _show(request, visitor, link, context.lab.open_invitation(link))


@router.post("/s/{link}")
def take_report_by_hand(
    request: Request,
    link: str,
    visitor: Everyone,
    context: Context,
    question: Annotated[str, Form()] = "",
    round: Annotated[str, Form()] = "",  # noqa: A002
    report: Annotated[str, Form()] = "",
) -> Response:
    """Count what somebody's own coins said, and thank them."""
    invitation = context.lab.open_invitation(link)
    try:
        if not invitation.terms.is_fair_coin:
            raise UsageError(
                "SF-U104",
                "Only the fair coin can be tossed by hand.",
                try_="a browser with JavaScript, which tosses for you",
            )
        sent = {"question": question, "round": _read_digit(round), "report": _read_digit(report)}
        counted = invitation.answer(sent)
    except SfumatoError as problem:
        return _show(request, visitor, link, invitation, problem=problem)
    return _show(request, visitor, link, invitation, counted=counted)


@router.get("/s/{link}/results")
def show_result(request: Request, link: str, visitor: Everyone, context: Context) -> Response:
    """Show the result, where the steward has made it public."""
    result = context.lab.open_invitation(link).result()
    facts: dict[str, Any] = {"result": result, "bars": surveys.draw_result(result), "link": link}
    answer = render(request, visitor, "respondent_result.html", refresh=f"/s/{link}/results", **facts)
    answer.headers.update(PRIVATE_HEADERS)
    return answer


def _show(
    request: Request,
    visitor: Visitor,
    link: str,
    invitation: Invitation,
    *,
    counted: bool | None = None,
    problem: SfumatoError | None = None,
) -> Response:
    terms = invitation.terms
    answer = render(
        request,
        visitor,
        "respondent.html",
        status=200 if problem is None else find_status(problem),
        link=link,
        terms=terms,
        invitation=invitation,
        asked=json.dumps(invitation.question(), ensure_ascii=False),
        law=terms.mechanism.question()["id"],
        counted=counted,
        error=problem,
    )
    answer.headers.update(PRIVATE_HEADERS)
    return answer


def _read_digit(typed: str) -> int | str:
    """Return a small number that a form sent; what is none is refused where reports are read."""
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) <= 4 else typed
