"""The Ask page: a question in SQL or by choices, its price and error before paying, and the release."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import AfterValidator

from sfumato.errors import SfumatoError, UsageError
from sfumato.lab.session import Session
from sfumato.server.access import Role, Visitor, allow, open_session, open_session_if_any
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.ask_form import AskForm
from sfumato.server.pages.builder import COMPARISONS, FUNCTIONS, BuiltQuestion
from sfumato.server.pages.quote_view import view_quote
from sfumato.server.pages.release_view import ReleaseView, view_release
from sfumato.server.pages.rendering import is_partial, render
from sfumato.server.questions import (
    quote_question,
    quote_tuning,
    release_question,
    spell_bounds,
    tune_question,
)
from sfumato.server.wire import QuestionBody, SpendBody

if TYPE_CHECKING:
    from sfumato.server.pages.rehearsing import Rehearsals

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
Typed = Annotated[str, Form(max_length=200)]
# Browsers end the lines of a form with more than was typed.
Text = Annotated[str, Form(max_length=100_000), AfterValidator(lambda typed: typed.replace("\r\n", "\n"))]


def read_form(
    sql: Text = "",
    spend: Typed = "epsilon",
    epsilon: Typed = "0.1",
    delta: Typed = "",
    error: Typed = "",
    error_name: Typed = "n",
    given: Typed = "",
    groups: Typed = "",
    rows: Typed = "",
    tune: Typed = "",
    preview: Typed = "",
    form_key: Typed = "",
) -> AskForm:
    """Return the fields of the form, as they were typed."""
    bounds = groups, rows, tune
    form = AskForm(sql, spend, epsilon, delta, error, error_name, given, *bounds, bool(preview))
    return replace(form, form_key=form_key) if form_key else form


def read_choices(
    table: Typed = "",
    by: Annotated[tuple[str, ...], Form()] = (),
    function: Typed = "",
    column: Typed = "",
    where: Typed = "",
    comparison: Typed = "=",
    value: Annotated[str, Form(max_length=1000)] = "",
) -> BuiltQuestion:
    """Return what was chosen in the builder."""
    return BuiltQuestion(table, by, function, column, where, comparison, value)


Asked = Annotated[AskForm, Depends(read_form)]


@router.get("/ask")
def show_ask(
    request: Request, visitor: Asker, context: Context, sql: str = "", epsilon: str = "0.1", preview: str = ""
) -> HTMLResponse:
    """Return the page, with a question in it if the address names one."""
    form = AskForm(sql=sql[:20_000], epsilon=epsilon[:40], preview=bool(preview))
    return show_quoted(request, visitor, context, form, asked=bool(sql))


@router.post("/ask")
def quote(request: Request, visitor: Asker, context: Context, form: Asked) -> HTMLResponse:
    """Return the page with price and expected error; htmx gets that part alone."""
    return show_quoted(request, visitor, context, form, asked=True)


@router.post("/ask/build")
def build(
    request: Request,
    visitor: Asker,
    context: Context,
    built: Annotated[BuiltQuestion, Depends(read_choices)],
) -> HTMLResponse:
    """Return the page with the question that the choices make."""
    form = AskForm()
    try:
        session = open_session(context, visitor)
        form = replace(form, sql=built.write_sql(session.table(built.table).describe()))
    except SfumatoError as problem:
        return show_page(request, visitor, context, form, problem=problem, built=built)
    return show_quoted(request, visitor, context, form, asked=True, built=built)


@router.post("/ask/tune")
async def tune(request: Request, visitor: Asker, context: Context, form: Asked) -> HTMLResponse:
    """Charge for picking the bounds of the question, and show its price and error with them."""
    return await context.turns.run(_tune, request, visitor, context, form, whose=visitor.name)


def _tune(request: Request, visitor: Visitor, context: ServerContext, form: AskForm) -> HTMLResponse:
    try:
        question, tuned = form.read_question(), form.read_tuned()
        if tuned is None:
            raise UsageError(
                "SF-W183", "A number is needed here, above zero.", field="ε for tuning", try_="0.05"
            )
        tune_question(context, visitor, question, tuned, f"{form.make_key()} tune", form.read_spend())
    except SfumatoError as problem:
        return show_page(request, visitor, context, form, problem=problem)
    return show_quoted(request, visitor, context, form, asked=True)


@router.post("/ask/release", response_model=None)
async def release(
    request: Request, visitor: Asker, context: Context, form: Asked
) -> HTMLResponse | RedirectResponse:
    """Charge for the question and show its answer; what is refused is shown beside the question."""
    return await context.turns.run(_release, request, visitor, context, form, whose=visitor.name)


def _release(
    request: Request, visitor: Visitor, context: ServerContext, form: AskForm
) -> HTMLResponse | RedirectResponse:
    try:
        question, spend = form.read_question(), form.read_spend()
        answer = release_question(context, visitor, question, spend, form.make_key())
    except SfumatoError as problem:
        return show_page(request, visitor, context, form, problem=problem)
    if answer["entry"] is None:
        return render(request, visitor, "facts.html", text=answer["text"], sql=form.sql)
    return RedirectResponse(f"/releases/{answer['entry']}", 303)


def show_quoted(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    form: AskForm,
    *,
    asked: bool,
    built: BuiltQuestion | None = None,
) -> HTMLResponse:
    """Return the page with the price of what is in the form, or with why there is none."""
    if not asked or not form.sql.strip():
        return show_page(request, visitor, context, form, built=built)
    try:
        question, spend = form.read_question(), form.read_spend()
        session = open_session(context, visitor)
        tuning = price_tuning(session, question, spend)
        if tuning is not None:  # until it is bought, there are no bounds to quote the question with
            question = question.model_copy(update={"tuned": None})
        quoted = quote_question(session, question, spend)
        preview = None
        if form.preview and quoted["admitted"] and quoted.get("price") is not None:
            preview = rehearse_question(request, context, visitor, spell_bounds(session, question), spend)
    except SfumatoError as problem:
        return show_page(request, visitor, context, form, problem=problem, built=built)
    found: dict[str, Any] = {"quote": view_quote(quoted), "preview": preview}
    found["tuning"] = None if tuning is None else view_quote(tuning)
    return show_page(request, visitor, context, form, built=built, **found)


def price_tuning(session: Session, question: QuestionBody, spend: SpendBody) -> dict[str, Any] | None:
    """Return the quote for picking a question's bounds; None where none are wished, or they are bought."""
    if question.tuned is None:
        return None
    quoted = quote_tuning(session, question, question.tuned, spend)
    return None if quoted["free"] else quoted


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    form: AskForm,
    *,
    problem: SfumatoError | None = None,
    built: BuiltQuestion | None = None,
    **found: Any,
) -> HTMLResponse:
    """Return the page, or for htmx the part with the price."""
    facts: dict[str, Any] = {"form": form, "quote": None, "tuning": None, "preview": None, **found}
    if is_partial(request):
        # Half a question while it is typed is no failed request; a browser would report one.
        return render(request, visitor, "quote.html", status=200, problem=problem, **facts)
    session = open_session_if_any(context, visitor)
    tables = () if session is None else session.tables.tables
    facts["has_quota"] = session is not None
    chosen = built or BuiltQuestion(tables[0].name if tables else "")
    facts |= {"tables": tables, "built": chosen, "functions": FUNCTIONS, "comparisons": COMPARISONS}
    return render(request, visitor, "ask.html", problem=problem, **facts)


def rehearse_question(
    request: Request, context: ServerContext, visitor: Visitor, question: QuestionBody, spend: SpendBody
) -> ReleaseView:
    """Return the answer that the twin gives, to be shown beside the price."""
    rehearsals: Rehearsals = request.app.state.rehearsals
    return view_release(rehearsals.answer_question(context, visitor, question, spend))
