"""Heat maps of a grid of cells, side by side: the true values, and the noisy ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sfumato.errors import UsageError
from sfumato.viz.chart import SHARPNESS, Chart, make_chart
from sfumato.viz.columns import require_same_length
from sfumato.viz.raster import encode_data_url, enlarge, shade
from sfumato.viz.theme import RAMP, WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

GAP: Final = 36
LARGEST_CELL: Final = 40
USUAL: Final = 0.99
"""Share of the cells that the colour scale covers; the largest would make all others look empty."""
MOST_CELLS: Final = 4_000_000

_ROUND: Final = tuple(figure * 10**power for power in range(7) for figure in (1, 2, 5))


@dataclass(frozen=True, slots=True)
class _Grid:
    """Positions of the cells, counted from the upper left corner, and the numbers at the edges."""

    column: NDArray[np.int64]
    line: NDArray[np.int64]
    left: int
    bottom: int
    width: int
    height: int

    def picture(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values as an image, with NaN where there is no cell."""
        cells = np.full((self.height, self.width), np.nan)
        cells[self.line, self.column] = values
        return cells

    def enlargement(self, panels: int) -> int:
        """Return the pixels per cell: an integer, so that all cells have one size, as large as fits."""
        room = (WIDTH - GAP) / _columns(panels) * SHARPNESS
        return min(LARGEST_CELL * SHARPNESS, max(1, int(room // max(self.width, self.height))))


def heatmap(
    x: ArrayLike,
    y: ArrayLike,
    panels: Mapping[str, ArrayLike],
    *,
    title: str,
    value: str = "",
    domain: tuple[float, float] | None = None,
) -> Chart:
    """Return heat maps of the same cells. `x` and `y` are integers; each panel has a value for every cell.

    All panels share one scale of colours: `domain`, or the range of all but the largest hundredth of the
    first panel. Values beyond it take the colour of its end. Cells that are not listed stay blank.
    """
    columns = {name: np.asarray(cells, dtype=float) for name, cells in panels.items()}
    grid = _grid(np.asarray(x, dtype=np.int64), np.asarray(y, dtype=np.int64), columns)
    low, high = domain or _range(next(iter(columns.values())))
    factor = grid.enlargement(len(columns))
    # Cells are drawn as one image per panel: a mark for each would make documents of many megabytes.
    images = [
        {
            "panel": name,
            "image": encode_data_url(enlarge(shade(grid.picture(cells), low, high, RAMP), factor)),
        }
        for name, cells in columns.items()
    ]
    return make_chart(_body(images, grid, factor / SHARPNESS, (low, high), value), title=title)


def _grid(x: NDArray[np.int64], y: NDArray[np.int64], columns: Mapping[str, NDArray[np.float64]]) -> _Grid:
    require_same_length({"x": x, "y": y, **columns})
    if not columns or not len(x):
        raise UsageError("SF-N203", "A heat map needs at least one panel and one cell.")
    left, bottom = int(x.min()), int(y.min())
    width, height = int(x.max()) - left + 1, int(y.max()) - bottom + 1
    if width * height > MOST_CELLS:
        raise UsageError("SF-N203", "The grid of a heat map is too large.", most=f"{MOST_CELLS:,} cells")
    return _Grid(x - left, height - 1 - (y - bottom), left, bottom, width, height)


def _range(cells: NDArray[np.float64]) -> tuple[float, float]:
    low, usual, high = np.nanquantile(cells, [0, USUAL, 1]).tolist()
    top = usual if usual > low else high
    return (low, top) if low < top else (low, low + 1)


def _columns(panels: int) -> int:
    return min(panels, 2)


def _body(
    images: list[dict[str, str]], grid: _Grid, step: float, domain: tuple[float, float], value: str
) -> dict[str, Any]:
    width, height = grid.width * step, grid.height * step
    mark = {"type": "image", "aspect": False, "width": width, "height": height}
    axes = {"x": _axis(grid.left, grid.width), "y": _axis(grid.bottom, grid.height)}
    order = [image["panel"] for image in images]
    return {
        "data": {"values": images},
        "facet": {"field": "panel", "type": "nominal", "sort": order, "title": None},
        "columns": _columns(len(images)),
        "spacing": GAP,
        "resolve": {"axis": {"x": "independent"}},
        "spec": {
            "width": width,
            "height": height,
            "layer": [
                {"mark": mark, "encoding": {**axes, "url": {"field": "image"}}},
                _key(domain, value),
            ],
        },
    }


def _axis(start: int, cells: int) -> dict[str, Any]:
    """Return an axis with integer labels, each in the middle of its cell."""
    scale = {"domain": [start - 0.5, start + cells - 0.5], "nice": False, "zero": False}
    axis = {"grid": False, "title": None, "format": "d", "values": _ticks(start, cells)}
    return {"datum": start + (cells - 1) / 2, "type": "quantitative", "scale": scale, "axis": axis}


def _ticks(start: int, cells: int) -> list[int]:
    """Return at most six round numbers for the ticks; fewer than six cells are all labelled."""
    step = next(step for step in _ROUND if cells <= 6 * step)
    return list(range(-(-start // step) * step, start + cells, step))


def _key(domain: tuple[float, float], value: str) -> dict[str, Any]:
    """Return an invisible mark that carries the colour legend, because an image has none of its own."""
    colour = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": list(domain), "range": list(RAMP)},
        "legend": {"title": value or None, "orient": "right", "gradientLength": 120, "tickCount": 4},
    }
    ends = [{"value": end} for end in domain]
    return {"data": {"values": ends}, "mark": {"type": "square", "opacity": 0}, "encoding": {"color": colour}}
