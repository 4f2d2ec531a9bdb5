"""Who pays for a question that is asked on a page: the visitor's own quota, or a project that they are in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError
from sfumato.server.access import Role, open_session

if TYPE_CHECKING:
    from sfumato.lab.session import Session
    from sfumato.lab.work.projects import Project
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext

_NO_QUOTA = "SF-B103"


@dataclass(frozen=True, slots=True)
class PayerChoice:
    """One who can pay: a project by its name, or with an empty name the visitor."""

    project: str
    words: str


def list_payers(context: ServerContext, visitor: Visitor) -> list[PayerChoice]:
    """Return who can pay for a question of a visitor; the first is asked if nothing is chosen."""
    own = []
    if open_own_session(context, visitor) is not None:
        own = [PayerChoice("", "the budget itself" if visitor.role is Role.STEWARD else "my own quota")]
    return own + [
        PayerChoice(each.name, f"project {each.name}") for each in list_open_projects(context, visitor)
    ]


def list_open_projects(context: ServerContext, visitor: Visitor) -> list[Project]:
    """Return the projects in which a visitor may ask today."""
    return [each for each in context.lab.projects(visitor.analyst) if each.is_open]


def choose_payer(context: ServerContext, visitor: Visitor, project: str) -> Visitor:
    """Return the visitor as someone who asks within a project; whoever has no quota asks within their first.

    A project that is not theirs, or not open, is refused when the session is opened.
    """
    if not project:
        payers = list_payers(context, visitor)
        project = payers[0].project if payers else ""
    return replace(visitor, project=project or None)


def open_own_session(context: ServerContext, visitor: Visitor) -> Session | None:
    """Return the session of a visitor outside of projects, or None if they have no quota."""
    try:
        return open_session(context, replace(visitor, project=None))
    except PolicyError as problem:
        if problem.code != _NO_QUOTA:
            raise
        return None


def open_session_if_any(context: ServerContext, visitor: Visitor) -> Session | None:
    """Return the session in which a visitor can ask, of their own or of a project; None if there is none."""
    if not visitor.project and not list_payers(context, visitor):
        return None
    return open_session(context, choose_payer(context, visitor, visitor.project or ""))
