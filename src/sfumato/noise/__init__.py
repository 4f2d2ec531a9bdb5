"""Exact noise for whole numbers. The only room that draws privacy randomness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.noise.gaussian import Gaussian
from sfumato.noise.integers import integers
from sfumato.noise.laplace import Laplace
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

__all__ = ["Gaussian", "Laplace", "laplace"]


def laplace(values: Any, sensitivity: int = 1, *, epsilon: Number) -> Any:
    """`values` plus integer Laplace noise of scale sensitivity / ε.

    Takes a whole number or an array of them in any shape, and gives back the same. `sensitivity` is the
    most that one unit can change the values by, summed over all of them; the answer is then ε-private.
    """
    l1 = whole(sensitivity, "sensitivity")
    mechanism = Laplace.calibrated(positive(epsilon, "epsilon"), l1)
    exact = integers(values)
    noisy = mechanism.release(exact, l1=l1)
    return noisy if exact.ndim else int(noisy[()])
