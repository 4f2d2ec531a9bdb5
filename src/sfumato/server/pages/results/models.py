"""The Models page: fits as jobs, what they cost, metrics with intervals, and files to download."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from sfumato.errors import SfumatoError
from sfumato.lab.budget_view import BudgetView
from sfumato.ledger.api import parse_account
from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.fits import CLASSIFIERS, JobView, make_form_key, read_evaluation, read_fit
from sfumato.server.jobs import requests as working
from sfumato.server.pages.rendering import render
from sfumato.server.pages.results.fields import Fields, Ticked
from sfumato.server.problems import find_status
from sfumato.viz import Chart

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.get("/models")
def show_models(request: Request, visitor: Asker, context: Context, table: str = "") -> HTMLResponse:
    """Return the form for a fit, and the visitor's jobs."""
    return show_page(request, visitor, context, {"table": table[:200]}, [])


@router.post("/models", response_model=None)
def fit_model(
    request: Request, visitor: Asker, context: Context, fields: Fields, ticked: Ticked
) -> HTMLResponse | RedirectResponse:
    """Send a fit as a job."""
    try:
        job = working.send_job(context, visitor, read_fit(fields, ticked, generator=False))
    except SfumatoError as problem:
        return show_page(request, visitor, context, fields, ticked, problem)
    return RedirectResponse(f"/models/{job.id}", 303)


@router.get("/models/{job}")
def show_job(request: Request, visitor: Asker, context: Context, job: JobPath) -> HTMLResponse:
    """Return how far a job is, or what came of it."""
    return show_found_job(request, visitor, context, job)


@router.post("/models/{job}/evaluate", response_model=None)
def evaluate_model(
    request: Request, visitor: Asker, context: Context, job: JobPath, fields: Fields
) -> HTMLResponse | RedirectResponse:
    """Send the measurement of a model as a job."""
    try:
        fit = working.find_job(context, visitor, job)
        sent = working.send_job(context, visitor, read_evaluation(fit, fields))
    except SfumatoError as problem:
        return show_found_job(request, visitor, context, job, problem)
    return RedirectResponse(f"/models/{sent.id}", 303)


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str],
    ticked: list[str],
    problem: SfumatoError | None = None,
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    jobs = [each for each in map(JobView, working.list_jobs(context, visitor)) if not each.is_generator]
    facts = {"jobs": jobs, "models": CLASSIFIERS, **list_choices(context, visitor, typed, ticked)}
    status = 200 if problem is None else find_status(problem)
    return render(request, visitor, "models.html", status=status, problem=problem, **facts)


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
        "form_key": make_form_key(),
        "problem": problem,
    }
    status = 200 if problem is None else find_status(problem)
    return render(request, visitor, "job.html", status=status, **facts)


def list_choices(
    context: ServerContext, visitor: Visitor, typed: dict[str, str], ticked: list[str]
) -> dict[str, Any]:
    """Return what the form of a fit offers: tables, and the columns of the one that was chosen."""
    session = open_session(context, visitor)
    tables = session.tables.tables
    table = next((each for each in tables if each.name == typed.get("table")), tables[0] if tables else None)
    columns = [] if table is None else [each.name for each in table.columns]
    empty = dict.fromkeys(("model", "target", "epsilon", "delta"), "")
    return {
        "tables": [each.name for each in tables],
        "table": None if table is None else table.name,
        "columns": columns,
        "left": [] if table is None else list_left(session.budget, table.population),
        "ticked": ticked,
        "typed": empty | typed,
        "form_key": make_form_key(),
    }


def list_left(budget: BudgetView, population: str | None) -> list[tuple[str, str]]:
    """Return what is left for a table's people, of their budget and of the visitor's quota."""
    return [
        (
            "budget left" if parse_account(each.name)[1] is None else "quota left",
            f"ε = {each.left_epsilon:.4g} of {each.epsilon:.4g}, as the largest question",
        )
        for each in budget.accounts
        if parse_account(each.name)[0] == population
    ]
