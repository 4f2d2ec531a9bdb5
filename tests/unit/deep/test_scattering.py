"""Scattering features: one image at a time, blind to what is constant, and turned with the image."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from sfumato.deep import scatter  # noqa: E402
from sfumato.deep.scattering import ANGLES  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402


def test_each_image_has_features_of_its_own() -> None:
    images = torch.rand(300, 16, 20, generator=torch.Generator().manual_seed(1))
    together = scatter(images)
    assert together.shape == (300, 81, 4, 5)
    torch.testing.assert_close(together[7:8], scatter(images[7:8]))


def test_a_constant_image_has_its_mean_and_no_waves() -> None:
    features = scatter(torch.full((1, 16, 16), 0.7))
    torch.testing.assert_close(features[:, 0], torch.full((1, 4, 4), 0.7))
    assert features[:, 1:].abs().max() < 1e-5


def test_waves_are_found_in_their_direction() -> None:
    """A wave along the rows excites the wavelet of that direction most; turned, the one at a right angle."""
    rows = torch.arange(32.0)
    wave = torch.sin(rows * 0.75 * torch.pi)[:, None].expand(32, 32)
    found = scatter(torch.stack([wave, wave.T]))[:, 1 : 1 + ANGLES].mean((2, 3)).argmax(1)
    assert found.tolist() == [0, ANGLES // 2]


def test_features_barely_move_with_a_small_shift() -> None:
    image = torch.rand(1, 32, 32, generator=torch.Generator().manual_seed(2))
    shifted = image.roll(1, 2)
    moved = (scatter(image) - scatter(shifted)).norm() / scatter(image).norm()
    assert moved < 0.5 * (image - shifted).norm() / image.norm()


def test_other_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match="SF-E176"):
        scatter(torch.rand(3, 30, 30))
