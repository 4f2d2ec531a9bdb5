"""Questions: their quotes, their releases, refinements, and answers that were given before."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from sfumato.server import questions
from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import (
    FactsBody,
    PickedBody,
    PlanRequestBody,
    QuoteBody,
    QuoteRequestBody,
    RefineRequestBody,
    ReleaseBody,
    ReleaseRequestBody,
    TuneRequestBody,
    parse_spending,
    write_plain,
)

router = APIRouter(prefix="/api", tags=["questions"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
Entry = Annotated[int, Path(ge=0, le=2**53)]


@router.post("/quote", response_model=QuoteBody)
def quote(body: QuoteRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the price and the expected error of a question. Nothing is read, and nothing is spent."""
    return questions.quote_question(open_session(context, visitor), body.question, body.spend)


@router.post("/plan", response_model=FactsBody)
def plan(body: PlanRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the price of many questions, of each and of all together. Nothing is read or spent."""
    context.rates.count_request(f"person {visitor.name}", max(0, len(body.questions) - 1))  # each counts
    planned = open_session(context, visitor).plan(body.questions, **parse_spending(body.spend))
    return write_plain(planned.to_dict())  # type: ignore[no-any-return]


@router.post("/release", response_model=ReleaseBody)
async def release(body: ReleaseRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Charge for a question and answer it. The same question again, or the same key, costs nothing."""
    asked = body.question, body.spend, body.key
    return await context.turns.run(questions.release_question, context, visitor, *asked, whose=visitor.name)


@router.post("/tune/quote", response_model=QuoteBody)
def quote_tuning(body: TuneRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what picking the bounds of a question would cost. Nothing is read, and nothing is spent."""
    return questions.quote_tuning(open_session(context, visitor), body.question, body)


@router.post("/tune", response_model=PickedBody)
async def tune(body: TuneRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Charge for counts of units, and pick how much of one unit counts so that a question's error is least.

    The question comes back with these bounds, to be quoted and released. Tuning it again costs nothing.
    """
    asked = body.question, body, body.key
    return await context.turns.run(questions.tune_question, context, visitor, *asked, whose=visitor.name)


@router.post("/refine", response_model=ReleaseBody)
async def refine(body: RefineRequestBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Ask the question of an answer again with fresh noise, and put both together.

    Refining the same entry at the same spend once more gives the same answer and costs nothing.
    """
    asked = body.entry, body.spend, body.key
    return await context.turns.run(questions.refine_release, context, visitor, *asked, whose=visitor.name)


@router.get("/releases", response_model=FactsBody)
def list_releases(
    visitor: Asker, context: Context, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> dict[str, Any]:
    """Return the newest answers of the visitor, or for a steward those of everyone."""
    return {"releases": [each.to_dict() for each in questions.list_releases(context, visitor, limit)]}


@router.get("/releases/{entry}", response_model=FactsBody)
def read_release(entry: Entry, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return an answer that was given before. It costs nothing."""
    return questions.read_release(context, visitor, entry).to_dict()
