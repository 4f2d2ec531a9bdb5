"""What the pages of long work share: the form of a fit, jobs that are sent, and how far one is."""

from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_number
from sfumato.lab.budget_view import BudgetView
from sfumato.ledger.api import parse_account
from sfumato.server.access import Role, Visitor, open_session_if_any
from sfumato.server.context import ServerContext
from sfumato.server.facts.fits import JobView, make_form_key
from sfumato.server.jobs import requests as working
from sfumato.server.jobs.store import ServerJob
from sfumato.server.pages.forms import Answered, answer_form
from sfumato.server.pages.rendering import render, show_left
from sfumato.viz import Chart


def send_job(context: ServerContext, visitor: Visitor, base: str, body: Any) -> str:
    """Send a job, and return the address of its page."""
    return f"{base}/{working.send_job(context, visitor, body).id}"


def send_about(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    id_: str,
    base: str,
    read: Callable[[ServerJob], Any],
) -> Answered:
    """Send a job about what another one made, and go to its page."""
    return answer_form(
        lambda: send_job(context, visitor, base, read(working.find_job(context, visitor, id_))),
        lambda problem: show_found_job(request, visitor, context, id_, problem),
    )


def show_found_job(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    id_: str,
    problem: SfumatoError | None = None,
) -> HTMLResponse:
    """Return the page of a job; one of somebody else is not there."""
    view = JobView(working.find_job(context, visitor, id_))
    pictures = view.outcome.get("pictures") or {}
    facts: dict[str, Any] = {
        "view": view,
        "charts": [Chart(spec) for spec in pictures.values()],
        "may_publish": visitor.role is Role.STEWARD and view.has_card,
        "form_key": make_form_key(),
    }
    return render(request, visitor, "job.html", problem=problem, **facts)


def list_choices(
    context: ServerContext, visitor: Visitor, typed: dict[str, str], ticked: list[str], *, generators: bool
) -> dict[str, Any]:
    """Return what the form of a fit offers, and the visitor's jobs: those of generators, or all others."""
    session = open_session_if_any(context, visitor)
    tables = () if session is None else session.tables.tables
    table = next((each for each in tables if each.name == typed.get("table")), tables[0] if tables else None)
    empty = dict.fromkeys(("model", "target", "epsilon", "delta"), "")
    jobs = map(JobView, working.list_jobs(context, visitor))
    return {
        "jobs": [each for each in jobs if each.is_generator is generators],
        "tables": [each.name for each in tables],
        "table": None if table is None else table.name,
        "columns": [] if table is None else [each.name for each in table.columns],
        "left": [] if table is None or session is None else list_left(session.budget, table.population),
        "ticked": ticked,
        "typed": empty | typed,
        "form_key": make_form_key(),
    }


def list_left(budget: BudgetView, population: str | None) -> list[tuple[str, str]]:
    """Return what is left for a table's people, of their budget and of the visitor's quota."""
    return [
        (
            "budget left" if parse_account(each.name)[1] is None else "quota left",
            f"ε = {show_left(each.left_epsilon)} of {format_number(each.epsilon)}, as the largest question",
        )
        for each in budget.accounts
        if parse_account(each.name)[0] == population
    ]
