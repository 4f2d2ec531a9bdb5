"""Losses of a margin, with the constants that proofs need: how steep they are and how curved.

Because : docs/proofs/convex.md#losses
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy.exact import positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Function = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss of the margin y·(w·x), with y = ±1, that falls as the margin grows."""

    name: str
    value: Function
    slope: Function
    """Its derivative, from −steepness to 0."""
    steepness: float
    curvature: float
    """The second derivative is at most this."""


def _logistic(margin: Floats) -> Floats:
    found: Floats = np.logaddexp(0.0, -margin)
    return found


def _logistic_slope(margin: Floats) -> Floats:
    found: Floats = -1 / (1 + np.exp(np.clip(margin, -700, 700)))
    return found


LOGISTIC = Loss("logistic", _logistic, _logistic_slope, 1.0, 0.25)


def huber(width: Any = 0.5) -> Loss:
    """The hinge, rounded off within `width` of its corner: its second derivative is 1/(2·width) there."""
    h = float(positive(width, "width"))

    def value(margin: Floats) -> Floats:
        middle = (1 + h - margin) ** 2 / (4 * h)
        found: Floats = np.where(margin > 1 + h, 0.0, np.where(margin < 1 - h, 1 - margin, middle))
        return found

    def slope(margin: Floats) -> Floats:
        found: Floats = -np.clip((1 + h - margin) / (2 * h), 0.0, 1.0)
        return found

    return Loss(f"huber({h:g})", value, slope, 1.0, 1 / (2 * h))


def named(loss: Any) -> Loss:
    """A loss by its name, or as it was given."""
    if isinstance(loss, Loss):
        return loss
    if loss == "logistic":
        return LOGISTIC
    if loss == "huber":
        return huber()
    raise UsageError(
        "SF-E130",
        "This loss is not known.",
        try_='loss="logistic", "huber", or sf.learn.Loss(name, value, slope, steepness, curvature)',
    )
