"""The common style of all charts: colours, fonts and grid lines."""

from __future__ import annotations

from typing import Any, Final

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
"""Liberation Sans comes with the renderer, so a chart looks the same on a machine without fonts."""

INK: Final = "#1F2933"
MUTED: Final = "#5F6B76"
GRID: Final = "#E4E9EE"
EMPTY: Final = "#EDF1F4"
"""Colour of what is empty: the part of a budget that is left, cells without a value."""

PALETTE: Final = ("#338EC1", "#EBB233", "#33B18F", "#D694B9", "#78C3ED", "#DD7E33")
"""Okabe and Ito's colours without the two that vanish on white or look like the ink, and softened by a fifth
so that a dark error bar shows on each."""

RAMP: Final = ("#F6F8FA", "#CFE1EE", "#8FBDDB", "#4690C2", "#0A5F97", "#05355A")
"""From almost white to dark blue: its lightness falls all the way, so it also reads in grey."""

WIDTH: Final = 760
"""Width of the plotting area; with axes and margins a chart is about 900 pixels wide."""

_TEXT: Final[dict[str, Any]] = {"labelFont": FONT, "titleFont": FONT, "titleColor": MUTED, "labelColor": INK}

CONFIG: Final[dict[str, Any]] = {
    "background": "white",
    "padding": 20,
    "font": FONT,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "group",
        "color": INK,
        "fontSize": 18,
        "fontWeight": "bold",
        "subtitleColor": MUTED,
        "subtitleFontSize": 13,
        "subtitlePadding": 6,
        "offset": 18,
    },
    "axis": {
        **_TEXT,
        "domain": False,
        "ticks": False,
        "gridColor": GRID,
        "labelFontSize": 13,
        "labelPadding": 8,
        "labelLimit": 260,
        "labelSeparation": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 12,
    },
    "axisBand": {"grid": False},
    "header": {
        **_TEXT,
        "titleAnchor": "start",
        "titleFontWeight": "normal",
        "titleFontSize": 13,
        "labelFontSize": 14,
        "labelFontWeight": "bold",
        "labelPadding": 8,
    },
    "legend": {
        **_TEXT,
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "orient": "top",
        "symbolType": "square",
        "symbolStrokeWidth": 0,
        "offset": 8,
        "labelLimit": 260,
    },
    "range": {"category": list(PALETTE), "ramp": list(RAMP), "heatmap": list(RAMP)},
}
