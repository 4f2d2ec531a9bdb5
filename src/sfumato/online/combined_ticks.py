"""Sums over windows and sums with a decay, from the running sums that were released: free of charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_exact, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.continual.running_sums import RunningSums
    from sfumato.privacy.exact import Number


def combine_ticks(released: NDArray[Any], window: int | None, decay: Number | None) -> NDArray[Any]:
    """Return the sums over all ticks, over the last `window` of each tick, or with a decay."""
    if decay is not None:
        return _decayed(released, _parse_decay(window, decay))
    if window is None:
        return released
    length = parse_whole(window, "window")
    shifted = np.zeros_like(released)
    shifted[length:] = released[:-length]
    return np.asarray(released - shifted)


def find_deviations(
    mechanism: RunningSums, ticks: int, window: int | None, decay: Number | None
) -> NDArray[np.float64]:
    """Return the standard deviations of those sums, rounding included."""
    if not ticks:
        return np.zeros(0)
    rounding = 1 / 12
    if decay is not None:
        kept = _parse_decay(window, decay)
        # Rounding errors r enter as r_t − (1 − γ)·(r_(t−1) + γ·r_(t−2) + …).
        variances = mechanism.decayed_variances(ticks, kept)
        rounding *= 1 + (1 - kept) / (1 + kept)
    elif window is None:
        variances = mechanism.variances(np.arange(1, ticks + 1))
    else:
        variances = mechanism.window_variances(ticks, parse_whole(window, "window"))
    return np.asarray(np.sqrt(variances + rounding))


def _decayed(released: NDArray[Any], decay: float) -> NDArray[np.float64]:
    from scipy.signal import lfilter

    ticks = np.diff(released, axis=0, prepend=0).astype(np.float64)
    return np.asarray(lfilter([1.0], [1.0, -decay], ticks, axis=0)) if len(ticks) else ticks


def _parse_decay(window: int | None, decay: Number) -> float:
    kept = float(parse_exact(decay, "decay"))
    if window is not None or not 0 < kept < 1:
        raise UsageError(
            "SF-N101",
            "A decay lies between 0 and 1, and is not combined with a window.",
            try_="values(decay=0.9)",
        )
    return kept
