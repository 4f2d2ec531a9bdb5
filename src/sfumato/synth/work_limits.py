"""How much memory and time a synthesis may take, from public facts alone, and the limits on it.

Whether a fit fails and how long it takes are outputs too, so what could exceed a limit is refused before
anything is charged. Privacy depends on none of the numbers here.

Because : docs/proofs/synth.md#memory-and-time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.synth.junction_tree import count_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.synth.workload import Weights

MOST_TREE = 2**22
"""Cells of a model, the most that `max_cells` may be. Estimating has about a dozen arrays of them."""
MOST_COMPARED = 2**28
"""Cells of all marginals that a choice compares with the model."""
MOST_RELEASED = 2**23
"""Noisy counts of one fit after which no marginal is measured but the smallest."""
USUAL_TREE = 2**18
"""Cells of a model for which no number was named."""
KEPT = 2**23
"""Exact counts that are kept from one choice to the next; others are counted anew, which takes longer."""
ROUNDS, PURE_ROUNDS = 16, 4
"""Rounds of AIM for each column, if none were to become more exact: as in AIM, and for pure ε as many as have
noise of that width."""
TOGETHER = 16
"""For so many columns one more marginal is chosen before the next estimate. It saves time in wide tables."""

_A_PASS = 2**20
"""Cells that are compared in the time of one pass over the rows."""
_ESTIMATE = 64
"""How much longer an estimate takes for each cell of the model than a comparison does for each of its own."""


def bound_tree(sizes: Sequence[int]) -> int:
    """Return how many cells a tree of pairs has at most: those in which all columns meet the largest one."""
    largest = max(sizes)
    return largest * (sum(sizes) - largest)


def bound_comparisons(sizes: Sequence[int], weights: Weights, most: int) -> int:
    """Return how many cells the marginals have together that AIM compares with its model in one round."""
    return sum(cells for cells in (count_cells(sizes, part) for part, _ in weights) if cells <= most)


def require_bounded(sizes: Sequence[int], weights: Weights, method: str, asked: int | None) -> None:
    """Refuse what could take more memory than is allowed, whatever the rows are."""
    most = USUAL_TREE if asked is None else asked
    if most > MOST_TREE:
        raise _too_large("max_cells is larger than a model may be.", most, MOST_TREE)
    if method == "mst":
        # Its tree follows from the columns alone, and a number that was named is kept too.
        allowed = MOST_TREE if asked is None else asked
        if bound_tree(sizes) > allowed:
            raise _too_large(
                "A tree of pairs of these columns may have too many cells.", bound_tree(sizes), allowed
            )
        compared = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    else:
        compared = bound_comparisons(sizes, weights, most)
    if compared > MOST_COMPARED:
        raise _too_large("The marginals to choose from have too many cells.", compared, MOST_COMPARED)


def count_passes(sizes: Sequence[int], weights: Weights, most: int, concentrated: bool) -> int:
    """Return about how often rows and models are gone over at most."""
    columns = len(sizes)
    rounds = columns * (ROUNDS if concentrated else PURE_ROUNDS) // (1 + columns // TOGETHER)
    # Room for the model grows from nothing to all of it, so it is half of it on the average.
    tree = min(most, bound_comparisons(sizes, weights, most)) // 2 if weights else bound_tree(sizes)
    compared = bound_comparisons(sizes, weights, most) + _ESTIMATE * tree
    every = rounds * compared if weights else compared
    return 60 * columns + 3 * len(weights) + every // _A_PASS


def _too_large(sentence: str, asked: int, most: int) -> UsageError:
    return UsageError(
        "SF-E230",
        sentence,
        asked=f"{asked:,} cells",
        most=f"{most:,}",
        why="memory and time must not depend on the rows, so they are bounded before anything is charged",
        try_="fewer bins, fewer columns, or a workload of fewer columns, such as workload=2",
    )
