"""Learning curves: error by number of rows or by ε, one line per method and one panel per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import label_text, require_same_length, to_numbers, to_rows
from sfumato.viz.theme import PALETTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

WIDTH: Final = 330
HEIGHT: Final = 260


def learning_curves(
    panels: Sequence[Any],
    methods: Sequence[Any],
    x: ArrayLike,
    error: ArrayLike,
    spread: ArrayLike,
    *,
    title: str,
    across: str,
    up: str = "error",
) -> Chart:
    """Return a chart of the error against `x`, with a band of `spread` on either side."""
    middle, width = to_numbers(error), to_numbers(spread)
    columns: dict[str, list[Any]] = {
        "panel": list(map(label_text, panels)),
        "method": list(map(label_text, methods)),
        "x": to_numbers(x),
        "error": middle,
        "low": [max(0.0, (m or 0.0) - (w or 0.0)) for m, w in zip(middle, width, strict=True)],
        "high": [(m or 0.0) + (w or 0.0) for m, w in zip(middle, width, strict=True)],
    }
    require_same_length(columns)
    names = list(dict.fromkeys(columns["method"]))
    colour = {
        "field": "method",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": list(PALETTE[: len(names)])},
    }
    place = {"field": "x", "type": "quantitative", "title": across}
    body = {
        "data": {"values": to_rows(columns)},
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": None},
        "columns": 2,
        "spec": {
            "width": WIDTH,
            "height": HEIGHT,
            "layer": [part(place, colour, up) for part in (_band, _line)],
        },
    }
    return make_chart(body, title=title)


def _band(place: dict[str, Any], colour: dict[str, Any], up: str) -> dict[str, Any]:
    height = {"field": "low", "type": "quantitative", "title": up}
    return {
        "mark": {"type": "area", "opacity": 0.25},
        "encoding": {"x": place, "y": height, "y2": {"field": "high"}, "color": colour},
    }


def _line(place: dict[str, Any], colour: dict[str, Any], up: str) -> dict[str, Any]:
    height = {"field": "error", "type": "quantitative", "title": up}
    return {
        "mark": {"type": "line", "point": True, "strokeWidth": 2.5},
        "encoding": {"x": place, "y": height, "color": colour},
    }
