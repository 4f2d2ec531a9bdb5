"""Which feeds a visitor may read, and what they keep. The API and OData call these."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.publications import write_spend
from sfumato.curator.payer import no_quota_error
from sfumato.lab.analysts import has_quota
from sfumato.lab.feeds.kept import open_kept_session
from sfumato.lab.feeds.listing import (
    find_released_feed,
    list_published_feeds,
    list_released_feeds,
)
from sfumato.lab.feeds.shelf import FeedShelf, no_such_feed
from sfumato.server.people import Role
from sfumato.server.wire import parse_spending

if TYPE_CHECKING:
    from sfumato.lab.feeds.feed import Feed
    from sfumato.lab.lab import Lab
    from sfumato.lab.session import Session
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.wire import SingleQuestionBody, SpendBody


def may_read_answers(lab: Lab, analyst: str | None) -> bool:
    """Return whether an analyst still has a quota; a steward reads all.

    Whoever was revoked does not read what they once paid for: a revoked token and a revoked quota mean that
    the steward wants them to see no more.
    """
    return analyst is None or has_quota(lab, analyst)


def require_reader(lab: Lab, analyst: str | None) -> None:
    """Refuse an analyst from whom every quota was taken away."""
    if not may_read_answers(lab, analyst):
        raise no_quota_error(analyst)


def list_readable_feeds(lab: Lab, visitor: Visitor) -> tuple[Feed, ...]:
    """Return what a visitor may read: what was published, and what was released to them."""
    published = list_published_feeds(lab)
    if visitor.role not in (Role.STEWARD, Role.ANALYST) or not may_read_answers(lab, visitor.analyst):
        return published
    return (*list_released_feeds(lab, visitor.analyst), *published)


def read_released_feed(lab: Lab, visitor: Visitor, name: str, of: str | None = None) -> Feed:
    """Return a feed of the visitor's, or for a steward one of the analyst `of`."""
    if of is not None and of != visitor.name and visitor.role is not Role.STEWARD:
        raise no_such_feed(name)
    require_reader(lab, visitor.analyst)
    of_steward = visitor.role is Role.STEWARD and of is not None and of != visitor.name
    return find_released_feed(lab, of if of_steward else visitor.analyst, name)


def open_free_session(context: ServerContext, visitor: Visitor) -> Session:
    """Return a session in which what was answered before is given again, and nothing can be charged."""
    require_reader(context.lab, visitor.analyst)
    return open_kept_session(context.lab, visitor.analyst)


def keep_released(
    context: ServerContext,
    visitor: Visitor,
    answer: Any,
    asked: SingleQuestionBody,
    spend: SpendBody,
    name: str | None = None,
    *,
    how: str = "",
) -> Feed:
    """Give an answer that was released to the visitor an address: by its name, or else by its entry.

    `how` says how it was asked, if not by itself for this spend.
    """
    shelf, spending = FeedShelf(context.lab.feeds_file), parse_spending(spend)
    said = write_spend({each: value for each, value in spending.items() if value is not None})
    # The text is another then, so that what was spent is not taken for the price of the question.
    text = write_question(asked) + (f" ({how})" if how else "")
    return shelf.keep_answer(visitor.analyst, answer, text, name, said)


def forget_feed(context: ServerContext, visitor: Visitor, name: str) -> None:
    """Forget a feed of the visitor's. The answer stays in the ledger."""
    if not FeedShelf(context.lab.feeds_file).remove_feed(visitor.analyst, name):
        raise no_such_feed(name)


def write_question(asked: SingleQuestionBody) -> str:
    """Return a question as the text that its feed has: its SQL, or its steps as JSON."""
    if asked.sql is not None and asked.bounded is None:
        return asked.sql
    return json.dumps(asked.model_dump(exclude_none=True), ensure_ascii=False)
