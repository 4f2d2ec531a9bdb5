"""The Streams page: what was released tick by tick; the steward begins streams and releases ticks."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from sfumato import viz
from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_number
from sfumato.server.access import Role, Visitor, open_session, open_session_if_any
from sfumato.server.context import ServerContext
from sfumato.server.facts.typed import (
    read_optional_number,
    read_typed_number,
    read_typed_whole,
    wrong_field_error,
)
from sfumato.server.pages.forms import (
    Answered,
    Asker,
    Context,
    Fields,
    Steward,
    StewardFields,
    answer_form,
)
from sfumato.server.pages.rendering import render
from sfumato.server.pages.tables import quote_name
from sfumato.server.remote import streaming
from sfumato.server.remote.sent_values import StreamBody
from sfumato.server.wire import SpendBody, write_quote

router = APIRouter()

MEASURES = {
    "count": "number of rows",
    "sum": "sum of a column",
    "mean": "average of a column",
    "units": "number of people who are there",
}
_WHOLES = {
    "horizon": "number of ticks",
    "participations": "ticks of one person",
    "separation": "ticks between them",
    "contribution": "rows in one tick",
    "window": "window",
}
_TEXTS = ("table", "time", "every", "measure", "column", "by", "start", "where", "epsilon", "delta", "blocks")
_DEFAULTS = {"measure": "count", "participations": "1", "separation": "1", "contribution": "1"}
EVERY = {"": "as the column has it", "week": "week", "month": "month", "quarter": "quarter", "year": "year"}
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
        quote = write_quote(streaming.find_stream(context, visitor, _read(context, visitor, fields)).quote())
    except SfumatoError as problem:
        return show_page(request, visitor, context, fields, problem=problem)
    return show_page(request, visitor, context, fields, quote=quote["text"])


@router.post("/streams/run", response_model=None)
def run_stream(request: Request, visitor: Steward, context: Context, fields: StewardFields) -> Answered:
    """Release the ticks of a stream that are complete; the first of them is charged for all."""

    def run() -> str:
        streaming.run_stream(context, visitor, _read(context, visitor, fields), None)
        return "/streams?done=yes"

    return answer_form(run, lambda problem: show_page(request, visitor, context, fields, problem=problem))


@router.post("/streams/{place}/run", response_model=None)
def run_begun_stream(request: Request, visitor: Steward, context: Context, place: str) -> Answered:
    """Release the next ticks of a stream that was begun; it is named by its request."""

    def run() -> str:
        begun = streaming.list_streams(context, visitor)
        known = {each["released"]["stream"]: each["stream"] for each in begun}
        if place not in known:
            raise wrong_field_error("stream", "one that was begun")
        streaming.run_stream(context, visitor, StreamBody(**known[place]), None)
        return "/streams?done=yes"

    return answer_form(run, lambda problem: show_page(request, visitor, context, problem=problem))


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    typed: dict[str, str] | None = None,
    *,
    problem: SfumatoError | None = None,
    quote: str = "",
    notice: str = "",
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    session = open_session_if_any(context, visitor)
    tables = () if session is None else session.tables.tables
    begun = [] if session is None else streaming.list_streams(context, visitor)
    facts: dict[str, Any] = {
        "streams": [view_stream(each) for each in begun],
        "tables": [(each.name, [column.name for column in each.columns]) for each in tables],
        "typed": dict.fromkeys((*_TEXTS, *_WHOLES), "") | _DEFAULTS | (typed or {}),
        "measures": MEASURES,
        "every": EVERY,
        "has_blocks": any(each.blocks is not None for each in context.lab.tables()),
        "is_steward": visitor.role is Role.STEWARD,
        "quote": quote,
        "notice": notice,
    }
    return render(request, visitor, "streams.html", problem=problem, **facts)


def view_stream(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a stream: its question, and the newest ticks with their intervals."""
    released = found["released"]
    groups = [", ".join(each) or "value" for each in released["groups"]] or ["value"]
    rows = []
    for tick, values, halves in zip(
        released["ticks"], released["values"], released["half_widths"], strict=True
    ):
        pairs = zip(_as_list(values), _as_list(halves), strict=True)
        rows.append(
            [tick, *(f"{format_number(value, 6)} ± {format_number(half, 3)}" for value, half in pairs)]
        )
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


def read_stream(fields: dict[str, str], unit: str = "") -> StreamBody:
    """Return the stream that was typed; `unit` is the column that names people."""
    spend: dict[str, Any] = {"epsilon": str(read_typed_number(fields.get("epsilon", ""), "ε"))}
    delta = read_optional_number(fields.get("delta", ""), "δ")
    spend |= {} if delta is None else {"delta": str(delta)}
    wholes = {
        name: read_typed_whole(fields.get(name, "") or _DEFAULTS.get(name, ""), said)
        for name, said in _WHOLES.items()
        if fields.get(name, "").strip() or name != "window"
    }
    start = fields.get("start", "").strip()
    try:
        return StreamBody(
            table=fields.get("table", ""),
            time=_write_time(fields.get("time", ""), fields.get("every", "")),
            measure=_write_measure(fields.get("measure", "count"), fields.get("column", ""), unit),
            start=(int(start) if start.lstrip("-").isdecimal() else start) or None,
            by=[fields["by"]] if fields.get("by") else [],
            where=fields.get("where", "").strip() or None,
            blocks=bool(fields.get("blocks")),
            spend=SpendBody(**spend),
            **wholes,
        )
    except (ValidationError, ValueError):
        raise wrong_field_error("number of ticks", "365") from None


def _read(context: ServerContext, visitor: Visitor, fields: dict[str, str]) -> StreamBody:
    """Return the stream that was typed, about a table that the visitor may ask about."""
    table = open_session(context, visitor).table(fields.get("table", "")).describe().name
    return read_stream(fields, context.lab.table(table).unit.column or "")


def _write_measure(measure: str, column: str, unit: str) -> str:
    """Return what is measured, in SQL."""
    of = unit if measure == "units" else column
    if measure not in MEASURES or (measure != "count" and not of):
        raise wrong_field_error("what is measured", "the number of rows, or the sum of a column")
    name = quote_name(of)
    written = {"sum": f"SUM({name})", "mean": f"AVG({name})", "units": f"COUNT(DISTINCT {name})"}
    return written.get(measure, "COUNT(*)")


def _write_time(column: str, every: str) -> str:
    """Return what a tick is: the column, or the weeks or months of its days."""
    if every not in EVERY:
        raise wrong_field_error("a tick is a", ", ".join(filter(None, EVERY)))
    return f"DATE_TRUNC('{every}', {quote_name(column)})" if every else column


def _as_list(values: Any) -> list[float]:
    return list(values) if isinstance(values, list) else [values]
