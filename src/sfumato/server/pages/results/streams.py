"""The Streams page: what was released tick by tick; the steward begins streams and releases ticks."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from sfumato import viz
from sfumato.errors import SfumatoError
from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.typed import read_optional_number, read_typed_number, wrong_field_error
from sfumato.server.pages.rendering import render
from sfumato.server.pages.results.fields import Fields
from sfumato.server.problems import find_status
from sfumato.server.remote import streaming
from sfumato.server.remote.sent_values import StreamBody
from sfumato.server.wire import SpendBody, write_quote

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]
_NAMES = (
    "table",
    "time",
    "measure",
    "column",
    "by",
    "horizon",
    "start",
    "participations",
    "epsilon",
    "delta",
)
_SHOWN_TICKS = 60
"""Ticks of a stream that its table shows, the newest."""


@router.get("/streams")
def show_streams(request: Request, visitor: Asker, context: Context, done: str = "") -> HTMLResponse:
    """Return the streams that were begun, of tables that the visitor may ask about."""
    notice = "Ticks that are complete were released." if done else ""
    return show_page(request, visitor, context, notice=notice)


@router.post("/streams/quote")
def quote_stream(request: Request, visitor: Asker, context: Context, fields: Fields) -> HTMLResponse:
    """Return what all ticks of a stream would cost together. Nothing is read."""
    try:
        quote = write_quote(streaming.find_stream(context, visitor, read_stream(fields)).quote())
    except SfumatoError as problem:
        return show_page(request, visitor, context, fields, problem=problem)
    return show_page(request, visitor, context, fields, quote=quote["text"])


@router.post("/streams/run", response_model=None)
def run_stream(
    request: Request, visitor: Steward, context: Context, fields: Fields
) -> HTMLResponse | RedirectResponse:
    """Release the ticks of a stream that are complete; the first of them is charged for all."""
    try:
        streaming.run_stream(context, visitor, read_stream(fields), None)
    except SfumatoError as problem:
        return show_page(request, visitor, context, fields, problem=problem)
    return RedirectResponse("/streams?done=yes", 303)


@router.post("/streams/{place}/run", response_model=None)
def run_begun_stream(
    request: Request, visitor: Steward, context: Context, place: str
) -> HTMLResponse | RedirectResponse:
    """Release the next ticks of a stream that was begun; it is named by its request."""
    known = {each["released"]["stream"]: each["stream"] for each in streaming.list_streams(context, visitor)}
    try:
        if place not in known:
            raise wrong_field_error("stream", "one that was begun")
        streaming.run_stream(context, visitor, StreamBody(**known[place]), None)
    except SfumatoError as problem:
        return show_page(request, visitor, context, problem=problem)
    return RedirectResponse("/streams?done=yes", 303)


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str] | None = None,
    **found: Any,
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    tables = open_session(context, visitor).tables.tables
    problem = found.get("problem")
    facts = {
        "streams": [view_stream(each) for each in streaming.list_streams(context, visitor)],
        "tables": [(each.name, [column.name for column in each.columns]) for each in tables],
        "typed": dict.fromkeys(_NAMES, "") | {"measure": "count", "participations": "1"} | (typed or {}),
        "is_steward": visitor.role is Role.STEWARD,
        "problem": None,
        "quote": "",
        **found,
    }
    status = 200 if problem is None else find_status(problem)
    return render(request, visitor, "streams.html", status=status, **facts)


def view_stream(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a stream: its question, and the newest ticks with their intervals."""
    released = found["released"]
    groups = [", ".join(each) or "value" for each in released["groups"]] or ["value"]
    rows = []
    for tick, values, halves in zip(
        released["ticks"], released["values"], released["half_widths"], strict=True
    ):
        pairs = zip(_as_list(values), _as_list(halves), strict=True)
        rows.append([tick, *(f"{value:,.6g} ± {half:,.3g}" for value, half in pairs)])
    firsts = [
        (_as_list(value)[0], _as_list(half)[0])
        for value, half in zip(released["values"], released["half_widths"], strict=True)
    ]
    chart = None
    if rows:
        low, high = [value - half for value, half in firsts], [value + half for value, half in firsts]
        title = "Values with their 95 % intervals" + (f": {groups[0]}" if len(groups) > 1 else "")
        chart = viz.bars(released["ticks"], [value for value, _ in firsts], low, high, title=title, x="tick")
    return {
        "chart": chart,
        "id": released["stream"],
        "question": released["question"],
        "header": ["Tick", *groups],
        "rows": rows[-_SHOWN_TICKS:][::-1],
        "released": len(rows),
        "horizon": released["horizon"],
    }


def read_stream(fields: dict[str, str]) -> StreamBody:
    """Return the stream that was typed."""
    column, measure = fields.get("column", ""), fields.get("measure", "count")
    if measure not in ("count", "sum", "mean") or (measure != "count" and not column):
        raise wrong_field_error("what is measured", "the number of rows, or the sum of a column")
    spend: dict[str, Any] = {"epsilon": str(read_typed_number(fields.get("epsilon", ""), "ε"))}
    delta = read_optional_number(fields.get("delta", ""), "δ")
    spend |= {} if delta is None else {"delta": str(delta)}
    written = {"count": "COUNT(*)", "sum": f'SUM("{column}")', "mean": f'AVG("{column}")'}[measure]
    start = fields.get("start", "").strip()
    try:
        return StreamBody(
            table=fields.get("table", ""),
            time=fields.get("time", ""),
            measure=written,
            horizon=int(read_typed_number(fields.get("horizon", ""), "number of ticks")),
            start=(int(start) if start.lstrip("-").isdigit() else start) or None,
            by=[fields["by"]] if fields.get("by") else [],
            participations=int(read_typed_number(fields.get("participations", "1"), "ticks of one person")),
            spend=SpendBody(**spend),
        )
    except ValidationError:
        raise wrong_field_error("number of ticks", "365") from None


def _as_list(values: Any) -> list[float]:
    return list(values) if isinstance(values, list) else [values]
