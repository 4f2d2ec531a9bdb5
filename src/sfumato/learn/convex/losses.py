"""Losses of a margin, with the constants that privacy proofs need: their Lipschitz and smoothness constants.

Because : docs/proofs/convex.md#losses
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Function = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss of the margin y·(w·x), with y = ±1, that falls as the margin grows.

    Perturbation is only private if both constants hold; noisy descent clips gradients and needs neither.
    """

    name: str
    value: Function
    derivative: Function
    """First derivative by the margin, from −lipschitz to 0."""
    lipschitz: float
    """Lipschitz constant of the loss: a bound on the absolute first derivative."""
    smoothness: float
    """Lipschitz constant of the derivative: a bound on the second derivative."""


def sigmoid(scores: Floats) -> Floats:
    """Return the logistic function 1/(1 + e^(−score)) of each score."""
    # Beyond 700 exp would overflow and warn; a warning would tell that some row has such a score.
    found: Floats = 1 / (1 + np.exp(np.clip(-scores, -700, 700)))
    return found


def _logistic(margin: Floats) -> Floats:
    found: Floats = np.logaddexp(0.0, -margin)
    return found


def _logistic_derivative(margin: Floats) -> Floats:
    return -sigmoid(-margin)


LOGISTIC = Loss("logistic", _logistic, _logistic_derivative, 1.0, 0.25)


def huber(width: Any = 0.5) -> Loss:
    """Return the hinge loss, smoothed within `width` of its corner: its second derivative is 1/(2·width)."""
    h = float(parse_positive(width, "width"))

    def value(margin: Floats) -> Floats:
        middle = (1 + h - margin) ** 2 / (4 * h)
        found: Floats = np.where(margin > 1 + h, 0.0, np.where(margin < 1 - h, 1 - margin, middle))
        return found

    def derivative(margin: Floats) -> Floats:
        found: Floats = -np.clip((1 + h - margin) / (2 * h), 0.0, 1.0)
        return found

    return Loss(f"huber({h:g})", value, derivative, 1.0, 1 / (2 * h))


def find_loss(loss: Any) -> Loss:
    """Return a loss by its name, or the `Loss` that was given."""
    if isinstance(loss, Loss):
        return loss
    if loss == "logistic":
        return LOGISTIC
    if loss == "huber":
        return huber()
    raise UsageError(
        "SF-E187",
        "This loss is not known.",
        try_='loss="logistic", "huber", or sf.learn.Loss(name, value, derivative, lipschitz, smoothness)',
    )
