"""How much private logistic regression loses, and how many rows it needs: bounds to plan with.

The setting is that of the learning curves: rows of norm at most 1, a loss with Lipschitz constant and
smoothness at most 1, the mean loss with the penalty regularization/2·‖w‖², and a public number of rows, one
of which is replaced.

Because : docs/proofs/convex.md#planning
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_positive, parse_whole

_METHODS = ("output", "objective")
_LARGEST_PULL = 0.2784645427610738
"""The maximum of m/(1 + e^m), the logistic gradient of a row of norm 1 and margin m along the weights."""


def excess_loss(
    method: str, *, rows: int, dimensions: int, regularization: Any, epsilon: Any, chance: Any = 0.05
) -> float:
    """Bound by how much the regularised mean loss exceeds its minimum, except with this chance.

    `method` is "output" or "objective"; the latter holds from `objective_min_rows` on.
    """
    n, strength = parse_whole(rows, "rows"), float(parse_positive(regularization, "regularization"))
    noise = _noise_quantile(method, dimensions, chance) / (n * float(parse_positive(epsilon, "epsilon")))
    if method == "output":
        return 2 * (1 + strength) * (noise / strength) ** 2
    return 8 * noise**2 / strength


def objective_min_rows(*, regularization: Any, epsilon: Any) -> int:
    """Return the number of rows from which on objective perturbation needs no regularisation beyond this.

    From there on the determinant of the Hessian uses at most a quarter of ε.
    """
    strength = float(parse_positive(regularization, "regularization"))
    return math.ceil(0.25 / (strength * math.expm1(float(parse_positive(epsilon, "epsilon")) / 4)))


def choose_regularization(*, error: Any, norm: Any) -> float:
    """Return the regularisation that costs weights of this norm half of the error."""
    return float(parse_positive(error, "error")) / float(parse_positive(norm, "norm")) ** 2


def choose_output_regularization(*, rows: int, dimensions: int, epsilon: Any, share: Any = 0.2) -> float:
    """Return the least regularisation with which the noise on the minimiser is short beside the minimiser.

    No logistic minimiser is longer than √(0.2785/regularization), and the noise on it has a mean length of
    2·dimensions/(rows·regularization·epsilon): at most this `share` of that.
    """
    noise = (
        2
        * parse_whole(dimensions, "dimensions")
        / (parse_whole(rows, "rows") * float(parse_positive(epsilon, "epsilon")))
    )
    return (noise / float(parse_positive(share, "share"))) ** 2 / _LARGEST_PULL


def rows_needed(
    method: str, *, error: Any, norm: Any, dimensions: int, epsilon: Any, chance: Any = 0.05
) -> int:
    """Return how many rows make the mean loss exceed that of any weights of this `norm` by at most `error`.

    This holds except with this chance, and with the regularisation of `choose_regularization`.
    """
    wrong, strength = float(parse_positive(error, "error")), choose_regularization(error=error, norm=norm)
    noise = _noise_quantile(method, dimensions, chance) / float(parse_positive(epsilon, "epsilon"))
    if method == "output":
        return math.ceil(2 * noise * math.sqrt((1 + strength) / wrong) / strength)
    least = objective_min_rows(regularization=strength, epsilon=epsilon)
    # Below `objective_min_rows` the bound on the excess loss does not hold.
    return max(math.ceil(4 * noise / math.sqrt(strength * wrong)), least)


def _noise_quantile(method: str, dimensions: int, chance: Any) -> float:
    """Return d·log(d/chance): half of what a Γ(d, 2) length exceeds with at most this chance."""
    if method not in _METHODS:
        raise UsageError("SF-E187", "This method is not known.", try_=", ".join(map(repr, _METHODS)))
    size, rare = parse_whole(dimensions, "dimensions"), float(parse_positive(chance, "chance"))
    if rare >= 1:
        raise UsageError("SF-N101", "A chance lies between 0 and 1.", try_="chance=0.05")
    return size * math.log(size / rare)
