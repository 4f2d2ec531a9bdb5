"""The Models page: fits as jobs, what they cost, metrics with intervals, and files to download."""

import csv
import io
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.errors import SfumatoError
from sfumato.server.access import Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.fits import CLASSIFIERS, JobView, read_evaluation, read_fit
from sfumato.server.jobs.requests import find_job
from sfumato.server.pages.forms import Answered, Asker, Context, Fields, Ticked, answer_form
from sfumato.server.pages.rendering import render
from sfumato.server.pages.results.jobs import list_choices, send_about, send_job, show_found_job

router = APIRouter()

JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]


@router.get("/models")
def show_models(request: Request, visitor: Asker, context: Context, table: str = "") -> HTMLResponse:
    """Return the form for a fit, and the visitor's jobs."""
    return show_page(request, visitor, context, {"table": table[:200]}, [])


@router.post("/models", response_model=None)
def fit_model(request: Request, visitor: Asker, context: Context, fields: Fields, ticked: Ticked) -> Answered:
    """Send a fit as a job."""
    return answer_form(
        lambda: send_job(context, visitor, "/models", read_fit(fields, ticked, generator=False)),
        lambda problem: show_page(request, visitor, context, fields, ticked, problem),
    )


@router.get("/models/{job}")
def show_job(request: Request, visitor: Asker, context: Context, job: JobPath) -> HTMLResponse:
    """Return how far a job is, or what came of it."""
    return show_found_job(request, visitor, context, job)


@router.post("/models/{job}/evaluate", response_model=None)
def evaluate_model(
    request: Request, visitor: Asker, context: Context, job: JobPath, fields: Fields
) -> Answered:
    """Send the measurement of a model as a job."""
    return send_about(request, visitor, context, job, "/models", lambda fit: read_evaluation(fit, fields))


@router.get("/models/{job}/measured.csv")
def download_measured(visitor: Asker, context: Context, job: JobPath) -> Response:
    """Return what was measured of a model, each number with its interval, as CSV."""
    view = JobView(find_job(context, visitor, job))
    lines: list[tuple[str, ...]] = [("measure", "at", "value", "low", "high")]
    lines += [(each.name, "", *map(str, (each.value, each.low, each.high))) for each in view.measured]
    lines += [(curve.name, *map(str, point)) for curve in view.curves for point in curve.points]
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    headers = {"Content-Disposition": 'attachment; filename="measured.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str],
    ticked: list[str],
    problem: SfumatoError | None = None,
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    facts = list_choices(context, visitor, typed, ticked, generators=False)
    return render(request, visitor, "models.html", problem=problem, models=CLASSIFIERS, **facts)
