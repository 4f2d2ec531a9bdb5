"""Icon arrays: chances as so many people out of a hundred, drawn as SVG that needs no script and no style.

Parts differ by shape as well as by colour. Every part has a class, so that a page can colour it to its own
theme; in a notebook the colours of the theme are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from sfumato.viz.theme import EMPTY, INK, MUTED, PALETTE

if TYPE_CHECKING:
    from collections.abc import Sequence

CELL: Final = 20
"""Width and height of the square that one person stands in."""
_HEAD: Final = 3.4
_MARGIN: Final = 2


@dataclass(frozen=True, slots=True)
class IconPart:
    """Some of the people of an icon array, and what they have in common."""

    label: str
    count: int
    shape: str = "full"
    """How a person of this part is drawn: "full", "ringed" (full, within a ring) or "outline"."""


def icon_array(parts: Sequence[IconPart], *, title: str, columns: int = 20, identity: str = "icons") -> str:
    """Return an SVG picture of people, part after part, row after row.

    A screen reader is told the title and how many people each part has. `identity` must differ between
    pictures of one page.
    """
    shapes = [part.shape for part in parts for _ in range(part.count)]
    rows = -(-len(shapes) // columns)
    width, height = columns * CELL + 2 * _MARGIN, max(1, rows) * CELL + 2 * _MARGIN
    drawn = "".join(_draw_person(shape, at % columns, at // columns) for at, shape in enumerate(shapes))
    said = "; ".join(f"{part.count} {part.label}" for part in parts)
    return (
        f'<svg class="icons" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-labelledby="{escape(identity)}-title {escape(identity)}-facts">'
        f'<title id="{escape(identity)}-title">{escape(title)}</title>'
        f'<desc id="{escape(identity)}-facts">{escape(said)}</desc>{drawn}</svg>'
    )


def icon_key(shape: str) -> str:
    """Return one person of this shape alone, for the line of a legend; screen readers pass over it."""
    person = _draw_person(shape, 0, 0)
    side = CELL + 2 * _MARGIN
    return (
        f'<svg class="icon-key" viewBox="0 0 {side} {side}" width="{side}" height="{side}" '
        f'xmlns="http://www.w3.org/2000/svg" aria-hidden="true">{person}</svg>'
    )


def _draw_person(shape: str, column: int, row: int) -> str:
    x, y = _MARGIN + (column + 0.5) * CELL, _MARGIN + row * CELL
    fill, line = {"full": (INK, INK), "ringed": (PALETTE[5], PALETTE[5])}.get(shape, (EMPTY, MUTED))
    ring = f'<circle cx="{x:g}" cy="{y + 10:g}" r="9.4" fill="none" stroke-width="1.2"/>'
    head = f'<circle cx="{x:g}" cy="{y + 5.8:g}" r="{_HEAD}"/>'
    body = f'<path d="M{x - 5:g} {y + 17:g}v-2.2a5 5 0 0 1 10 0v2.2z"/>'
    return (
        f'<g class="icon-{shape}" fill="{fill}" stroke="{line}" stroke-width="0.8">'
        f"{ring if shape == 'ringed' else ''}{head}{body}</g>"
    )
