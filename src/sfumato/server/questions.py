"""Questions of visitors: found, priced, released, refined and read again. The API and the pages call these.

Every function takes a session, or a context and a visitor, and plain values.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.server.access import open_session
from sfumato.server.feeds.reading import keep_released
from sfumato.server.wire import QuestionBody, SpendBody, parse_spending, write_quote, write_release

if TYPE_CHECKING:
    from sfumato.lab.query import Query
    from sfumato.lab.session import Session
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.keeping import KeptRelease


def find_question(session: Session, asked: QuestionBody) -> Query:
    """Return the question that was sent, for this session. Nothing is read or charged."""
    if asked.sql is not None and asked.table is None and asked.steps is None:
        found = session.sql(asked.sql)
        bounded = asked.bounded
        if bounded is None:
            return found
        if not hasattr(found, "bounded"):
            raise UsageError("SF-W117", "Only a single question can be bounded.", try_="leave out bounded")
        return found.bounded(groups=bounded.groups, rows=bounded.rows)
    raise UsageError(
        "SF-W118", "A question is sent as sql, or as a table with steps.", try_='{"sql": "SELECT COUNT(*) …"}'
    )


def quote_question(session: Session, asked: QuestionBody, spend: SpendBody) -> dict[str, Any]:
    """Return price and expected error of a question. Nothing is read, and nothing is spent."""
    return write_quote(find_question(session, asked).quote(**parse_spending(spend)))


def release_question(
    context: ServerContext, visitor: Visitor, asked: QuestionBody, spend: SpendBody, key: str | None
) -> dict[str, Any]:
    """Charge for a question, answer it, and keep what was asked so that it is found again."""
    question = find_question(open_session(context, visitor), asked)
    release = question.release(key=key, **parse_spending(spend))
    answer = write_release(release)
    _keep(context, visitor, asked, spend, answer)
    # It is charged and on its way: that it can have no address of its own is no reason to withhold it.
    with suppress(SfumatoError):
        keep_released(context, visitor, release, asked, spend)
    return answer


def list_releases(context: ServerContext, visitor: Visitor, limit: int = 100) -> tuple[KeptRelease, ...]:
    """Return the newest answers of an analyst, or for a steward those of everyone."""
    return context.releases.list_releases(visitor.analyst, limit)


def read_release(context: ServerContext, visitor: Visitor, entry: int) -> KeptRelease:
    """Return an answer that the visitor got before, or for a steward that anyone got. It costs nothing."""
    found = context.releases.find_release(entry, visitor.analyst)
    if found is None:
        raise PolicyError(
            "SF-W116",
            "No answer of yours has this entry.",
            try_="GET /api/releases, or ask the question again",
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
