"""Publications: what the steward paid for so that everyone may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.lab.published import Published
from sfumato.lab.synthetic.published_table import PublishedTable
from sfumato.server.wire import parse_spending, write_plain, write_release

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.server.context import ServerContext
    from sfumato.server.wire import SpendBody


def list_publications(context: ServerContext) -> list[dict[str, Any]]:
    """Return every publication with its answer, or with why it cannot be read any more."""
    return [_write_publication(each) for each in context.lab.published()]


def find_synthetic_file(context: ServerContext, name: str) -> Path:
    """Return where a published synthetic table lies."""
    for each in context.lab.published():
        if isinstance(each, PublishedTable) and each.name == name:
            return each.path.with_suffix(".parquet")
    raise PolicyError(
        "SF-W174", "No synthetic table of this name is published.", try_="GET /api/publications"
    )


def publish_question(
    context: ServerContext, sql: str, spend: SpendBody, name: str | None = None
) -> dict[str, Any]:
    """Charge the population once for a question and publish its answer, as in a hostile session.

    Feeds have it under the name, if one is given.
    """
    return write_release(context.lab.publish(sql, hostile=True, name=name, **parse_spending(spend)))


def _write_publication(published: Published | PublishedTable) -> dict[str, Any]:
    said: dict[str, Any] = write_plain(published.describe())
    if isinstance(published, Published) and "answer" in said:
        said["answer"] = write_release(published.read())
    return said
