"""Jobs of visitors: sent, found, and their files. The API and the pages call these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.server.access import Role, may_read_answers, open_session, require_reader
from sfumato.server.jobs.store import JobState
from sfumato.server.jobs.tasks import check_sent

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.jobs.store import ServerJob


def send_job(context: ServerContext, visitor: Visitor, body: Any) -> ServerJob:
    """Keep a job of a visitor and let it be begun. What cannot be right is refused, and nothing is kept."""
    sent = body.model_dump(mode="json", exclude_none=True)
    kind, key = sent.pop("kind"), sent.pop("key")
    check_sent(context.jobs, open_session(context, visitor), visitor.name, sent)
    job = context.jobs.add_job(visitor.name, visitor.analyst, kind, sent, key)
    context.runner.call()
    return job


def find_job(context: ServerContext, visitor: Visitor, id_: str) -> ServerJob:
    """Return a job of a visitor, or for a steward of anyone."""
    require_reader(context.lab, visitor.analyst)
    return context.jobs.find_job(id_, _owner(visitor))


def cancel_job(context: ServerContext, visitor: Visitor, id_: str) -> ServerJob:
    """End a job of a visitor, or for a steward of anyone."""
    return context.jobs.cancel_job(id_, _owner(visitor))


def list_jobs(context: ServerContext, visitor: Visitor, limit: int = 100) -> tuple[ServerJob, ...]:
    """Return the newest jobs of a visitor, or for a steward those of everyone.

    Whoever was revoked has none any more: what a job made is an answer too.
    """
    if not may_read_answers(context.lab, visitor.analyst):
        return ()
    return context.jobs.list_jobs(_owner(visitor), limit)


def list_fits(context: ServerContext, visitor: Visitor) -> list[ServerJob]:
    """Return the fits of a visitor that are done, or for a steward those of everyone."""
    found = list_jobs(context, visitor, 500)
    return [each for each in found if each.kind == "fit" and each.state is JobState.DONE]


def find_file(context: ServerContext, visitor: Visitor, id_: str, name: str) -> Path:
    """Return where the file of a job lies that is done."""
    job = find_job(context, visitor, id_)
    path = context.jobs.make_path(job.id, name)
    if job.state is not JobState.DONE or not path.is_file():
        raise PolicyError(
            "SF-U101", "There is no such file of this job.", state=job.state.value, try_="a job that is done"
        )
    return path


def _owner(visitor: Visitor) -> str | None:
    return None if visitor.role is Role.STEWARD else visitor.name
