"""How much private logistic regression loses, and how many rows it needs: bounds to plan with.

For rows of length 1 at most, losses as steep as 1 and as curved as 1 at most, a mean loss with the penalty
shrink/2·‖w‖², a public number of rows, one of which is replaced: the setting of the learning curves.

Because : docs/proofs/convex.md#planning
"""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.exact import positive, whole

_METHODS = ("output", "objective")
_PULLED = 0.2784645427610738
"""The largest m/(1 + e^m): how much a row of length 1 at margin m pulls weights of the length m outwards."""


def excess_loss(
    method: str, *, rows: int, dimensions: int, shrink: Any, epsilon: Any, chance: Any = 0.05
) -> float:
    """What the penalised mean loss exceeds its minimum by, at most, but for this chance.

    `method` is "output" or "objective"; the latter holds from `least_rows` on.
    """
    n, pull = whole(rows, "rows"), float(positive(shrink, "shrink"))
    reach = _reach(method, dimensions, chance) / (n * float(positive(epsilon, "epsilon")))
    if method == "output":
        return 2 * (1 + pull) * (reach / pull) ** 2
    return 8 * reach**2 / pull


def least_rows(*, shrink: Any, epsilon: Any) -> int:
    """From so many rows on, the determinant takes a quarter of ε at most, with no further penalty."""
    pull, spend = float(positive(shrink, "shrink")), float(positive(epsilon, "epsilon"))
    return math.ceil(0.25 / (pull * math.expm1(spend / 4)))


def shrink_for(*, error: Any, norm: Any) -> float:
    """The penalty that costs weights of this length half of the error."""
    return float(positive(error, "error")) / float(positive(norm, "norm")) ** 2


def output_shrink(*, rows: int, dimensions: int, epsilon: Any, share: Any = 0.2) -> float:
    """The least penalty with which noise on the minimiser is short beside what it can be.

    No logistic minimiser is longer than √(0.2785/shrink), and noise on it has a mean length of
    2·dimensions/(rows·shrink·epsilon): so much is this `share` of that at most.
    """
    noise = 2 * whole(dimensions, "dimensions") / (whole(rows, "rows") * float(positive(epsilon, "epsilon")))
    return (noise / float(positive(share, "share"))) ** 2 / _PULLED


def rows_needed(
    method: str, *, error: Any, norm: Any, dimensions: int, epsilon: Any, chance: Any = 0.05
) -> int:
    """With so many rows the mean loss exceeds that of any weights as long as `norm` by `error` at most.

    But for this chance, and with the penalty of `shrink_for`.
    """
    wrong, pull = float(positive(error, "error")), shrink_for(error=error, norm=norm)
    reach = _reach(method, dimensions, chance) / float(positive(epsilon, "epsilon"))
    if method == "output":
        return math.ceil(2 * reach * math.sqrt((1 + pull) / wrong) / pull)
    return max(math.ceil(4 * reach / math.sqrt(pull * wrong)), least_rows(shrink=pull, epsilon=epsilon))


def _reach(method: str, dimensions: int, chance: Any) -> float:
    """d·log(d/chance): half of what a length that is Γ(d, 2) exceeds with this chance at most."""
    if method not in _METHODS:
        raise UsageError("SF-E131", "This method is not known.", try_=", ".join(map(repr, _METHODS)))
    size, rare = whole(dimensions, "dimensions"), float(positive(chance, "chance"))
    if rare >= 1:
        raise UsageError("SF-E139", "A chance lies between 0 and 1.", try_="chance=0.05")
    return size * math.log(size / rare)
