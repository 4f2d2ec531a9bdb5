"""Bar charts of answers with their error bars, by one key or by two."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import WHOLE, Rows, find_scale, label_text, number_format, to_numbers, to_rows
from sfumato.viz.theme import INK, MUTED, PALETTE, WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

MANY_CELLS: Final = 60
"""Most cells drawn as separate bars; more are drawn as a line with a band."""
MANY_PANELS: Final = 12
"""Most panels of a chart by several keys; of more, only the largest groups are drawn."""
MANY_LABELS: Final = 14
LONG_LABEL: Final = 12

Encoding = dict[str, Any]


def answer_bars(
    keys: Mapping[str, Sequence[Any]],
    values: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    name: str,
) -> Chart:
    """Return a chart of the number `name` of an answer by the columns of its keys.

    The key with an order of its own, else the one with the most values, is drawn along the axis. All other
    keys together are the colours or panels.
    """
    title = f"{name} by {', '.join(keys)}" if keys else name
    if not keys:
        return bars([name], values, low, high, title=title, y=name)
    along = max(keys, key=lambda key: (bool(find_scale(keys[key])), len(set(keys[key]))))
    others = {key: labels for key, labels in keys.items() if key != along}
    if not others:
        return bars(keys[along], values, low, high, title=title, x=along, y=name)
    series = list(zip(*others.values(), strict=True))
    return grouped_bars(
        keys[along], series, values, low, high, title=title, x=along, y=name, group=", ".join(others)
    )


def bars(
    labels: Sequence[Any],
    values: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    title: str,
    x: str = "",
    y: str = "",
) -> Chart:
    """Return a chart with one bar per label and its interval from `low` to `high`.

    Many or long labels make the bars horizontal. More than 60 cells become a line with a band, in the order
    of the labels if these are numbers or dates, else largest first.
    """
    cells = _cells({"label": [label_text(label) for label in labels]}, values, low, high)
    if len(cells) > MANY_CELLS:
        return make_chart(_ranked(cells, labels, x, y), title=title, subtitle=_tell_missing(labels, x))
    sideways = _sideways(cells)
    spec = {"data": {"values": cells}, **_size(cells, sideways), "layer": _layers(cells, sideways, x, y)}
    return make_chart(spec, title=title)


def _layers(cells: Rows, sideways: bool, x: str, y: str) -> list[dict[str, Any]]:
    return [_zero(sideways), _bar(cells, sideways, x, y), *_whiskers(cells, sideways)]


def _tell_missing(labels: Sequence[Any], x: str) -> str:
    """Return the line that says that a group for missing keys is not on the axis; else nothing."""
    left_out = find_scale(labels) and any(label is None for label in labels)
    return f"without rows whose {x or 'key'} is missing" if left_out else ""


def grouped_bars(
    labels: Sequence[Any],
    series: Sequence[Any],
    values: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    title: str,
    x: str = "",
    y: str = "",
    group: str = "",
) -> Chart:
    """Return a chart of grouped bars: one group per label, one colour per series. `group` titles the legend.

    With more series than colours, or more than 60 cells, every series has a panel of its own. If that makes
    too many panels, or too many names in one, the 60 largest groups are drawn as bars.
    """
    keys = {"label": [label_text(label) for label in labels], "series": [label_text(name) for name in series]}
    cells = _cells(keys, values, low, high)
    panels = Counter(keys["series"])
    if len(cells) <= MANY_CELLS and len(panels) <= len(PALETTE):
        return make_chart(_clusters(cells, x, y, group), title=title)
    if len(panels) <= MANY_PANELS and (find_scale(labels) or max(panels.values()) <= MANY_CELLS):
        return make_chart(_panels(cells, labels, x, y, group), title=title, subtitle=_tell_missing(labels, x))
    largest = sorted(cells, key=lambda cell: -(cell["value"] or 0))[:MANY_CELLS]
    named = [{**cell, "label": f"{cell['label']} · {cell['series']}"} for cell in largest]
    layers = _layers(named, True, ", ".join(filter(None, (x, group))), y)
    spec = {"data": {"values": named}, **_size(named, True), "layer": layers}
    return make_chart(spec, title=title, subtitle=f"the {len(named)} largest of {len(cells):,} groups")


def _cells(
    keys: dict[str, list[str]], values: ArrayLike, low: ArrayLike | None, high: ArrayLike | None
) -> Rows:
    columns: dict[str, Sequence[Any]] = {**keys, "value": to_numbers(values)}
    if low is not None and high is not None:
        columns |= {"low": to_numbers(low), "high": to_numbers(high)}
    return to_rows(columns)


def _sideways(cells: Rows) -> bool:
    labels = {cell["label"] for cell in cells}
    return len(labels) > MANY_LABELS or max(map(len, labels), default=0) > LONG_LABEL


def _size(cells: Rows, sideways: bool) -> dict[str, Any]:
    if sideways:
        return {"width": WIDTH - 120, "height": {"step": 26}}
    return {"width": min(WIDTH, max(160, 110 * len(cells))), "height": 360}


# ---- clusters and single bars ------------------------------------------------------------------------------


def _bar(cells: Rows, sideways: bool, x: str, y: str) -> dict[str, Any]:
    encoding = {**_axes(cells, sideways, x, y), "tooltip": _tooltip(cells, x, y)}
    return {
        "mark": {"type": "bar", "color": PALETTE[0], "cornerRadiusEnd": 2},
        "encoding": encoding,
    }


def _clusters(cells: Rows, x: str, y: str, group: str) -> dict[str, Any]:
    sideways = _sideways(cells)
    offset = {"yOffset" if sideways else "xOffset": {"field": "series", "type": "nominal", "sort": None}}
    colour = {"field": "series", "type": "nominal", "sort": None, "title": group or None}
    bar = _bar(cells, sideways, x, y)
    bar["encoding"] |= {**offset, "color": colour}
    whiskers = _whiskers(cells, sideways)
    for whisker in whiskers:
        whisker["encoding"] |= offset
    size = {"width": WIDTH - 120, "height": {"step": 16}} if sideways else {"width": WIDTH, "height": 360}
    return {"data": {"values": cells}, **size, "layer": [_zero(sideways), bar, *whiskers]}


def _axes(cells: Rows, sideways: bool, x: str, y: str) -> Encoding:
    axis = {"labelAngle": 0, "grid": False}
    scale = {"paddingInner": 0.3, "paddingOuter": 0.2}
    key = {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "title": x or None,
        "axis": axis,
        "scale": scale,
    }
    return _turned({"x": key, "y": _measure(cells, "value", y)}, sideways)


def _measure(cells: Rows, field: str, title: str) -> dict[str, Any]:
    shown = number_format([cell["value"] for cell in cells])
    axis = {"format": shown, "tickCount": 6, "tickMinStep": 1 if shown == WHOLE else 0, "grid": True}
    return {"field": field, "type": "quantitative", "title": title or None, "axis": axis}


def _whiskers(cells: Rows, sideways: bool) -> list[dict[str, Any]]:
    """Return the intervals as lines with two end ticks."""
    if not cells or "low" not in cells[0]:
        return []
    # Drawn as separate marks, so that no end depends on the width of a bar.
    key = {"field": "label", "type": "nominal", "sort": None}
    span = _turned(
        {"x": key, "y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}, sideways
    )
    ends = [
        _turned({"x": key, "y": {"field": end, "type": "quantitative"}}, sideways) for end in ("low", "high")
    ]
    stroke = {"color": INK, "opacity": 1}
    tick = {"type": "tick", "size": 8, "thickness": 1.5, "orient": "vertical" if sideways else "horizontal"}
    return [
        {"mark": {"type": "rule", "strokeWidth": 1.5, **stroke}, "encoding": span},
        *({"mark": {**tick, **stroke}, "encoding": end} for end in ends),
    ]


def _zero(sideways: bool) -> dict[str, Any]:
    return {"mark": {"type": "rule", "color": MUTED}, "encoding": _turned({"y": {"datum": 0}}, sideways)}


def _turned(encoding: Encoding, sideways: bool) -> Encoding:
    """Return the encoding with x and y exchanged if `sideways`."""
    turn = str.maketrans("xy", "yx")
    return {channel.translate(turn): field for channel, field in encoding.items()} if sideways else encoding


def _tooltip(cells: Rows, x: str, y: str) -> list[dict[str, Any]]:
    shown = number_format([cell["value"] for cell in cells])
    names = {"label": x or "key", "series": "group", "value": y or "value", "low": "from", "high": "to"}
    measures = ("value", "low", "high")
    present = [field for field in names if cells and field in cells[0]]
    return [
        {"field": field, "title": names[field], **({"format": shown} if field in measures else {})}
        for field in present
    ]


# ---- lines with bands --------------------------------------------------------------------------------------


def _ranked(cells: Rows, labels: Sequence[Any], x: str, y: str) -> dict[str, Any]:
    scale, named = find_scale(labels), x
    if not scale:
        cells = sorted(cells, key=lambda cell: -(cell["value"] or 0))
        labels, scale, named = range(1, len(cells) + 1), "quantitative", f"{x or 'cells'}, largest first"
    placed = _placed(cells, labels)
    layer = _band(placed, scale, named, x, y)
    return {"data": {"values": placed}, "width": WIDTH, "height": 360, "layer": layer}


def _placed(cells: Rows, places: Sequence[Any]) -> Rows:
    """Return the cells with their places on an axis; those without a place are left out."""
    return [
        {**cell, "place": str(place) if isinstance(place, str | date) else float(place)}
        for cell, place in zip(cells, places, strict=True)
        if place is not None
    ]


def _band(cells: Rows, scale: str, place: str, x: str, y: str) -> list[dict[str, Any]]:
    across = {
        "field": "place",
        "type": scale,
        "title": place or None,
        **({"scale": {"zero": False, "nice": False}} if scale == "quantitative" else {}),
        "axis": {"grid": False, "tickCount": 10},
    }
    line = {
        "mark": {
            "type": "line",
            "color": PALETTE[0],
            "strokeWidth": 1.5,
            "point": {"opacity": 0, "size": 40},
        },
        "encoding": {"x": across, "y": _measure(cells, "value", y), "tooltip": _tooltip(cells, x, y)},
    }
    if "low" not in cells[0]:
        return [_zero(False), line]
    span = {"x": across, "y": _measure(cells, "low", y), "y2": {"field": "high"}}
    band = {"mark": {"type": "area", "color": PALETTE[0], "opacity": 0.22}, "encoding": span}
    return [_zero(False), band, line]


def _panels(cells: Rows, labels: Sequence[Any], x: str, y: str, group: str) -> dict[str, Any]:
    order = list(dict.fromkeys(cell["series"] for cell in cells))
    columns = min(3, len(order))
    width, scale = (WIDTH - 40 * columns) // columns, find_scale(labels)
    placed = _placed(cells, labels) if scale else cells
    layers = _band(placed, scale, x, x, y) if scale else _narrow_bars(cells, width, x, y)
    return {
        "data": {"values": placed},
        "facet": {"field": "series", "type": "nominal", "sort": order, "title": group or None},
        "columns": columns,
        "spec": {"width": width, "height": max(160, width // 2), "layer": layers},
        "resolve": {"axis": {"x": "independent"}},
    }


def _narrow_bars(cells: Rows, width: int, x: str, y: str) -> list[dict[str, Any]]:
    letters = sum(len(label) + 1 for label in {cell["label"] for cell in cells})
    bar = _bar(cells, False, x, y)
    bar["encoding"]["x"]["axis"] |= {"labelAngle": 0 if letters * 8 < width else -90, "labelLimit": 80}
    return [_zero(False), bar, *_whiskers(cells, False)]
