"""Questions of visitors: found, priced, released, refined and read again. The API and the pages call these.

Every function takes a session, or a context and a visitor, and plain values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sfumato.errors import PolicyError, UsageError
from sfumato.lab.query import Query, TunedQuery, require_query
from sfumato.server.access import may_read_answers, open_session, require_reader
from sfumato.server.equal_requests import ask_alone
from sfumato.server.replaying import replay_graph, replay_question
from sfumato.server.wire import (
    BoundedBody,
    ClippedBody,
    QuestionBody,
    SingleQuestionBody,
    SpendBody,
    TunedBody,
    parse_number,
    parse_spending,
    write_plain,
    write_quote,
    write_release,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.release import Release
    from sfumato.lab.bounds.paying import Tuning
    from sfumato.lab.bounds.tuning import PickedBounds
    from sfumato.lab.session import Session
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.keeping import KeptRelease


def find_question(session: Session, asked: SingleQuestionBody) -> Query:
    """Return the question that was sent, for this session. Nothing is read or charged."""
    if isinstance(asked, QuestionBody) and asked.together is not None:
        return _find_together(session, asked, asked.together)
    found = _find_unbounded(session, asked)
    said = [name for name in ("bounded", "clipped", "tuned") if getattr(asked, name) is not None]
    if len(said) > 1:
        raise UsageError(
            "SF-U104", "A question is bounded in one way.", got=", ".join(said), try_='"bounded": {"rows": 5}'
        )
    if said and not isinstance(found, Query):
        raise UsageError("SF-Q210", "Only a single question can be bounded.", try_=f"leave out {said[0]}")
    if asked.bounded is not None:
        return found.bounded(groups=asked.bounded.groups, rows=asked.bounded.rows)
    if asked.clipped is not None:
        return found.clipped(parse_number(asked.clipped.limit), groups=asked.clipped.groups)
    return found if asked.tuned is None else found.with_bounds(_read_picked(session, asked, asked.tuned))


def _find_unbounded(session: Session, asked: SingleQuestionBody) -> Query:
    """Return the question that was sent, with all that a unit has."""
    if asked.sql is not None and asked.table is None and asked.steps is None:
        return session.sql(asked.sql)
    if asked.sql is None and asked.steps is not None and (asked.table is None) != (asked.graph is None):
        if asked.graph is not None:
            return cast("Query", replay_graph(session, asked.graph, asked.steps))
        return cast("Query", replay_question(session, asked.table or "", asked.steps))
    raise UsageError(
        "SF-U104", "A question is sent as sql, or as a table with steps.", try_='{"sql": "SELECT COUNT(*) …"}'
    )


def _find_together(session: Session, asked: QuestionBody, parts: Sequence[SingleQuestionBody]) -> Query:
    """Return questions that are asked together. They are quoted and released like one."""
    alone = (asked.sql, asked.bounded, asked.clipped, asked.tuned, asked.table, asked.graph, asked.steps)
    if any(each is not None for each in alone):
        raise UsageError(
            "SF-U104",
            "Questions that are asked together stand in their list alone.",
            try_='{"together": [{"sql": "SELECT …"}, {"sql": "SELECT …"}]}',
        )
    return cast("Query", session.ask_together([find_question(session, each) for each in parts]))


# ---- tuning ------------------------------------------------------------------------------------------------


def find_tuning(
    session: Session, asked: SingleQuestionBody, tuned: TunedBody, then: SpendBody | None = None
) -> Tuning:
    """Return what tuning the question asks. Nothing is read or charged.

    `then` is what will be spent on the question, where more is known of it than the ε it is tuned for.
    """
    served = None if tuned.for_epsilon is None else parse_number(tuned.for_epsilon)
    plain = asked.model_copy(update={"tuned": None})
    spending = None if then is None else parse_spending(then)
    return require_query(find_question(session, plain)).tuning(served, spending)


def quote_tuning(
    session: Session, asked: QuestionBody, tuned: TunedBody, then: SpendBody | None = None
) -> dict[str, Any]:
    """Return what picking the bounds of a question would cost. Nothing is read, and nothing is spent."""
    return write_quote(find_tuning(session, asked, tuned, then).quote(epsilon=parse_number(tuned.epsilon)))


def tune_question(
    context: ServerContext,
    visitor: Visitor,
    asked: QuestionBody,
    tuned: TunedBody,
    key: str | None,
    then: SpendBody | None = None,
) -> dict[str, Any]:
    """Charge for counts of units, and return the bounds that suit a question best, with the question."""
    tuning = find_tuning(open_session(context, visitor), asked, tuned, then)
    with ask_alone(
        context.lab.folder, visitor.analyst, f"tune {asked.model_dump_json()}", str(tuned.epsilon)
    ):
        picked = tuning.release(epsilon=parse_number(tuned.epsilon), key=key)
    said = TunedBody(epsilon=tuned.epsilon, for_epsilon=tuned.for_epsilon)
    question = asked.model_copy(update={"tuned": said}).model_dump(exclude_none=True)
    text = f"{picked}\nEstimated bias: {picked.bias}\n{picked.receipt.sentence()}"
    told = write_plain(picked.to_dict())
    return {"picked": told, "question": question, "entry": picked.receipt.entry, "text": text}


def spell_bounds(session: Session, asked: QuestionBody) -> QuestionBody:
    """Return the question with its bounds as numbers, for a lab where it was not tuned."""
    if asked.tuned is None:
        return asked
    picked, plain = _read_picked(session, asked, asked.tuned), {"tuned": None}
    if picked.clip is not None:
        clip = ClippedBody(limit=str(picked.clip), groups=picked.groups)
        return asked.model_copy(update=plain | {"clipped": clip})
    bounds = BoundedBody(groups=picked.groups, rows=picked.rows or 1)
    return asked.model_copy(update=plain | {"bounded": bounds})


def _read_picked(session: Session, asked: SingleQuestionBody, tuned: TunedBody) -> PickedBounds:
    """Return the bounds that were picked before; where there are none, nothing is charged for them here."""
    found = find_tuning(session, asked, tuned).find_answer(epsilon=parse_number(tuned.epsilon))
    if found is not None:
        return found
    raise PolicyError(
        "SF-W168",
        "This question was not tuned for this ε, or the table has changed since; nothing was charged.",
        try_="POST /api/tune with the same epsilon",
    )


# ---- quotes and answers ------------------------------------------------------------------------------------


def quote_question(session: Session, asked: QuestionBody, spend: SpendBody) -> dict[str, Any]:
    """Return price and expected error of a question. Nothing is read, and nothing is spent."""
    question = find_question(session, asked)
    said = write_quote(question.quote(**parse_spending(spend)))
    if isinstance(question, TunedQuery):
        said["picked"] = {"picked": str(question.picked), "bias": question.picked.bias}
    return said


def release_question(
    context: ServerContext, visitor: Visitor, asked: QuestionBody, spend: SpendBody, key: str | None
) -> dict[str, Any]:
    """Charge for a question, answer it, and keep what was asked so that it is found again."""
    question = find_question(open_session(context, visitor), asked)
    with ask_alone(context.lab.folder, visitor.analyst, asked.model_dump_json(), spend.model_dump_json()):
        release = question.release(key=key, **parse_spending(spend))
        answer = write_release(release)
        _keep(context, visitor, asked, spend, answer)
    return answer


def refine_release(
    context: ServerContext, visitor: Visitor, entry: int, spend: SpendBody, key: str | None
) -> dict[str, Any]:
    """Ask the question of a kept answer again with fresh noise, pay for it, and put both together."""
    kept = read_release(context, visitor, entry)
    session = open_session(context, visitor)
    with ask_alone(context.lab.folder, visitor.analyst, f"refine {entry}", spend.model_dump_json()):
        release = _read_again(context, session, kept).refine(key=key, **parse_spending(spend))
        answer = write_release(release)
        _keep(context, visitor, QuestionBody(**kept.question), spend, answer, refines=entry)
    return answer


def list_releases(context: ServerContext, visitor: Visitor, limit: int = 100) -> tuple[KeptRelease, ...]:
    """Return the newest answers of an analyst, or for a steward those of everyone.

    Whoever was revoked has none any more.
    """
    if not may_read_answers(context.lab, visitor.analyst):
        return ()
    return context.releases.list_releases(visitor.analyst, limit)


def read_release(context: ServerContext, visitor: Visitor, entry: int) -> KeptRelease:
    """Return an answer that the visitor got before, or for a steward that anyone got. It costs nothing."""
    require_reader(context.lab, visitor.analyst)
    found = context.releases.find_release(entry, visitor.analyst)
    if found is None:
        raise PolicyError(
            "SF-U101",
            "No answer of yours has this entry.",
            try_="GET /api/releases, or ask the question again",
        )
    return found


def _read_again(context: ServerContext, session: Session, kept: KeptRelease) -> Release:
    """Return a kept answer as the lab holds it. Nothing is charged: what is not kept any more is refused."""
    spend = SpendBody(**kept.spend)
    if kept.refines is not None:
        earlier = context.releases.find_release(kept.refines, kept.analyst)
        if earlier is not None:
            return _read_again(context, session, earlier).refine(**parse_spending(spend))
    question = find_question(session, QuestionBody(**kept.question))
    if not isinstance(question, Query):
        raise PolicyError("SF-N117", "Only the answer to a single question can be refined.")
    found = question.find_answer(**parse_spending(spend))
    if found is None:
        raise PolicyError(
            "SF-C135",
            "The table has a new snapshot since this was answered; nothing was charged.",
            why="the rows are other ones now, and two answers about different rows are not one",
            try_="ask the question again",
        )
    return found


def _keep(
    context: ServerContext,
    visitor: Visitor,
    asked: QuestionBody,
    spend: SpendBody,
    answer: dict[str, Any],
    refines: int | None = None,
) -> None:
    if answer["entry"] is None:  # public facts have no charge
        return
    said = (asked.model_dump(exclude_none=True), spend.model_dump(exclude_none=True))
    context.releases.keep_release(answer["entry"], visitor.analyst or "", *said, answer, refines)
