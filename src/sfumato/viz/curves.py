"""Charts of guarantees: trade-off functions, posterior beliefs, and step functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sfumato.errors.numbers import format_number
from sfumato.viz.chart import Chart, make_chart
from sfumato.viz.columns import Rows, to_numbers, to_rows
from sfumato.viz.theme import MUTED, PALETTE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SIDE: Final = 420


def tradeoff_curve(alpha: ArrayLike, misses: ArrayLike, *, note: str = "") -> Chart:
    """Return a trade-off curve. On the grey diagonal a test is no better than a coin."""
    points = to_rows({"alpha": to_numbers(alpha), "misses": to_numbers(misses)})
    ends: Rows = [{"alpha": 0, "misses": 1}, {"alpha": 1, "misses": 0}]
    across, up = _axis("alpha", "false positive rate"), _axis("misses", "false negative rate")
    line = _line(points, across, up, {"color": PALETTE[0], "strokeWidth": 2.5})
    return make_chart(_square(_line(ends, across, up, _GREY), line), title=_TEST, subtitle=note)


def profile_curve(epsilon: ArrayLike, delta: ArrayLike, *, note: str = "") -> Chart:
    """Return a privacy profile: the least δ for every ε, on a logarithmic axis."""
    values = zip(to_numbers(epsilon), to_numbers(delta), strict=True)
    # A logarithm has no place for a δ of 0, where the guarantee is pure.
    shown = [(one, other) for one, other in values if other] or [(0.0, 1.0)]
    points = to_rows({"epsilon": [one for one, _ in shown], "delta": [other for _, other in shown]})
    across = {"field": "epsilon", "type": "quantitative", "title": "ε", "scale": {"nice": False}}
    up = {
        "field": "delta",
        "type": "quantitative",
        "title": "δ",
        "scale": {"type": "log"},
        "axis": {"format": "e"},
    }
    line = _line(points, across, up, {"color": PALETTE[0], "strokeWidth": 2.5})
    return make_chart({"width": SIDE, "height": SIDE, **line}, title=_PROFILE, subtitle=note)


def belief_curve(prior: ArrayLike, low: ArrayLike, high: ArrayLike, *, loss: float, chance: float) -> Chart:
    """Return the range of beliefs after the release, for every belief before it."""
    points = to_rows({"prior": to_numbers(prior), "low": to_numbers(low), "high": to_numbers(high)})
    ends: Rows = [{"prior": 0, "low": 0}, {"prior": 1, "low": 1}]
    across = _axis("prior", "belief before the release that you are in the data")
    up = _axis("low", "belief after the release")
    band = {
        "data": {"values": points},
        "mark": {"type": "area", "color": PALETTE[0], "opacity": 0.3},
        "encoding": {"x": across, "y": up, "y2": {"field": "high"}},
    }
    rarely = f", except with a chance of at most {format_number(chance, 3)}" if chance else ""
    subtitle = f"odds change by a factor of at most e^{format_number(loss)}{rarely}"
    return make_chart(_square(band, _line(ends, across, up, _GREY)), title=_BELIEF, subtitle=subtitle)


def step_curve(cuts: ArrayLike, values: ArrayLike, *, x: str, y: str) -> Chart:
    """Return the chart of a function that is constant between cuts, with one value before the first cut."""
    at: list[float] = np.asarray(cuts, dtype=float).tolist()
    height = to_numbers(values)
    wide = (at[-1] - at[0]) / 10 or 1.0
    points = to_rows({"x": [at[0] - wide, *at, at[-1] + wide], "y": [*height, height[-1]]})
    close = {"zero": False, "nice": False}
    across = {"field": "x", "type": "quantitative", "title": x, "scale": close}
    up = {"field": "y", "type": "quantitative", "title": y}
    mark = {"color": PALETTE[0], "strokeWidth": 2.5, "interpolate": "step-after"}
    return make_chart({"width": SIDE, "height": SIDE, **_line(points, across, up, mark)}, title=f"{y} by {x}")


def spent_curve(steps: ArrayLike, spent: ArrayLike, *, title: str, subtitle: str = "") -> Chart:
    """Return the chart of what a run had cost after so many steps."""
    points = to_rows({"steps": to_numbers(steps), "spent": to_numbers(spent)})
    across = {"field": "steps", "type": "quantitative", "title": "steps", "scale": {"nice": False}}
    up = {"field": "spent", "type": "quantitative", "title": "ε so far"}
    line = _line(points, across, up, {"color": PALETTE[0], "strokeWidth": 2.5})
    return make_chart({"width": SIDE, "height": SIDE, **line}, title=title, subtitle=subtitle)


_TEST: Final = "Errors of the best test for one person"
_PROFILE: Final = "The least δ for every ε"
_BELIEF: Final = "What an observer can come to believe"
_GREY: Final = {"color": MUTED, "strokeWidth": 1.5, "strokeDash": [4, 4]}


def _square(*layers: dict[str, Any]) -> dict[str, Any]:
    return {"width": SIDE, "height": SIDE, "layer": list(layers)}


def _line(points: Rows, x: dict[str, Any], y: dict[str, Any], mark: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {"values": points},
        "mark": {"type": "line", **mark},
        "encoding": {"x": x, "y": y},
    }


def _axis(field: str, title: str) -> dict[str, Any]:
    scale = {"domain": [0, 1], "nice": False}
    axis = {"format": "%", "tickCount": 5}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
