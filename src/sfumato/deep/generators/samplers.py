"""Drawing rows of a trained denoiser, from pure noise down to none. It sees no row that was protected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.deep.generators.denoiser import Denoiser

_BEND = 7.0
"""How much closer levels lie at low noise than at high noise (Karras and others, 2022)."""
_BLOCK = 2**12
"""Rows that are drawn at a time."""
_CHURNED = (0.05, 50.0)
"""Levels between which a stochastic sampler adds noise again."""


@dataclass(frozen=True, slots=True)
class DiffusionSampler:
    """How rows are drawn: in so many steps, with so much noise added again on the way.

    Without `churn` this is the deterministic DDIM: from the same noise come the same rows.
    """

    steps: int
    churn: float
    guidance: float

    def draw(self, denoiser: Denoiser, labels: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        """Return a row from −1 to 1 for each of these classes."""
        random = torch.Generator().manual_seed(seed)
        denoiser.eval()
        with torch.no_grad():
            found = [
                self._draw_block(denoiser, part, random) for part in torch.from_numpy(labels).split(_BLOCK)
            ]
        return torch.cat(found).double().numpy()

    def _draw_block(self, denoiser: Denoiser, labels: Tensor, random: torch.Generator) -> Tensor:
        levels = self._list_levels(denoiser.levels.highest, denoiser.levels.lowest)
        numbers = denoiser.fixed.numel()
        rows = torch.randn(len(labels), numbers, generator=random) * levels[0]
        for level, following in pairwise(levels):
            now = level
            if self.churn and _CHURNED[0] <= level <= _CHURNED[1]:
                now = level * (1 + min(self.churn / self.steps, math.sqrt(2) - 1))
                more = torch.randn(rows.shape, generator=random)
                rows = rows + math.sqrt(now**2 - level**2) * more
            clean = denoiser.denoise(rows, now, labels, self.guidance)
            rows = clean + (rows - clean) * (following / now)
        return rows.clamp(-1, 1)

    def _list_levels(self, highest: float, lowest: float) -> list[float]:
        ends = highest ** (1 / _BEND), lowest ** (1 / _BEND)
        return [*(float(each) ** _BEND for each in np.linspace(*ends, self.steps)), 0.0]
