"""The colours can be told apart by people who see fewer of them, and the ramp by its lightness alone."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.viz.theme import EMPTY, INK, PALETTE, RAMP

# Machado, Oliveira and Fernandes (2009), complete deficiency, on linear RGB.
SIGHT = {
    "full": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue cones": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
NOTICEABLE = 10.0  # differences of about 2.3 can just be seen side by side


def linear(colour: str) -> np.ndarray:
    channels = np.array(list(bytes.fromhex(colour[1:]))) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_any_two_colours_differ_for_every_sight(sight: str) -> None:
    seen = [lab(SIGHT[sight] @ linear(colour)) for colour in (*PALETTE, EMPTY)]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > NOTICEABLE


def test_error_bars_show_on_every_colour() -> None:
    ink = lab(linear(INK))[0]
    assert all(lab(linear(colour))[0] - ink > 35 for colour in PALETTE)


def test_the_ramp_darkens_all_the_way() -> None:
    lightness = [lab(linear(colour))[0] for colour in RAMP]
    assert all(lighter - darker > 5 for lighter, darker in pairwise(lightness))
