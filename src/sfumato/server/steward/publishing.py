"""Publications: what the steward paid for so that everyone may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.server.wire import parse_spending, write_plain, write_release

if TYPE_CHECKING:
    from sfumato.server.context import ServerContext
    from sfumato.server.wire import SpendBody


def list_publications(context: ServerContext) -> list[dict[str, Any]]:
    """Return every publication with its answer, or with why it cannot be read any more."""
    return [write_plain(each.describe()) for each in context.lab.published()]


def publish_question(
    context: ServerContext, sql: str, spend: SpendBody, name: str | None = None
) -> dict[str, Any]:
    """Charge the population once for a question and publish its answer, as in a hostile session.

    Feeds have it under the name, if one is given.
    """
    return write_release(context.lab.publish(sql, hostile=True, name=name, **parse_spending(spend)))
