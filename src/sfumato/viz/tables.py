"""Small HTML tables for notebooks and pages. Every text in them is escaped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "right") -> str:
    """Return a table with a header row, whose cells are all aligned to one side."""
    # Notebooks align cells by a style of their own, so each cell says it again.
    head = "".join(f"<th style='text-align:{align}'>{escape(name)}</th>" for name in header)
    body = "".join(_line(row, align) for row in rows)
    return f"<table style='text-align:{align}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(sentences: Iterable[str]) -> str:
    """Return sentences, each as a paragraph."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def definition_table(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table with names on the left and their meaning on the right."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(meaning)}</td></tr>"
        for name, meaning in pairs
    )
    return f"<table><tbody>{rows}</tbody></table>"


class NamedLines(ABC):
    """Shown as lines that begin with a name, in text and in notebooks."""

    __slots__ = ()

    @abstractmethod
    def _lines(self) -> Sequence[tuple[str, str]]:
        """Return the names, and what is said under each."""

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return definition_table(self._lines())


def _line(cells: Sequence[str], align: str) -> str:
    return "<tr>" + "".join(f"<td style='text-align:{align}'>{escape(cell)}</td>" for cell in cells) + "</tr>"
