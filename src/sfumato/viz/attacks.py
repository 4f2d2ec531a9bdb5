"""The chart of an attack: how often it is right against each way of answering, and the ceilings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import to_numbers, to_rows
from sfumato.viz.theme import INK, MUTED, PALETTE, WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

RAW: Final = "no guarantee"
PRIVATE: Final = "private"
_SUBTITLE: Final = (
    "The dashed line is a guess without any answer; a tick is the most that the guarantee allows"
)


def attack_bars(
    labels: Sequence[str],
    success: ArrayLike,
    ceilings: Sequence[float | None],
    *,
    baseline: float,
    title: str,
    x: str = "",
) -> Chart:
    """Return a chart with one bar for each way of answering, a tick at its ceiling, a line at the baseline.

    A ceiling of None means that nothing is guaranteed; such bars have a colour of their own.
    """
    kinds = [RAW if each is None else PRIVATE for each in ceilings]
    rows = to_rows(
        {"label": list(labels), "success": to_numbers(success), "ceiling": list(ceilings), "kind": kinds}
    )
    across = {"type": "quantitative", "title": x, "scale": {"domain": [0, 1]}, "axis": {"format": "%"}}
    up = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 360}}
    colour = {
        "field": "kind",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [RAW, PRIVATE], "range": [PALETTE[5], PALETTE[0]]},
    }
    bar = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {"x": {"field": "success", **across}, "y": up, "color": colour},
    }
    tick = {
        "transform": [{"filter": "datum.ceiling !== null"}],
        "mark": {"type": "tick", "color": INK, "thickness": 3, "size": 20},
        "encoding": {"x": {"field": "ceiling", **across}, "y": up},
    }
    line: dict[str, Any] = {
        "data": {"values": [{"baseline": baseline}]},
        "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 4], "strokeWidth": 1.5},
        "encoding": {"x": {"field": "baseline", **across}},
    }
    body = {
        "width": WIDTH - 240,
        "height": {"step": 32},
        "data": {"values": rows},
        "layer": [bar, tick, line],
    }
    return make_chart(body, title=title, subtitle=_SUBTITLE)
