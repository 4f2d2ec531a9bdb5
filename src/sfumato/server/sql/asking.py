"""Questions about registered tables that come through the door for SQL: always in a hostile session.

With a price they are asked like any other. Without one, the same text is looked up among what was answered to
this visitor or published, and is given again; nothing can be charged on that way.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.publications import read_spend, write_spend
from sfumato.errors import PolicyError, SfumatoError
from sfumato.lab.feeds.kept import open_kept_session
from sfumato.lab.feeds.listing import list_published_feeds
from sfumato.lab.feeds.shelf import FeedShelf, normalize_text
from sfumato.lab.feeds.tabulate import tabulate_answer
from sfumato.server.equal_requests import ask_alone
from sfumato.server.sql.texts import no_price_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from sfumato.lab.lab import Lab
    from sfumato.server.access import Visitor

_MOST_TRIED = 20
"""Earlier prices of one text that are tried."""


def ask_question(lab: Lab, visitor: Visitor, text: str, price: Mapping[str, Any]) -> pa.Table:
    """Return the answer to a question at a price, or without one the answer that was given before."""
    if not price:
        return _find_answer(lab, visitor, text)
    question: Any = lab.session(visitor.analyst, hostile=True).sql(text)
    said = json.dumps(write_spend(dict(price)), sort_keys=True)
    with ask_alone(lab.folder, visitor.analyst, normalize_text(text), said):
        answer = question.release(**price)
    table = tabulate_answer(answer)
    # It is charged: that it can have no address of its own is no reason to withhold it.
    with suppress(SfumatoError):
        shelf = FeedShelf(lab.feeds_file)
        shelf.keep_answer(visitor.analyst, answer, text, None, write_spend(dict(price)))
    return table


def quote_question(lab: Lab, visitor: Visitor, text: str, price: Mapping[str, Any]) -> str:
    """Return what a question would cost and how exact it would be. Nothing is read or spent."""
    if not price:
        raise no_price_error()
    return str(lab.session(visitor.analyst, hostile=True).sql(text).quote(**price))


def _find_answer(lab: Lab, visitor: Visitor, text: str) -> pa.Table:
    kept = open_kept_session(lab, visitor.analyst)
    question: Any = kept.sql(text)
    if not hasattr(question, "payer") and hasattr(question, "header"):
        return tabulate_answer(question.release())  # public facts have no price
    for spend in _list_prices(lab, visitor, text):
        with suppress(PolicyError):
            return tabulate_answer(question.release(**spend))
    raise no_price_error()


def _list_prices(lab: Lab, visitor: Visitor, text: str) -> Iterator[Any]:
    """Yield the prices at which this text was answered: to the visitor, then for everyone."""
    own = FeedShelf(lab.feeds_file).find_spends(visitor.analyst, text)[:_MOST_TRIED]
    yield from map(read_spend, own)
    for feed in list_published_feeds(lab):
        if feed.card.spend and feed.card.question == normalize_text(text):
            yield read_spend(feed.card.spend)
