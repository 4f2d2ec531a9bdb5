"""An answer that was kept, as people see it: its table, chart, receipt, and how to ask it in Python."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.server.questions import list_releases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.keeping import KeptRelease
    from sfumato.viz import Chart

MOST_ROWS = 200
"""Rows of an answer that a page shows; the downloads have all of them."""
MOST_CHARTS = 4
_SHORT = 140


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """An answer in one line of a list."""

    entry: int
    question: str
    spend: str
    day: str
    analyst: str
    refines: int | None


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """An answer as a page shows it."""

    header: list[str]
    rows: list[list[str]]
    numbers: list[int]
    hidden: int
    charts: list[Chart]
    plain: str
    """What is shown where the answer has no columns."""
    parts: tuple[ReleaseView, ...] = ()
    """The answers of questions that were asked together."""


def list_release_lines(context: ServerContext, visitor: Visitor, limit: int) -> list[ReleaseLine]:
    """Return the newest answers of a visitor, or for a steward those of everyone, newest first."""
    return [
        describe_release(each, names=visitor.analyst is None)
        for each in list_releases(context, visitor, limit)
    ]


def describe_release(kept: KeptRelease, *, names: bool) -> ReleaseLine:
    """Return an answer in one line, with who asked if `names`."""
    text = write_question(kept.question)
    short = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
    who = (kept.analyst or "steward") if names else ""
    return ReleaseLine(
        kept.entry, short, write_spend(kept.spend), kept.at.date().isoformat(), who, kept.refines
    )


def view_release(answer: dict[str, Any]) -> ReleaseView:
    """Return the table and the charts of an answer."""
    columns, ends = answer.get("columns"), answer.get("interval") or {}
    if not columns:
        parts = tuple(map(view_release, answer.get("answers") or ()))
        charts = [chart for each in parts for chart in each.charts][:MOST_CHARTS]
        return ReleaseView([], [], [], 0, charts, str(answer.get("text", "")), parts)
    measured = [name for name in columns if f"{name}_low" in ends]
    header: list[str] = []
    cells: list[list[str]] = []
    numbers: list[int] = []
    for name, column in columns.items():
        if name in measured or _are_numbers(column):
            numbers.append(len(header))
        header.append(name)
        show = _show if name in measured else _show_key
        cells.append([show(value) for value in column])
        if name in measured and any(each is not None for each in ends[f"{name}_low"]):
            header.append(f"{name}, 95 % interval")
            cells.append(_show_ranges(ends[f"{name}_low"], ends[f"{name}_high"]))
    rows = [list(row) for row in zip(*cells, strict=True)]
    return ReleaseView(
        header, rows[:MOST_ROWS], numbers, max(0, len(rows) - MOST_ROWS), draw_charts(columns, ends), ""
    )


def draw_charts(columns: dict[str, list[Any]], ends: dict[str, list[Any]]) -> list[Chart]:
    """Return one chart of each number that has intervals, with the keys as labels."""
    measured = [name for name in columns if f"{name}_low" in ends]
    keys = [name for name in columns if name not in measured]
    charts = []
    for name in measured[:MOST_CHARTS]:
        low, high = ends[f"{name}_low"], ends[f"{name}_high"]
        known = [at for at, cell in enumerate(columns[name]) if None not in (cell, low[at], high[at])]
        if not known:
            continue
        labels = {key: [columns[key][at] for at in known] for key in keys}
        picked = ([column[at] for at in known] for column in (columns[name], low, high))
        charts.append(viz.answer_bars(labels, *picked, name=name))
    return charts


def write_question(question: dict[str, Any]) -> str:
    """Return a question as text: its SQL, or its steps as in Python."""
    if question.get("sql") is not None:
        return " ".join(str(question["sql"]).split())
    if question.get("together") is not None:
        return "; ".join(map(write_question, question["together"]))
    return f"{question.get('table', '')}{_write_steps(question)}"


def write_spend(spend: dict[str, Any]) -> str:
    """Return what was to be spent, in words."""
    names = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
    return (
        ", ".join(f"{names.get(name, name)} = {_write_value(value)}" for name, value in spend.items())
        or "nothing"
    )


def write_python(question: dict[str, Any], spend: dict[str, Any], address: str) -> str:
    """Return the program that asks the same over HTTP. The answer is kept, so running it costs nothing."""
    several = question.get("together")
    each = several if several is not None else [question]
    asked = ", ".join(map(_write_asked, each))
    asked, shown = (asked, "r") if several is None else (f"s.ask_together([{asked}])", "r[0]")
    return (
        "import sfumato as sf\n\n"
        f's = sf.connect("{address}", token="sfu_…")\n'
        f"r = {asked}.release({_arguments(spend)})\n"
        f"{shown}.to_pandas(intervals=True)"
    )


def _write_asked(question: dict[str, Any]) -> str:
    """Return one question as Python has it."""
    if question.get("sql") is None:
        return f"s.table({question.get('table', '')!r}){_write_steps(question)}"
    bounded = f".bounded({_arguments(question['bounded'])})" if question.get("bounded") else ""
    return f"s.sql({_quote(str(question['sql']))}){bounded}"


def list_receipt(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the receipt of an answer as names and texts."""
    receipt = answer.get("receipt") or {}
    names = {
        "entry": "entry",
        "table": "table",
        "unit": "protects",
        "charged": "charged",
        "head": "chain head",
    }
    lines = [(said, str(receipt[name])) for name, said in names.items() if name in receipt]
    if "guess" in receipt:
        # Rounded up, as the receipt itself is: it says "at most".
        share = format_decimal(math.ceil(Fraction(receipt["guess"]) * 1000) / 10, 1)
        said = f"by this answer alone, a 50:50 guess about one {receipt['unit']} is right at most {share} %"
        lines.append(("odds", f"{said} of the time"))
    return lines


def _write_steps(question: dict[str, Any]) -> str:
    steps = question.get("steps") or []
    return "".join(f".{name}({_call(args, more)})" for name, args, more in steps)


def _call(args: Sequence[Any], more: dict[str, Any]) -> str:
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in more.items())])


def _arguments(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())


def _quote(text: str) -> str:
    """Return a text as Python has it. Whoever copies it runs it, so nothing may end the quotes early."""
    plain = "\n" in text and '"' not in text and "\\" not in text and text.replace("\n", "").isprintable()
    return f'"""{text}"""' if plain else json.dumps(text, ensure_ascii=False)


def _write_value(value: Any) -> str:
    return (
        ", ".join(f"{name} ± {each}" for name, each in value.items())
        if isinstance(value, dict)
        else str(value)
    )


def _are_numbers(column: list[Any]) -> bool:
    return any(isinstance(each, int | float) and not isinstance(each, bool) for each in column)


def _label(value: Any) -> str:
    return "missing" if value is None else str(value)


def _show(value: Any) -> str:
    if value is None:
        return "–"
    return (
        format_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )


def _show_key(value: Any) -> str:
    return "missing" if value is None else _show(value)


def _show_ranges(low: list[Any], high: list[Any]) -> list[str]:
    pairs = zip(low, high, strict=True)
    return ["not known" if None in pair else f"{_show(pair[0])} to {_show(pair[1])}" for pair in pairs]
