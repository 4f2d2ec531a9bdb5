"""Small HTML tables for notebooks and pages. Every text in them is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a header row; all cells are aligned to the right."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(_line(row) for row in rows)
    return f"<table style='text-align:right'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def definition_table(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table with names on the left and their meaning on the right."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(meaning)}</td></tr>"
        for name, meaning in pairs
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _line(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
