"""Arrays into small PNG images, for charts with too many cells to draw one mark for each."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def shade(cells: NDArray[np.float64], low: float, high: float, ramp: Sequence[str]) -> NDArray[np.uint8]:
    """Return red, green, blue and opacity for each cell, clipped to the ramp; NaN is transparent."""
    stops = np.array([_rgb(colour) for colour in ramp], dtype=float)
    place = np.clip((np.nan_to_num(cells) - low) / (high - low), 0, 1)
    knots = np.linspace(0, 1, len(stops))
    channels = [np.interp(place, knots, stops[:, channel]) for channel in range(3)]
    opacity = np.where(np.isnan(cells), 0, 255)
    return np.stack([*channels, opacity], axis=-1).round().astype(np.uint8)


def enlarge(pixels: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Return each pixel as a square of `factor` × `factor`, so that a viewer has nothing to blur."""
    return pixels.repeat(factor, axis=0).repeat(factor, axis=1)


def encode_data_url(pixels: NDArray[np.uint8]) -> str:
    """Return an image as a data URL."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode("ascii")


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return the PNG file of an array of (height, width, 4) bytes."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
