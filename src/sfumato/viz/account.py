"""Budget charts: what was spent and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sfumato.errors.numbers import format_decimal, format_number
from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import to_numbers, to_rows
from sfumato.viz.theme import EMPTY, PALETTE, WIDTH

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sfumato.viz.columns import Rows

LEFT: Final = "left"
OTHERS: Final = "others"


def budget_bar(spent: Mapping[str, float] | float, cap: float, *, title: str, unit: str = "ε") -> Chart:
    """Return one bar for a budget. `spent` is one number, or the amount for each name."""
    parts = _parts(dict(spent) if isinstance(spent, Mapping) else {"spent": spent})
    left = max(0.0, cap - sum(parts.values()))
    segments = _segments({**parts, LEFT: left})
    subtitle = (
        f"{unit} = {format_number(left)} of {format_number(cap)} "
        f"left ({format_decimal(100 * left / cap, 0)} %)"
    )
    return make_chart(_body(segments, [*parts, LEFT], cap, unit), title=title, subtitle=subtitle)


def budget_bars(
    used: Mapping[str, float], *, title: str = "Share of each privacy budget that is used"
) -> Chart:
    """Return one bar for each account, filled up to the share of it that is used, from 0 to 1."""
    rows = [{"account": name, "used": min(1.0, max(0.0, share))} for name, share in used.items()]
    whole = {"mark": {"type": "bar", "color": EMPTY}, "encoding": {"y": _account(), "x": {"datum": 1}}}
    part = {
        "mark": {"type": "bar", "color": PALETTE[0]},
        "encoding": {"y": _account(), "x": _share(), "tooltip": {"field": "used", "format": ".1%"}},
    }
    body = {"data": {"values": rows}, "width": WIDTH - 120, "height": {"step": 44}, "layer": [whole, part]}
    return make_chart(body, title=title)


def burn_down(
    charges: ArrayLike, left: ArrayLike, *, cap: float, title: str = "What was left after each charge"
) -> Chart:
    """Return what was left of a budget after so many charges, as steps from the cap downwards."""
    at, height = to_numbers(charges), to_numbers(left)
    # The last step is drawn a little beyond its charge, else it could not be seen.
    beyond = (at[-1] or 0) + max(0.5, 0.04 * (at[-1] or 0))
    points = to_rows({"charges": [*at, beyond], "left": [*height, height[-1]]})
    across = {
        "field": "charges",
        "type": "quantitative",
        "title": "charges so far",
        "axis": {"grid": False, "tickMinStep": 1, "tickCount": 6, "format": "d"},
        "scale": {"nice": False},
    }
    scale = {"domain": [0, cap], "nice": False}
    up = {
        "field": "left",
        "type": "quantitative",
        "title": "ε left",
        "scale": scale,
        "axis": {"tickCount": 5},
    }
    tooltip = [{"field": "charges"}, {"field": "left", "title": "ε left", "format": ".4~g"}]
    body = {
        "data": {"values": points},
        "width": WIDTH,
        "height": 180,
        "mark": {
            "type": "area",
            "color": PALETTE[0],
            "opacity": 0.28,
            "interpolate": "step-after",
            "line": {"color": PALETTE[0], "strokeWidth": 2},
        },
        "encoding": {"x": across, "y": up, "tooltip": tooltip},
    }
    return make_chart(body, title=title)


def _account() -> dict[str, Any]:
    return {"field": "account", "type": "nominal", "sort": None, "title": None, "scale": {"padding": 0.3}}


def _share() -> dict[str, Any]:
    axis = {"format": "%", "grid": False, "tickCount": 5}
    scale = {"domain": [0, 1]}
    return {"field": "used", "type": "quantitative", "title": None, "axis": axis, "scale": scale}


def _parts(spent: Mapping[str, float]) -> dict[str, float]:
    """Return the amounts, largest first; those beyond the number of colours are added up as "others"."""
    ordered = sorted(spent.items(), key=lambda part: -part[1])
    if len(ordered) <= len(PALETTE):
        return dict(ordered)
    named, rest = ordered[: len(PALETTE) - 1], ordered[len(PALETTE) - 1 :]
    return {**dict(named), OTHERS: sum(amount for _, amount in rest)}


def _segments(parts: Mapping[str, float]) -> Rows:
    """Return where each part of the bar begins and ends."""
    ends: Rows = []
    start = 0.0
    for name, amount in parts.items():
        ends.append({"name": name, "amount": amount, "start": start, "end": start + amount})
        start += amount
    return ends


def _body(segments: Rows, names: list[str], cap: float, unit: str) -> dict[str, Any]:
    colours = [*PALETTE[: len(names) - 1], EMPTY]
    axis = {"grid": False, "tickCount": 6, "ticks": True, "format": "~g"}
    scale = {"domain": [0, max(cap, segments[-1]["end"])], "nice": False}
    return {
        "data": {"values": segments},
        "width": WIDTH,
        "height": 44,
        "mark": {"type": "bar", "height": 44, "stroke": "white", "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "start", "type": "quantitative", "title": unit, "axis": axis, "scale": scale},
            "x2": {"field": "end"},
            "color": {
                "field": "name",
                "type": "nominal",
                "title": None,
                "scale": {"domain": names, "range": colours},
            },
            "tooltip": [{"field": "name", "title": "spent by"}, {"field": "amount", "format": ".4~g"}],
        },
    }
