"""Surveys as the steward sees them: all of them, a new one, one with its result, and its links."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from sfumato.errors import SfumatoError, UsageError
from sfumato.lab.surveys.levels import LEVELS
from sfumato.server import surveys
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.rendering import render
from sfumato.server.surveys import SurveyBody

router = APIRouter()

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]

_EXACT = "exact"
"""What the form sends in the place of a level if ε is typed as a number."""


@router.get("/surveys")
def show_surveys(request: Request, visitor: Everyone, context: Context) -> Response:
    """Show all surveys that the visitor may see, and to a steward the form for a new one."""
    return _show_surveys(request, visitor, context, {}, None)


@router.post("/surveys")
def create_survey(
    request: Request,
    visitor: Steward,
    context: Context,
    name: Annotated[str, Form()] = "",
    question: Annotated[str, Form()] = "",
    choices: Annotated[str, Form()] = "",
    level: Annotated[str, Form()] = "",
    epsilon: Annotated[str, Form()] = "",
    invitations: Annotated[str, Form()] = "",
    asks: Annotated[str, Form()] = "1",
    public: Annotated[str, Form()] = "",
) -> Response:
    """Create a survey and show its links, once."""
    typed = {
        "name": name,
        "question": question,
        "choices": choices,
        "level": level,
        "epsilon": epsilon,
        "invitations": invitations,
        "asks": asks,
        "public": public,
    }
    try:
        made = surveys.create_survey(context, _read_form(typed))
    except SfumatoError as problem:
        return _show_surveys(request, visitor, context, typed, problem)
    return _show_links(request, visitor, made["survey"], made["links"] or [made["link"]], made=True)


@router.get("/surveys/{name}")
def show_survey(request: Request, name: str, visitor: Everyone, context: Context) -> Response:
    """Show what a survey has found so far."""
    return _show_survey(request, visitor, context, name, None)


@router.post("/surveys/{name}/close")
def close_survey(request: Request, name: str, visitor: Steward, context: Context) -> Response:
    """Close a survey and show its result."""
    return _change(request, visitor, context, name, "close")


@router.post("/surveys/{name}/rounds")
def open_round(request: Request, name: str, visitor: Steward, context: Context) -> Response:
    """Open the next round of a survey."""
    return _change(request, visitor, context, name, "open_round")


@router.post("/surveys/{name}/links")
def make_links(
    request: Request, name: str, visitor: Steward, context: Context, people: Annotated[str, Form()] = ""
) -> Response:
    """Make more invitations, or new ones for those that were never answered, and show their links."""
    try:
        found = surveys.find_survey(context, visitor, name)
        made = surveys.make_links(context, found, _read_whole(people, "people") if people.strip() else None)
    except SfumatoError as problem:
        return _show_survey(request, visitor, context, name, problem)
    return _show_links(request, visitor, made["survey"], made["links"], made=False)


def _change(request: Request, visitor: Visitor, context: ServerContext, name: str, change: str) -> Response:
    try:
        found = surveys.find_survey(context, visitor, name)
        found.close() if change == "close" else found.open_round()
    except SfumatoError as problem:
        return _show_survey(request, visitor, context, name, problem)
    return RedirectResponse(f"/surveys/{found.name}", 303)


def _show_surveys(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str],
    error: SfumatoError | None,
) -> Response:
    found = surveys.list_surveys(context, visitor)
    facts: dict[str, Any] = {"surveys": found, "typed": typed, "error": error, "levels": LEVELS}
    facts["may_create"] = visitor.role is Role.STEWARD
    return render(request, visitor, "surveys.html", problem=error, **facts)


def _show_survey(
    request: Request, visitor: Visitor, context: ServerContext, name: str, error: SfumatoError | None
) -> Response:
    found = surveys.find_survey(context, visitor, name)
    result = found.result()
    facts: dict[str, Any] = {
        "result": result,
        "bars": surveys.draw_result(result),
        "refresh": f"/surveys/{found.name}",
        "error": error,
        "entry": found.entry,
        "link": None if found.link is None else context.settings.address + found.link,
        "may_change": visitor.role is Role.STEWARD,
        "earlier": [found.result(number) for number in range(1, found.round)],
    }
    return render(request, visitor, "survey_result.html", problem=error, **facts)


def _show_links(request: Request, visitor: Visitor, survey: str, links: list[str], *, made: bool) -> Response:
    return render(request, visitor, "survey_links.html", survey=survey, links=links, made=made)


def _read_form(typed: dict[str, str]) -> SurveyBody:
    """Return what a form says, as the API would be sent it."""
    said: dict[str, Any] = {
        "name": typed["name"].strip(),
        "question": typed["question"],
        "epsilon": typed["epsilon"].strip() if typed["level"] == _EXACT else typed["level"],
        "asks": _read_whole(typed["asks"], "asks"),
        "public": bool(typed["public"]),
    }
    lines = [line.strip() for line in typed["choices"].splitlines() if line.strip()]
    said |= {"choices": lines} if lines else {}
    if typed["invitations"].strip():
        said["invitations"] = _read_whole(typed["invitations"], "invitations")
    try:
        return SurveyBody.model_validate(said)
    except ValidationError as problem:
        fields = sorted({str(each["loc"][0]) for each in problem.errors()})
        raise UsageError(
            "SF-W104", "The request does not have the form that it must have.", fields=", ".join(fields)
        ) from None


def _read_whole(typed: str, what: str) -> int:
    text = typed.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise UsageError("SF-W104", f"{what} is a whole number.", try_="200")
    return int(text)
