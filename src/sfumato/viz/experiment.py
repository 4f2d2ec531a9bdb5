"""The chart of the histogram experiment: cell errors by ε, beside theory and the talk's figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sfumato.errors.numbers import format_decimal, format_number
from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.theme import INK, MUTED, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sfumato.viz.columns import Rows

TALK: Final = {1.0: (1.02, 13.0), 0.1: (9.12, 109.0), 0.01: (98.56, 1041.0), 0.001: (1003.23, 9663.0)}
"""Average and maximum cell error for each ε, as Dwork and McSherry's talk printed them."""

OURS: Final = "measured here"
THEIRS: Final = "printed in the talk"
MEASURES: Final = ("average", "maximum")


def expected_error(epsilon: float) -> float:
    """Return E|noise| of integer Laplace noise: 2r/(1 − r²) with r = exp(−ε), which is 1/sinh ε."""
    return 1 / math.sinh(epsilon)


def histogram_errors(rows: Iterable[Mapping[str, float]]) -> Chart:
    """Return a chart of the average and maximum cell error for each ε, from rows with these three fields."""
    ordered = sorted(rows, key=lambda row: -row["epsilon"])
    points = [*_ours(ordered), *_talk(ordered)]
    up = _up([point["error"] for point in points if point["error"]])
    layers = [_theory(ordered, up), *_points(points, up)]
    return make_chart(
        {"width": WIDTH, "height": 460, "layer": layers},
        title="Error per cell of a noisy histogram",
        subtitle="The grey line is the expected average error, 2r/(1 − r²) with r = exp(−ε)",
    )


def _ours(rows: Sequence[Mapping[str, float]]) -> Rows:
    return [_point(row["epsilon"], OURS, measure, row[measure]) for row in rows for measure in MEASURES]


def _talk(rows: Sequence[Mapping[str, float]]) -> Rows:
    printed = [(row["epsilon"], TALK[row["epsilon"]]) for row in rows if row["epsilon"] in TALK]
    return [
        _point(epsilon, THEIRS, measure, error)
        for epsilon, errors in printed
        for measure, error in zip(MEASURES, errors, strict=True)
    ]


def _point(epsilon: float, source: str, measure: str, error: float) -> dict[str, Any]:
    shown = format_decimal(error, 2) if measure == "average" else format_decimal(error, 0)
    return {
        "epsilon": _name(epsilon),
        "source": source,
        "measure": measure,
        "error": float(error) or None,
        "shown": shown,
    }


def _name(epsilon: float) -> str:
    return f"ε = {format_number(epsilon)}"


def _theory(rows: Sequence[Mapping[str, float]], up: dict[str, Any]) -> dict[str, Any]:
    expected = [{"epsilon": _name(row["epsilon"]), "error": expected_error(row["epsilon"])} for row in rows]
    return {
        "data": {"values": expected},
        "mark": {"type": "rule", "strokeWidth": 3, "color": MUTED, "opacity": 0.45},
        "encoding": {
            "x": {**_across(), "bandPosition": 0},
            "x2": {"field": "epsilon", "bandPosition": 1},
            "y": up,
            "tooltip": {"field": "error", "title": "expected", "format": ",.4~r"},
        },
    }


def _points(points: Rows, up: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"x": _across(), "y": up, "xOffset": _kind("source")}
    colour = {**_kind("source"), "legend": {"symbolType": "circle"}}
    shape = {
        **_kind("measure"),
        "scale": {"domain": list(MEASURES), "range": ["circle", "triangle-up"]},
        "legend": {"symbolFillColor": MUTED},
    }
    symbol = {"type": "point", "filled": True, "size": 130, "opacity": 1}
    number = {"type": "text", "baseline": "bottom", "dy": -10, "fontSize": 13, "color": INK}
    data = {"values": points}
    return [
        {"data": data, "mark": symbol, "encoding": {**place, "color": colour, "shape": shape}},
        {"data": data, "mark": number, "encoding": {**place, "text": {"field": "shown"}}},
    ]


def _kind(field: str) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "sort": None, "title": None}


def _across() -> dict[str, Any]:
    return {
        "field": "epsilon",
        "type": "ordinal",
        "sort": None,
        "title": None,
        "axis": {"labelAngle": 0, "labelFontSize": 14},
        "scale": {"paddingInner": 0.2, "paddingOuter": 0.1},
    }


def _up(errors: Sequence[float]) -> dict[str, Any]:
    return {
        "field": "error",
        "type": "quantitative",
        "title": "error per cell (log scale)",
        "scale": {"type": "log", "nice": False, "padding": 36},
        "axis": {"format": ",~r", "values": _decades(errors)},
    }


def _decades(errors: Sequence[float]) -> list[float]:
    """Return the powers of ten within the range of the errors, for the grid lines."""
    if not errors:
        return []
    lowest, highest = math.ceil(math.log10(min(errors))), math.floor(math.log10(max(errors)))
    return [10.0**power for power in range(lowest, highest + 1)]
