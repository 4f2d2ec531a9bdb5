"""Answers: a list of them, and each with its numbers, intervals, receipt, downloads and refinement."""

import io
import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.server.access import Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.spreadsheets import differs_for_spreadsheets, write_csv
from sfumato.server.pages.ask_form import AskForm
from sfumato.server.pages.forms import Answered, Asker, Context, answer_form
from sfumato.server.pages.release_view import (
    describe_release,
    list_receipt,
    list_release_lines,
    view_release,
    write_python,
    write_question,
)
from sfumato.server.pages.rendering import render
from sfumato.server.questions import read_release, refine_release

router = APIRouter()

Entry = Annotated[int, Path(ge=0, le=2**53)]

MOST_LISTED = 500


@router.get("/releases")
def list_answers(request: Request, visitor: Asker, context: Context) -> HTMLResponse:
    """Return the newest answers of the visitor, or for a steward those of everyone."""
    lines = list_release_lines(context, visitor, MOST_LISTED)
    return render(request, visitor, "releases.html", releases=lines)


@router.get("/releases/{entry}")
def show_answer(entry: Entry, request: Request, visitor: Asker, context: Context) -> HTMLResponse:
    """Return one answer."""
    return _show(request, visitor, context, entry)


@router.post("/releases/{entry}/refine", response_model=None)
async def refine(
    entry: Entry,
    request: Request,
    visitor: Asker,
    context: Context,
    epsilon: Annotated[str, Form(max_length=200)] = "",
    delta: Annotated[str, Form(max_length=200)] = "",
) -> Answered:
    """Ask the same again with fresh noise, charge for it, and show both answers put together."""

    def pay() -> str:
        spend = AskForm(epsilon=epsilon, delta=delta).read_spend()
        return f"/releases/{refine_release(context, visitor, entry, spend, key=None)['entry']}"

    def show(problem: SfumatoError) -> HTMLResponse:
        return _show(request, visitor, context, entry, problem)

    return await context.turns.run(answer_form, pay, show, whose=visitor.name)


@router.get("/releases/{entry}/{name}")
def download(
    entry: Entry, name: str, visitor: Asker, context: Context, sheet: Annotated[str, Query(max_length=9)] = ""
) -> Response:
    """Return an answer as a file: answer.csv, answer.parquet, answer.json or receipt.json.

    With `sheet` a CSV is one for spreadsheets.
    """
    kept = read_release(context, visitor, entry)
    writers = {
        "answer.csv": ("text/csv; charset=utf-8", _write_sheet if sheet else _write_exact_csv),
        "answer.parquet": ("application/vnd.apache.parquet", _write_parquet),
        "answer.json": ("application/json", _write_json),
        "receipt.json": ("application/json", _write_receipt),
    }
    if name not in writers:
        raise PolicyError("SF-U101", "There is nothing at this address.", known=", ".join(writers))
    kind, write = writers[name]
    headers = {"Content-Disposition": f'attachment; filename="sfumato-{entry}-{name}"'}
    return Response(write(kept.answer), media_type=kind, headers=headers)


def make_answer_table(answer: dict[str, Any]) -> Any:
    """Return an answer as an Arrow table in which the ends of each interval follow its number."""
    import pyarrow as pa

    columns, ends = answer.get("columns"), answer.get("interval") or {}
    if not columns:
        raise UsageError("SF-N117", "This answer is not a table.", try_="download it as JSON")
    beside: dict[str, list[Any]] = {}
    for name, column in columns.items():
        beside[name] = column
        beside |= {end: ends[end] for end in (f"{name}_low", f"{name}_high") if end in ends}
    return pa.table(beside)


def _show(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    entry: int,
    problem: SfumatoError | None = None,
) -> HTMLResponse:
    kept = read_release(context, visitor, entry)
    facts: dict[str, Any] = {
        "kept": kept,
        "line": describe_release(kept, names=visitor.analyst is None),
        "question": kept.question.get("sql") or write_question(kept.question),
        "answer": view_release(kept.answer),
        "has_sheet": bool(kept.answer.get("columns"))
        and differs_for_spreadsheets(make_answer_table(kept.answer)),
        "bias": kept.answer.get("bias") or [],
        "changed": kept.question.get("sql") or _join_sql(kept.question),
        "receipt": list_receipt(kept.answer),
        "python": write_python(kept.question, kept.spend, context.settings.address),
        "may_refine": kept.analyst == (visitor.analyst or "") and bool(kept.answer.get("columns")),
        "epsilon": kept.spend.get("epsilon", 0.1),
    }
    return render(request, visitor, "release.html", problem=problem, **facts)


def _join_sql(question: dict[str, Any]) -> str:
    """Return the SQL of questions that were asked together, divided by semicolons."""
    return ";\n".join(each["sql"] for each in question.get("together") or () if each.get("sql"))


def _write_exact_csv(answer: dict[str, Any]) -> bytes:
    return write_csv(make_answer_table(answer))


def _write_sheet(answer: dict[str, Any]) -> bytes:
    return write_csv(make_answer_table(answer), for_spreadsheets=True)


def _write_parquet(answer: dict[str, Any]) -> bytes:
    import pyarrow.parquet as parquet

    buffer = io.BytesIO()
    parquet.write_table(make_answer_table(answer), buffer)
    return buffer.getvalue()


def _write_json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False, indent=2).encode()


def _write_receipt(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer.get("receipt") or {}, ensure_ascii=False, indent=2).encode()
