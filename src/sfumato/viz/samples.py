"""Grids of sample images: one line for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sfumato.errors import UsageError
from sfumato.viz.chart import SHARPNESS, Chart, make_chart
from sfumato.viz.raster import encode_data_url, enlarge
from sfumato.viz.theme import WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

EACH: Final = 12
"""Images of a class that are shown."""


def sample_grid(
    images: ArrayLike, labels: Sequence[Any], *, title: str, bounds: tuple[float, float] | None = None
) -> Chart:
    """Return a picture of images, (rows, height, width) or with colours as a further axis, by their labels.

    `bounds` are the values of black and white; without them, the least and the greatest that occur.
    """
    pixels, names = np.asarray(images, dtype=np.float64), np.asarray(labels)
    if pixels.ndim not in (3, 4) or len(pixels) != len(names) or not len(pixels):
        raise UsageError("SF-N203", "A grid of images needs images, and a label for each.")
    low, high = bounds or (float(np.nanmin(pixels)), float(np.nanmax(pixels)))
    grey = np.clip((np.nan_to_num(pixels) - low) / ((high - low) or 1.0), 0, 1)
    lines = [_line(grey[names == label][:EACH]) for label in dict.fromkeys(sorted(names.tolist(), key=str))]
    mosaic = np.concatenate(lines, axis=0)
    factor = max(1, int(WIDTH * SHARPNESS // mosaic.shape[1]))
    height, width = (side * factor / SHARPNESS for side in mosaic.shape[:2])
    place = {"x": {"value": width / 2}, "y": {"value": height / 2}, "url": {"field": "image"}}
    body = {
        "data": {"values": [{"image": encode_data_url(enlarge(mosaic, factor))}]},
        "width": width,
        "height": height,
        "mark": {"type": "image", "aspect": False, "width": width, "height": height},
        "encoding": place,
    }
    return make_chart(body, title=title)


def _line(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the images of a class side by side, as red, green, blue and opacity; empty places are clear."""
    colours = images[..., None].repeat(3, axis=-1) if images.ndim == 3 else images[..., :3]
    if colours.shape[-1] < 3:
        colours = colours[..., :1].repeat(3, axis=-1)
    height, width = colours.shape[1:3]
    line = np.zeros((height, EACH * width, 4), dtype=np.uint8)
    for at, each in enumerate(colours):
        line[:, at * width : (at + 1) * width, :3] = np.rint(255 * each)
        line[:, at * width : (at + 1) * width, 3] = 255
    return line
