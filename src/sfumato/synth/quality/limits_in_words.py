"""What synthetic data cannot show, in words that follow from what was released."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from sfumato.synth.marginals import Marginals

_NAMED = 8
"""Pairs of columns that are named."""
_ALWAYS = (
    "Intervals: statistics of synthetic rows carry noise that a usual standard error does not know of.",
    "Rare combinations: what only few rows have is hidden by the noise, and must be.",
)
_BY_NAME = {
    "Moments": (
        "Shapes other than Gaussian: rows of a class vary around one mean, so blends of its kinds occur.",
        "Fine detail: what lies outside of the public basis is left out.",
    ),
    "MERF": (
        "How listed columns vary with others within a class: of each its shares alone are released.",
        "What the random features do not tell apart: rows with the same mean embedding look alike to it.",
        "Rare kinds within a class: the generator matches means, and may leave them out.",
    ),
    "Diffusion": (
        "What the network did not learn within its noisy steps: fine detail first.",
        "Rare kinds within a class: their gradients drown in the noise.",
    ),
}


def list_limits(generator: Any) -> tuple[str, ...]:
    """Return sentences on what samples of a generator cannot show."""
    if isinstance(generator, Marginals):
        return (*_list_unmeasured(generator), *_ALWAYS)
    return (*_BY_NAME.get(type(generator).__name__, ()), *_ALWAYS)


def _list_unmeasured(fitted: Marginals) -> list[str]:
    released = fitted.released
    names = [column.name for column in fitted.cells]
    parts = [[names[at] for at in each.columns] for each in released.measured]
    together = {frozenset(pair) for part in parts for pair in combinations(part, 2)}
    apart = [pair for pair in combinations(names, 2) if frozenset(pair) not in together]
    found = []
    if apart:
        listed = ", ".join(" and ".join(pair) for pair in apart[:_NAMED])
        more = f" and {len(apart) - _NAMED} other pairs" if len(apart) > _NAMED else ""
        found.append(
            f"How columns hang together that were never measured in one marginal: {listed}{more}. They are "
            "drawn as if independent given the others."
        )
    if max((len(part) for part in parts), default=0) < 3 <= len(names):
        found.append("Relations of three columns that no two of them show: none was measured.")
    if any(len(column.cuts) < column.domain.size for column in fitted.cells):
        found.append("Where a number lies within its bin: it is drawn evenly.")
    if any(int(each.max()) + 1 < len(each) for each in released.merged):
        found.append(
            "How rare values hang together with other columns: those that may be noise alone were merged."
        )
    return found
