"""What is public about frames and questions, intervals at other levels, and tables to rehearse with."""

from io import BytesIO
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from sfumato.curator.answers.release import Release
from sfumato.errors import UsageError
from sfumato.lab.remote.columns import write_types
from sfumato.lab.remote.kept_answers import restrict_to_kept
from sfumato.lab.synthetic.rehearsal import describe_rehearsal
from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.questions import find_question
from sfumato.server.remote.sent_values import MOST_DRAWN, AtLevelBody, DescribeBody
from sfumato.server.replaying import replay_frame
from sfumato.server.wire import FactsBody, TableBody, parse_spending, write_plain

router = APIRouter(prefix="/api", tags=["frames"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
PARQUET = "application/vnd.apache.parquet"


@router.post("/describe", response_model=TableBody)
def describe_rows(body: DescribeBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what is declared about the rows of a frame. Nothing is read."""
    frame = replay_frame(open_session(context, visitor), body.question.table, body.question.steps)
    return frame.describe().to_dict()


@router.post("/expected", response_model=FactsBody)
def expect_error(body: AtLevelBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the expected error of a question at a confidence. Nothing is read, and nothing is spent."""
    quote = find_question(open_session(context, visitor), body.question).quote(**parse_spending(body.spend))
    if not hasattr(quote, "error"):
        raise UsageError("SF-E138", "Only a single question has an expected error at another confidence.")
    return {"expected_error": write_plain(quote.error(body.confidence))}


@router.post("/intervals", response_model=FactsBody)
def read_intervals(body: AtLevelBody, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the intervals of an answer that is kept, at a confidence. This can charge nothing."""
    session = restrict_to_kept(open_session(context, visitor))
    answer: Any = find_question(session, body.question).release(**parse_spending(body.spend))
    if isinstance(answer, tuple) and body.place is not None and body.place < len(answer):
        answer = answer[body.place]
    if not isinstance(answer, Release):
        raise UsageError("SF-E138", "Only a single question has intervals at another confidence.")
    ends = (answer.all_groups() if body.all_groups else answer).interval(body.confidence)
    return {"interval": write_plain(ends.to_pydict()), "interval_types": write_types(ends)}


@router.get("/rehearsal", response_model=FactsBody)
def read_rehearsal(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what is declared of every table and what may be spent, to rehearse in a lab of one's own."""
    return describe_rehearsal(open_session(context, visitor)._payer)


@router.get("/twins/{name}", response_class=Response)
def read_twin(
    name: str,
    visitor: Asker,
    context: Context,
    rows: Annotated[int | None, Query(ge=1, le=MOST_DRAWN)] = None,
    seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
) -> Response:
    """Return a stand-in for a table, as a Parquet file, to rehearse questions with. It costs nothing."""
    from pyarrow import parquet

    file = BytesIO()
    parquet.write_table(open_session(context, visitor).twin(name, rows, seed=seed), file)
    return Response(file.getvalue(), media_type=PARQUET)
