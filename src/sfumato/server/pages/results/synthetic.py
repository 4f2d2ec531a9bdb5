"""The Synthetic page: published tables for everyone; generators and rows for those who ask."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.errors import PolicyError, SfumatoError
from sfumato.lab.synthetic.published_table import PublishedTable
from sfumato.server.access import Role, Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.fits import LABELLED, MADE, read_fit, read_sample
from sfumato.server.facts.spreadsheets import write_csv
from sfumato.server.facts.typed import read_optional_number, read_typed_whole
from sfumato.server.pages.forms import (
    Answered,
    Asker,
    Context,
    Everyone,
    Fields,
    Steward,
    StewardFields,
    Ticked,
    answer_form,
)
from sfumato.server.pages.rendering import render
from sfumato.server.pages.results.jobs import list_choices, send_about, send_job, show_found_job
from sfumato.server.steward.publishing import publish_generator, publish_twin

router = APIRouter()

JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "md": "text/markdown; charset=utf-8",
}


@router.get("/synthetic")
def show_synthetic(
    request: Request, visitor: Everyone, context: Context, table: str = "", done: str = ""
) -> HTMLResponse:
    """Return what was published, and for those who may ask the form for a generator and their jobs."""
    notice = "It is published, and everyone may read it." if done else ""
    return show_page(request, visitor, context, {"table": table[:200]}, [], notice=notice)


@router.get("/synthetic/published/{name}.{ending}")
def download_published(
    name: str, ending: str, _: Everyone, context: Context, sheet: Annotated[str, Query(max_length=9)] = ""
) -> Response:
    """Return a published synthetic table as CSV or Parquet, or its card; with `sheet`, for spreadsheets."""
    found = next((each for each in list_published(context) if each.name == name), None)
    if found is None or ending not in _TYPES:
        raise PolicyError("SF-U101", "No synthetic table of this name was published.", try_="/synthetic")
    headers = {"Content-Disposition": f'attachment; filename="synthetic.{ending}"'}
    content = _write_file(found, ending, for_spreadsheets=bool(sheet))
    return Response(content, media_type=_TYPES[ending], headers=headers)


@router.post("/synthetic", response_model=None)
def fit_generator(
    request: Request, visitor: Asker, context: Context, fields: Fields, ticked: Ticked
) -> Answered:
    """Send the fit of a generator as a job."""
    return answer_form(
        lambda: send_job(context, visitor, "/synthetic", read_fit(fields, ticked, generator=True)),
        lambda problem: show_page(request, visitor, context, fields, ticked, problem),
    )


@router.get("/synthetic/{job}")
def show_job(request: Request, visitor: Asker, context: Context, job: JobPath) -> HTMLResponse:
    """Return how far a job is, or what came of it."""
    return show_found_job(request, visitor, context, job)


@router.post("/synthetic/{job}/rows", response_model=None)
def draw_rows(request: Request, visitor: Asker, context: Context, job: JobPath, fields: Fields) -> Answered:
    """Send the drawing of rows as a job."""
    return send_about(request, visitor, context, job, "/synthetic", lambda fit: read_sample(fit, fields))


@router.post("/synthetic/{job}/publish", response_model=None)
def publish_rows(
    request: Request, visitor: Steward, context: Context, job: JobPath, fields: StewardFields
) -> Answered:
    """Publish rows of a generator, for nothing."""

    def publish() -> str:
        rows, name = read_typed_whole(fields.get("rows", ""), "rows"), fields.get("name", "").strip() or None
        publish_generator(context, visitor, job, rows, name)
        return "/synthetic?done=yes"

    return answer_form(publish, lambda problem: show_found_job(request, visitor, context, job, problem))


@router.post("/synthetic/publish/twin", response_model=None)
def publish_stand_in(request: Request, visitor: Steward, context: Context, fields: StewardFields) -> Answered:
    """Publish a twin of a table, as it is declared or with what ρ buys."""

    def publish() -> str:
        rows, name = read_typed_whole(fields.get("rows", ""), "rows"), fields.get("name", "").strip() or None
        rho = read_optional_number(fields.get("rho", ""), "ρ")
        publish_twin(context, fields.get("table", ""), rows, rho, name)
        return "/synthetic?done=yes"

    return answer_form(
        publish, lambda problem: show_page(request, visitor, context, fields, [], problem=problem)
    )


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str],
    ticked: list[str],
    problem: SfumatoError | None = None,
    notice: str = "",
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    may_ask = visitor.role in (Role.STEWARD, Role.ANALYST)
    facts: dict[str, Any] = {"published": list_published(context), "may_ask": may_ask, "models": MADE}
    facts["labelled"] = LABELLED
    facts |= {"may_publish": visitor.role is Role.STEWARD, "notice": notice}
    if may_ask:
        facts |= list_choices(context, visitor, typed, ticked, generators=True)
    return render(request, visitor, "synthetic.html", problem=problem, **facts)


def list_published(context: ServerContext) -> list[PublishedTable]:
    """Return the synthetic tables that the steward published."""
    return [each for each in context.lab.published() if isinstance(each, PublishedTable)]


def _write_file(found: PublishedTable, ending: str, *, for_spreadsheets: bool) -> bytes:
    if ending != "csv":
        return found.path.with_suffix(f".{ending}").read_bytes()
    return write_csv(found.read(), for_spreadsheets=for_spreadsheets)
