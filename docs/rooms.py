"""Draw the rooms and what imports what, from the import graph; `docs/build.py` writes the picture.

A room stands above every room that it imports. Arrows that follow from others are left out: where cli imports
lab and lab imports curator, no arrow leads from cli to curator, though cli may import it too.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "sfumato"
WIDTH, HEIGHT, ACROSS, DOWN = 128, 44, 168, 84

Imports = dict[str, set[str]]


def room_imports() -> Imports:
    """Return the rooms that each room imports, for types alone too."""
    rooms = sorted(folder.parent.name for folder in PACKAGE.glob("*/__init__.py"))
    found: Imports = {room: set() for room in rooms}
    for room in rooms:
        for file in (PACKAGE / room).rglob("*.py"):
            found[room] |= _rooms_named(ast.parse(file.read_text(encoding="utf-8")), set(rooms))
        found[room].discard(room)
    return found


def _rooms_named(tree: ast.Module, rooms: set[str]) -> set[str]:
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "sfumato":
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato."):
            named.add((node.module or "").split(".")[1])
    return named & rooms


def depths(imports: Imports) -> dict[str, int]:
    """Return how many rooms lie above each on the longest way down to it."""
    known: dict[str, int] = {}

    def depth(room: str) -> int:
        if room not in known:
            above = (other for other, below in imports.items() if room in below)
            known[room] = 1 + max(map(depth, above), default=-1)
        return known[room]

    return {room: depth(room) for room in imports}


def direct(imports: Imports) -> Imports:
    """Leave out what is reached through another import."""
    below: Imports = {}
    for room in sorted(imports, key=depths(imports).__getitem__, reverse=True):
        below[room] = set().union(imports[room], *(below[other] for other in imports[room]))
    return {
        room: {other for other in others if not any(other in below[via] for via in others - {other})}
        for room, others in imports.items()
    }


def rooms_picture() -> str:
    """Return the picture as SVG."""
    imports = room_imports()
    level = depths(imports)
    ways = [_way(room, other, level) for room, others in direct(imports).items() for other in others]
    places = _places(imports, level, ways)
    arrows = [_arrow([places[stop] for stop in way]) for way in sorted(ways)]
    boxes = [_box(room, *places[room]) for room in imports]
    right, low = (max(values) for values in zip(*places.values(), strict=True))
    size = f'width="{right + WIDTH / 2 + 10:g}" height="{low + 30:g}"'
    return "\n".join([_HEAD.format(size=size), *arrows, *boxes, "</svg>", ""])


def _way(room: str, other: str, level: dict[str, int]) -> list[str]:
    """List the stops of an arrow, one in every row, so that a long one keeps a lane of its own."""
    between = range(level[room] + 1, level[other])
    return [room, *(f"{room} to {other} in row {row}" for row in between), other]


def _places(imports: Imports, level: dict[str, int], ways: list[list[str]]) -> dict[str, tuple[float, float]]:
    """Place rooms and lanes row by row, each below the middle of what leads to it."""
    rows: list[set[str]] = [{room for room in imports if level[room] == row} for row in range(len(imports))]
    for way in ways:
        for step, stop in enumerate(way[1:-1], level[way[0]] + 1):
            rows[step].add(stop)
    widest = max(map(len, rows))
    places: dict[str, tuple[float, float]] = {}
    for down, row in enumerate(rows):
        above = {
            stop: [places[way[at - 1]][0] for way in ways for at in range(1, len(way)) if way[at] == stop]
            for stop in row
        }
        ordered = sorted(row, key=lambda stop: (sum(above[stop]) / max(1, len(above[stop])), stop))
        for at, stop in enumerate(ordered):
            x = (widest / 2 + at - (len(row) - 1) / 2) * ACROSS
            places[stop] = (x, 30 + down * DOWN)
    return places


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="15">
<title>The rooms of sfumato: each imports only rooms below it</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>
<rect width="100%" height="100%" fill="#fff"/>"""


def _box(room: str, x: float, y: float) -> str:
    frame = f'x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}"'
    return (
        f'<rect {frame} rx="8" fill="#eef3f8" stroke="#456"/>'
        f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#123">{room}</text>'
    )


def _arrow(stops: list[tuple[float, float]]) -> str:
    """Draw a curve from the lower edge of one box, through its lane, to the upper edge of another."""
    (first, last), ends = (stops[0], stops[-1]), HEIGHT / 2
    points = [(first[0], first[1] + ends), *stops[1:-1], (last[0], last[1] - ends)]
    curve = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x1, y1), (x2, y2) in pairwise(points):
        bend = (y2 - y1) / 2
        curve += f"C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    return f'<path d="{curve}" fill="none" stroke="#888" marker-end="url(#tip)"/>'
