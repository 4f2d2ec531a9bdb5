"""Regret over time: average regret by steps, with the bound of each method dashed in the same colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import Rows, to_numbers, to_rows
from sfumato.viz.theme import PALETTE, WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

HEIGHT: Final = 420
MEASURED: Final = "measured"
BOUND: Final = "bound"
_STROKES: Final = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolSize": 300}


def regret_curves(
    methods: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *, title: str, subtitle: str = ""
) -> Chart:
    """Return a chart of steps, average regret and its bound for each method, on logarithmic axes.

    What is not above zero cannot be drawn there; lines break.
    """
    rows = [row for name, curves in methods.items() for row in _points(name, *curves)]
    names = list(methods)
    scale = {"type": "log", "nice": False}
    encoding: dict[str, Any] = {
        "x": {"field": "steps", "type": "quantitative", "title": "steps", "scale": scale},
        "y": {"field": "regret", "type": "quantitative", "title": "average regret", "scale": scale},
        "color": {
            "field": "method",
            "type": "nominal",
            "title": None,
            "legend": _STROKES,
            "scale": {"domain": names, "range": [PALETTE[at % len(PALETTE)] for at in range(len(names))]},
        },
        "strokeDash": {
            "field": "kind",
            "type": "nominal",
            "title": None,
            "legend": _STROKES,
            "scale": {"domain": [MEASURED, BOUND], "range": [[1, 0], [5, 4]]},
        },
    }
    body = {
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": encoding,
    }
    return make_chart(body, title=title, subtitle=subtitle)


def _points(name: str, steps: ArrayLike, measured: ArrayLike, bound: ArrayLike) -> Rows:
    places = to_numbers(steps)
    found: Rows = []
    for kind, values in ((MEASURED, measured), (BOUND, bound)):
        heights = [each if each and each > 0 else None for each in to_numbers(values)]
        labels = {"method": [name] * len(places), "kind": [kind] * len(places)}
        found += to_rows({**labels, "steps": places, "regret": heights})
    return found
