"""Charts of a classifier that was measured: its ROC curve and its calibration, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import require_same_length, to_numbers, to_rows
from sfumato.viz.theme import MUTED, PALETTE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SIDE: Final = 420
_INTERVALS: Final = "95 % intervals cover the noise, and not the choice of rows"


def roc_curve(wrongly: ArrayLike, rightly: ArrayLike, low: ArrayLike, high: ArrayLike) -> Chart:
    """Return the ROC curve through shares of both classes above each threshold, with a band of intervals.

    On the grey diagonal a classifier is no better than a coin.
    """
    return _draw(
        {"x": wrongly, "y": rightly, "low": low, "high": high},
        across="share of the first class that scores higher",
        up="share of the second class that scores higher",
        title="ROC curve",
        connected=True,
    )


def calibration_curve(predicted: ArrayLike, observed: ArrayLike, low: ArrayLike, high: ArrayLike) -> Chart:
    """Return how often the second class was seen where it was predicted with a chance, with intervals.

    On the grey diagonal predictions are right as often as they say.
    """
    return _draw(
        {"x": predicted, "y": observed, "low": low, "high": high},
        across="predicted chance of the second class",
        up="share of rows that are of it",
        title="Calibration",
        connected=False,
    )


def _draw(columns: dict[str, ArrayLike], *, across: str, up: str, title: str, connected: bool) -> Chart:
    numbers = {name: to_numbers(each) for name, each in columns.items()}
    require_same_length(numbers)
    points = {"values": to_rows(numbers)}
    diagonal = {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]}
    x, y, low = _axis("x", across), _axis("y", up), _axis("low", up)
    whisker = {
        "mark": {"type": "rule", "color": PALETTE[0], "opacity": 0.6},
        "encoding": {"x": x, "y": low, "y2": {"field": "high"}},
    }
    band = {
        "mark": {"type": "area", "color": PALETTE[0], "opacity": 0.25},
        "encoding": {"x": x, "y": low, "y2": {"field": "high"}},
    }
    kind = {"type": "line", "strokeWidth": 2.5, "point": True} if connected else {"type": "point"}
    mark: dict[str, Any] = {"color": PALETTE[0], "filled": not connected, **kind}
    layers: list[dict[str, Any]] = [
        {
            "data": diagonal,
            "mark": {"type": "line", "color": MUTED, "strokeWidth": 1.5, "strokeDash": [4, 4]},
            "encoding": {"x": x, "y": y},
        },
        {"data": points, **(band if connected else whisker)},
        {"data": points, "mark": mark, "encoding": {"x": x, "y": y}},
    ]
    return make_chart({"width": SIDE, "height": SIDE, "layer": layers}, title=title, subtitle=_INTERVALS)


def _axis(field: str, title: str) -> dict[str, Any]:
    scale = {"domain": [0, 1], "nice": False}
    axis = {"format": "%", "tickCount": 5}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
