"""Surveys: stewards create and close them, and whoever has a link sends one randomized report."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from sfumato.lab.surveys.levels import LEVELS
from sfumato.server import surveys
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.surveys import PRIVATE_HEADERS, MoreLinksBody, ReportBody, SurveyBody
from sfumato.server.wire import FactsBody

router = APIRouter(prefix="/api", tags=["surveys"])

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]
Name = Annotated[str, Path(max_length=60)]
Link = Annotated[str, Path(max_length=100)]


@router.get("/surveys", response_model=FactsBody)
def list_surveys(visitor: Everyone, context: Context) -> dict[str, Any]:
    """Return all surveys for a steward, for others those with public results; and the levels of ε."""
    levels = [level.to_dict() for level in LEVELS]
    return {"surveys": surveys.list_surveys(context, visitor), "levels": levels}


@router.post("/surveys", response_model=FactsBody, status_code=201)
def create_survey(body: SurveyBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Charge and open a survey. Its links are in the answer and can never be shown again."""
    return surveys.create_survey(context, body)


@router.get("/surveys/{name}", response_model=FactsBody)
def read_survey(
    name: Name,
    visitor: Everyone,
    context: Context,
    round: Annotated[int | None, Query(ge=1, le=1000)] = None,  # noqa: A002
) -> dict[str, Any]:
    """Return what a survey has found so far, with intervals, and how many did not answer."""
    return surveys.find_survey(context, visitor, name).result(round).to_dict()


@router.post("/surveys/{name}/close", response_model=FactsBody)
def close_survey(name: Name, visitor: Steward, context: Context) -> dict[str, Any]:
    """Take no more answers, and have the ledger keep the counts."""
    return surveys.find_survey(context, visitor, name).close().to_dict()


@router.post("/surveys/{name}/rounds", response_model=FactsBody)
def open_round(name: Name, visitor: Steward, context: Context) -> dict[str, Any]:
    """Charge and open the next round, in which everyone tosses fresh coins."""
    found = surveys.find_survey(context, visitor, name)
    found.open_round()
    return found.to_dict()


@router.post("/surveys/{name}/links", response_model=FactsBody)
def make_links(name: Name, body: MoreLinksBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Make invitations for more people, or replace those that were never answered."""
    return surveys.make_links(context, surveys.find_survey(context, visitor, name), body.people)


@router.get("/s/{link}", response_model=FactsBody)
def read_question(link: Link, visitor: Everyone, context: Context, response: Response) -> dict[str, Any]:
    """Return the question behind a respondent's link, and the law that client.js draws a report by."""
    response.headers.update(PRIVATE_HEADERS)
    return context.lab.open_invitation(link).question()


@router.post("/s/{link}", response_model=FactsBody)
def send_report(
    link: Link, body: ReportBody, visitor: Everyone, context: Context, response: Response
) -> dict[str, Any]:
    """Count a randomized report, once for each invitation: `counted` is false if one was counted before."""
    response.headers.update(PRIVATE_HEADERS)
    return {"counted": context.lab.open_invitation(link).answer(body.model_dump())}
