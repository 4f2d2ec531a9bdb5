"""In which order several quantiles are chosen, from their shares alone (docs/proofs/quantiles.md).

A share that is chosen among all rows bears no error of another choice. One between two that were chosen
before is chosen among fewer rows, lies further from their ends, and bears their errors. What is better
depends on how close together the shares lie. The size of the noise is a factor of all errors alike, so
neither ε nor data has a part in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise, zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

# Chosen by benchmarks/quantiles.py. Privacy depends on none of these: any order costs as many levels as it
# has.
_MORE_LEVELS = 3
"""How many levels more than the fewest possible are tried."""
_ROUNDS = 4
"""How often an order is looked for, with more weight on the shares that the last one was bad for."""
_LARGEST_RATIO = 1.02
"""Most error of a share, as a part of its error alone at an equal part of ε."""
_LAST = 0.8
"""What a variance counts where nothing is split any more. Such a choice is among whole cells, and gains from
the depth of a rank in its cell where many rows share a value."""
_TRIED_SHARES = {1: 12, 2: 8, 3: 6}
"""Up to how many shares of a part each one, each two and each three of them are tried as the first."""

Weights = tuple[float, ...]
Cuts = tuple[float, ...]
"""The ends of a part, with its shares between them."""


@dataclass(frozen=True, slots=True)
class ChoiceOrder:
    """Which shares of a part are chosen first, and the orders of those before, between and after them.

    The first are chosen at once among all rows of the part. Where no shares are left, there is no order.
    """

    first: tuple[int, ...]
    """Places among the shares of the part, ascending."""
    parts: tuple[ChoiceOrder | None, ...]
    """One part more than there are first shares."""

    @property
    def levels(self) -> int:
        """Most choices that a row takes part in."""
        return len(self.first) + max((part.levels for part in self.parts if part), default=0)

    @property
    def depth(self) -> int:
        """Most choices that are made one after the other, each among the rows that the last one left."""
        return 1 + max((part.depth for part in self.parts if part), default=0)


@lru_cache(maxsize=256)
def order_choices(shares: tuple[Fraction, ...]) -> ChoiceOrder:
    """Return the order with the least mean error in which no share is worse off than alone.

    Alone means at an equal part of ε; that is the order where all shares are chosen first.
    """
    number = len(shares)
    best, least = ChoiceOrder(tuple(range(number)), (None,) * (number + 1)), float(number)
    for levels in range(number.bit_length(), min(number.bit_length() + _MORE_LEVELS, number) + 1):
        for order, ratios in _propose_orders((0.0, *map(float, shares), 1.0), levels):
            if max(ratios) <= _LARGEST_RATIO and math.fsum(ratios) < least:
                best, least = order, math.fsum(ratios)
    return best


def list_noises(
    order: ChoiceOrder | None, cuts: Cuts, low: Weights = (), high: Weights = ()
) -> list[Weights]:
    """Return, for each share, what the noise of each choice weighs in its rank, in scales of 2·levels/ε.

    `low` and `high` are the weights in the ranks of the ends of the part.
    """
    if order is None:
        return []
    width, ends = cuts[-1] - cuts[0], list(zip_longest(low, high, fillvalue=0.0))
    chosen: list[Weights] = []
    for number, place in enumerate(order.first):
        share = (cuts[place + 1] - cuts[0]) / width
        borne = ((1 - share) * one + share * other for one, other in ends)
        chosen.append((*borne, *[0.0] * number, max(share, 1 - share)))
    borders, found = [low, *chosen, high], list[Weights]()
    edges = pairwise((0, *(place + 1 for place in order.first), len(cuts) - 1))
    for number, (start, stop) in enumerate(edges):
        inner = cuts[start : stop + 1]
        found += list_noises(order.parts[number], inner, borders[number], borders[number + 1])
        found += chosen[number : number + 1]
    return found


def _propose_orders(cuts: Cuts, levels: int) -> Iterator[tuple[ChoiceOrder, list[float]]]:
    """Yield orders with so many levels, and each share's error as a part of its error alone."""
    alone = [(len(cuts) - 2) * max(cut, 1 - cut) for cut in cuts[1:-1]]
    weights = [1 / each**2 for each in alone]
    for _ in range(_ROUNDS):
        order = _OrderSearch(cuts, weights).find_order(levels)
        noises = list_noises(order, cuts)
        ratios = [levels * _mean_size(each) / own for each, own in zip(noises, alone, strict=True)]
        yield order, ratios
        if max(ratios) <= _LARGEST_RATIO:
            return
        weights = [weight * max(ratio, 0.3) ** 2 for weight, ratio in zip(weights, ratios, strict=True)]


