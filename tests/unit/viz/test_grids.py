"""Maps: the pixels are the cells, in place and in one scale of colours."""

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.viz.raster import encode_png, enlarge, shade
from sfumato.viz.theme import RAMP

SIDE = 255


def decode(file: bytes) -> np.ndarray:
    """The pixels of a PNG file that has one data chunk and unfiltered lines."""
    width, height = struct.unpack(">II", file[16:24])
    start = file.index(b"IDAT") + 4
    size = struct.unpack(">I", file[start - 8 : start - 4])[0]
    lines = np.frombuffer(zlib.decompress(file[start : start + size]), dtype=np.uint8)
    lines = lines.reshape(height, 1 + 4 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 4)


def panel(spec: dict, place: int) -> np.ndarray:
    url = spec["data"]["values"][place]["image"]
    return decode(base64.b64decode(url.removeprefix("data:image/png;base64,")))


def colour(text: str) -> list[int]:
    return [*bytes.fromhex(text[1:]), 255]


def test_png_holds_the_pixels() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    assert np.array_equal(decode(encode_png(pixels)), pixels)


def test_enlarging_repeats_pixels() -> None:
    pixels = np.arange(16, dtype=np.uint8).reshape(2, 2, 4)
    large = enlarge(pixels, 3)
    assert large.shape == (6, 6, 4)
    assert np.array_equal(large[1::3, 1::3], pixels)


def test_shades_run_along_the_ramp_and_stop_at_its_ends() -> None:
    shades = shade(np.array([[-9.0, 0.0, 5.0, 99.0, np.nan]]), 0, 5, RAMP)[0]
    assert shades[:4].tolist() == [colour(RAMP[0]), colour(RAMP[0]), colour(RAMP[-1]), colour(RAMP[-1])]
    assert shades[4, 3] == 0


def test_up_is_up_and_cells_not_listed_are_blank() -> None:
    spec = viz.heatmap([3, 4, 3], [7, 7, 8], {"p": [0, 10, 5]}, title="t", domain=(0, 10)).spec
    pixels = panel(spec, 0)
    step = pixels.shape[0] // 2
    corners = pixels[step // 2 :: step, step // 2 :: step]
    assert corners[1, 0].tolist() == colour(RAMP[0])
    assert corners[1, 1].tolist() == colour(RAMP[-1])
    assert corners[0, 1, 3] == 0


def test_axes_name_the_middle_of_each_cell() -> None:
    layer = viz.heatmap([3, 4, 3], [7, 7, 8], {"p": [0, 10, 5]}, title="t").spec["spec"]["layer"][0]
    assert layer["encoding"]["x"]["scale"]["domain"] == [2.5, 4.5]
    assert layer["encoding"]["x"]["axis"]["values"] == [3, 4]


def test_panels_keep_their_order_and_share_the_first_ones_scale() -> None:
    spec = viz.heatmap([0, 1], [0, 0], {"true": [0, 4], "noisy": [4, 400]}, title="t").spec
    assert spec["facet"]["sort"] == ["true", "noisy"]
    assert panel(spec, 1)[0, 0].tolist() == panel(spec, 0)[0, -1].tolist() == colour(RAMP[-1])


def test_the_fullest_hundredth_does_not_set_the_scale() -> None:
    x = np.arange(1000)
    values = np.where(x < 5, 1e6, x % 4)
    key = viz.heatmap(x, x * 0, {"p": values}, title="t").spec["spec"]["layer"][1]
    assert key["encoding"]["color"]["scale"]["domain"] == [0, 3]


def test_a_flat_map_still_has_a_scale() -> None:
    key = viz.heatmap([0, 1], [0, 0], {"p": [2, 2]}, title="t").spec["spec"]["layer"][1]
    assert key["encoding"]["color"]["scale"]["domain"] == [2, 3]


def test_the_experiments_grid_is_drawn_small_and_whole(tmp_path: Path) -> None:
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(SIDE), np.arange(SIDE)))
    true = (x + y) % 7
    chart = viz.heatmap(x, y, {"true": true, "noisy": -true}, title="t")
    assert panel(chart.spec, 0).shape[0] % SIDE == 0
    assert len(chart.to_json()) < 400_000
    assert chart.save(tmp_path / "map.png").stat().st_size > 10_000


def test_a_map_of_nothing_is_refused() -> None:
    for x, panels in (([], {"p": []}), ([1], {})):
        with pytest.raises(UsageError) as error:
            viz.heatmap(x, x, panels, title="t")
        assert error.value.code == "SF-N203"


def test_a_grid_too_large_to_draw_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        viz.heatmap([0, 10**9], [0, 10**9], {"p": [1, 2]}, title="t")
    assert error.value.code == "SF-N203"


def test_panels_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        viz.heatmap([0, 1], [0, 0], {"p": [1]}, title="t")
    assert error.value.code == "SF-N203"
