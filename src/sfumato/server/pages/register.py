"""The Register page, for stewards: source, who is protected, bounds and keys, budget, and the report."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from starlette.datastructures import UploadFile

from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
from sfumato.errors import SfumatoError, UsageError
from sfumato.privacy.budget import describe_weak_budget
from sfumato.server.access import Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.declaring import (
    KINDS,
    PROTECTS,
    TWINS,
    TypedDeclaration,
    begin_declaration,
    read_declaration,
    read_source,
)
from sfumato.server.facts.promise import draw_odds
from sfumato.server.pages.forms import Answered, Context, Steward, StewardFields, answer_form
from sfumato.server.pages.rendering import render
from sfumato.server.steward.sources import UploadedTable, list_databases, list_sources
from sfumato.server.steward.tables import check_table, list_chosen, register_table
from sfumato.synth import Twin
from sfumato.viz.icons import icon_key

router = APIRouter()

_PART = 2**20
"""Bytes of a file that are copied at a time."""


async def read_file(request: Request, _: Steward) -> AsyncIterator[UploadFile]:
    """Yield the file of a form, which is not read before the steward is known to have sent it."""
    async with request.form() as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise UsageError("SF-W104", "A table is sent as Parquet or as CSV.", try_="choose a file")
        yield file


# A parameter of the type UploadFile would be read before anybody is asked for a token.
SentFile = Annotated[UploadFile, Depends(read_file)]


@router.get("/register")
def choose_source(request: Request, visitor: Steward, context: Context) -> HTMLResponse:
    """Return the first step: where the rows are."""
    return show_sources(request, visitor, context)


@router.post("/register/upload", response_model=None)
def send_source(request: Request, visitor: Steward, context: Context, file: SentFile) -> Answered:
    """Keep a file that the steward sent, and go on to its declaration."""

    def keep() -> str:
        return f"/register/declare?source=upload:{_keep_file(context, file)}"

    return answer_form(keep, lambda problem: show_sources(request, visitor, context, problem))


@router.get("/register/declare")
def begin_form(
    request: Request, visitor: Steward, context: Context, source: Annotated[str, Query(max_length=2000)] = ""
) -> HTMLResponse:
    """Return the form for a source. Everything in it starts empty."""
    try:
        typed = begin_declaration(context, source)
    except SfumatoError as problem:
        return show_sources(request, visitor, context, problem)
    return show_form(request, visitor, context, typed)


@router.post("/register/check")
def check_form(request: Request, visitor: Steward, context: Context, fields: StewardFields) -> HTMLResponse:
    """Return the form with what the declaration would do to the rows, for the steward alone."""
    typed = read_declaration(context, fields)
    try:
        typed.read_twin()
        report = check_table(context, typed.table.strip(), read_source(typed.source), typed.read_schema())
    except SfumatoError as problem:
        return show_form(request, visitor, context, typed, problem=problem)
    return show_form(request, visitor, context, typed, report=report)


@router.post("/register")
def register_form(
    request: Request, visitor: Steward, context: Context, fields: StewardFields
) -> HTMLResponse:
    """Register the table, and return what the declaration did to its rows."""
    typed = read_declaration(context, fields)
    name = typed.table.strip()
    try:
        twin, said = typed.read_twin(), typed.read_schema()
        if typed.choice_price != typed.seen_price:  # typed without scripts, or changed since
            return show_form(request, visitor, context, typed)
        confirmed = bool(fields.get("confirm_losses"))
        report = register_table(context, name, read_source(typed.source), said, confirm_losses=confirmed)
    except SfumatoError as problem:
        return show_form(request, visitor, context, typed, problem=problem)
    return render(
        request,
        visitor,
        "registered.html",
        # The table is there by now, whatever becomes of its twin.
        problem=_publish_twin(context, name, twin),
        status=200,
        report=report,
        chosen=list_chosen(context, name),
        table=name,
        twin=twin,
    )


@router.post("/register/price")
def show_price(request: Request, visitor: Steward, context: Context, fields: StewardFields) -> HTMLResponse:
    """Return what registering would charge for bounds that are chosen privately, as a part of the form."""
    return render(
        request, visitor, "register_price.html", **_view_price(context, read_declaration(context, fields))
    )


@router.get("/register/odds")
def show_odds(
    request: Request,
    visitor: Steward,
    epsilon: Annotated[str, Query(max_length=40)] = "",
    delta: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    """Return what a budget means in odds, as a part of the form."""
    typed = TypedDeclaration("", (), epsilon=epsilon, delta=delta)
    return render(request, visitor, "odds.html", **_view_odds(typed))


def show_sources(
    request: Request, visitor: Visitor, context: ServerContext, problem: SfumatoError | None = None
) -> HTMLResponse:
    """Return the first step, with why a source was refused if one was."""
    facts: dict[str, Any] = {"sources": list_sources(context), "databases": list_databases(context)}
    return render(request, visitor, "register.html", problem=problem, **facts)


def show_form(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: TypedDeclaration,
    *,
    problem: SfumatoError | None = None,
    report: dict[str, Any] | None = None,
) -> HTMLResponse:
    """Return the form as it was typed, with a report or with what is wrong."""
    facts: dict[str, Any] = {
        "kinds": KINDS,
        "protects": PROTECTS,
        "twins": TWINS,
        "report": report,
        "formats": [*NUMBER_FORMATS, *DATE_FORMATS],
        **_view_odds(typed),
        **_view_price(context, typed),
    }
    return render(request, visitor, "register_form.html", problem=problem, **facts)


def _view_odds(typed: TypedDeclaration) -> dict[str, Any]:
    budget = typed.budget
    drawn = None if budget is None else draw_odds(budget.epsilon, budget.delta)
    weak = "" if budget is None else describe_weak_budget(budget.epsilon, budget.delta)
    return {"budget": budget, "budget_warning": weak, "odds": drawn, "icon_key": icon_key}


def _view_price(context: ServerContext, typed: TypedDeclaration) -> dict[str, Any]:
    """Return the form with what is left to those who pay for bounds that are chosen, if any are."""
    left = typed.find_left(context.lab) if typed.choice_price else None
    return {"form": typed, "left": left, "enough": left is None or typed.choice_epsilon <= left}


def _keep_file(context: ServerContext, file: UploadFile) -> str:
    kept = UploadedTable(context, (file.filename or "").rpartition(".")[2].lower())
    try:
        while part := file.file.read(_PART):
            kept.write(part)
        kept.close()
    except BaseException:
        kept.erase()
        raise
    return kept.name


def _publish_twin(context: ServerContext, table: str, twin: Twin | None) -> SfumatoError | None:
    """Publish a stand-in for a table that is registered; return why there is none, if so."""
    try:
        if twin is not None:
            context.lab.publish(twin, table=table)
    except SfumatoError as problem:
        return problem
    return None
