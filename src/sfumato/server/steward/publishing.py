"""Publications: what the steward paid for so that everyone may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.lab.publications.names import require_publication_name
from sfumato.lab.publications.published import Published
from sfumato.lab.synthetic.published_table import PublishedTable
from sfumato.server.access import open_session
from sfumato.server.jobs.tasks import find_fit, rebuild_generator
from sfumato.server.wire import parse_spending, write_plain, write_release
from sfumato.synth import Twin

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.privacy.exact import Number
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.wire import SpendBody


def list_publications(context: ServerContext) -> list[dict[str, Any]]:
    """Return every publication with its answer, or with why it cannot be read any more."""
    return [write_publication(each) for each in context.lab.published()]


def find_synthetic_file(context: ServerContext, name: str) -> Path:
    """Return where a published synthetic table lies."""
    for each in context.lab.published():
        if isinstance(each, PublishedTable) and each.name == name:
            return each.path.with_suffix(".parquet")
    raise PolicyError(
        "SF-U101", "No synthetic table of this name is published.", try_="GET /api/publications"
    )


def publish_question(
    context: ServerContext, sql: str, spend: SpendBody, name: str | None = None
) -> dict[str, Any]:
    """Charge the population once for a question and publish its answer, as in a hostile session.

    Files and mirrors have it under the name, if one is given.
    """
    return write_release(context.lab.publish(sql, hostile=True, name=name, **parse_spending(spend)))


def publish_generator(
    context: ServerContext, visitor: Visitor, fit: str, rows: int, name: str | None = None
) -> PublishedTable:
    """Publish rows of a generator that a job fitted. It is rebuilt from the ledger, so nothing is charged."""
    named = None if name is None else require_publication_name(name)
    found = find_fit(context.jobs, fit, None)
    generator = rebuild_generator(open_session(context, visitor), found)
    return context.lab.publish(generator, rows=rows, name=named)


def publish_twin(
    context: ServerContext, table: str, rows: int, rho: Number | None = None, name: str | None = None
) -> PublishedTable:
    """Publish a stand-in for a table: of what is declared, or with marginals that ρ buys once for all."""
    named = None if name is None else require_publication_name(name)
    return context.lab.publish(Twin(rho=rho), table=table, rows=rows, name=named)


def write_publication(published: Published | PublishedTable) -> dict[str, Any]:
    """Return a publication with its answer or its card, ready for JSON."""
    said: dict[str, Any] = write_plain(published.describe())
    if isinstance(published, Published) and "answer" in said:
        said["answer"] = write_release(published.read())
    return said
