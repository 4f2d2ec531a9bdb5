"""Training with fixed seeds, for tests of what is learnt and not of the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@pytest.fixture
def seeded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, batches and draws of a diffusion model are the same in every run of a test."""
    import torch

    from sfumato.deep import run
    from sfumato.deep.batches import PoissonBatches
    from sfumato.deep.generators import diffusion

    generator = np.random.default_rng(3)

    def add(sums: Sequence[Tensor], deviation: float) -> list[Tensor]:
        return [each + deviation * torch.from_numpy(generator.normal(size=each.shape)) for each in sums]

    def draw(self: PoissonBatches, units: int) -> np.ndarray:
        return np.flatnonzero(generator.random(units) < float(self.rate))

    monkeypatch.setattr(run, "add_normals", add)
    monkeypatch.setattr(PoissonBatches, "draw", draw)
    monkeypatch.setattr(diffusion.secrets, "randbits", lambda _: 7)