def _mean_size(weights: Weights) -> float:
    """Return the mean size of a weighted sum of independent Laplace noises of scale 1.

    It lies between those of one Laplace and of a Gaussian with the same variance. Fourth powers tell how far
    between, within one in a hundred.
    """
    variance = math.fsum(weight**2 for weight in weights)
    alike = math.fsum(weight**4 for weight in weights) / variance**2
    gaussian = math.sqrt(2 / math.pi)
    return math.sqrt(2 * variance) * (gaussian + (math.sqrt(0.5) - gaussian) * alike)


class _OrderSearch:
    """Finds the order with the least weighted sum of variances.

    The errors of a part's ends go into its shares by how near these lie, whatever the order between them. So
    the best order of a part is the same wherever the part is met, and is looked for once.
    """

    def __init__(self, cuts: Cuts, weights: list[float]) -> None:
        self._cuts = cuts
        self._weights = (0.0, *weights, 0.0)
        self._best: dict[tuple[int, int, int], tuple[float, tuple[int, ...]]] = {}
        self._pulls: dict[tuple[int, int], tuple[float, float]] = {}

    def find_order(self, levels: int) -> ChoiceOrder:
        """Return the best order of all shares, with at most so many levels."""
        return self._build_order(0, len(self._cuts) - 1, levels)

    def _build_order(self, low: int, high: int, levels: int) -> ChoiceOrder:
        """Return the best order of the shares between two cuts, of which there are some."""
        first = self._find_first(low, high, levels)[1]
        left, edges = levels - len(first), pairwise((low, *first, high))
        parts = (self._build_order(start, stop, left) if stop - start > 1 else None for start, stop in edges)
        return ChoiceOrder(tuple(cut - low - 1 for cut in first), tuple(parts))

    def _find_first(self, low: int, high: int, levels: int) -> tuple[float, tuple[int, ...]]:
        """Return the least sum of variances between two exact cuts, and which cuts it chooses first."""
        if high - low == 1:
            return 0.0, ()
        key = low, high, levels
        if key not in self._best:
            tried = self._list_first(low, high, levels)
            sums = ((self._sum_variances(low, high, levels, first), first) for first in tried)
            self._best[key] = min(sums, default=(math.inf, ()))
        return self._best[key]

    def _list_first(self, low: int, high: int, levels: int) -> Iterator[tuple[int, ...]]:
        """Yield the cuts between two of them that may be chosen first. A large part has few such sets."""
        inner, middle = range(low + 1, high), (low + high) // 2
        if len(inner) <= levels:
            yield tuple(inner)
        likely = {1: (middle,), 2: (low + 1, high - 1), 3: (low + 1, middle, high - 1)}
        for size, most in _TRIED_SHARES.items():
            if size < min(len(inner), levels):
                yield from combinations(inner, size) if len(inner) <= most else (likely[size],)

    def _sum_variances(self, low: int, high: int, levels: int, first: tuple[int, ...]) -> float:
        """Return the weighted sum of variances between two exact cuts where these are chosen first."""
        cuts = self._cuts
        width = cuts[high] - cuts[low]
        own = {cut: (max(cuts[cut] - cuts[low], cuts[high] - cuts[cut]) / width) ** 2 for cut in first}
        total = sum(self._weights[cut] * own[cut] for cut in first)
        if len(first) == high - low - 1:
            total *= _LAST
        for start, stop in pairwise((low, *first, high)):
            lower, upper = self._pull(start, stop)
            total += self._find_first(start, stop, levels - len(first))[0]
            total += lower * own.get(start, 0.0) + upper * own.get(stop, 0.0)
        return total

    def _pull(self, low: int, high: int) -> tuple[float, float]:
        """Return what the variance of either end weighs in the shares between two cuts."""
        if (low, high) not in self._pulls:
            cuts, inner = self._cuts, range(low + 1, high)
            width = cuts[high] - cuts[low]
            self._pulls[low, high] = (
                sum(self._weights[cut] * ((cuts[high] - cuts[cut]) / width) ** 2 for cut in inner),
                sum(self._weights[cut] * ((cuts[cut] - cuts[low]) / width) ** 2 for cut in inner),
            )
        return self._pulls[low, high]
