"""Bases: sets of items so small that all their subsets can be counted at once.

A graph has an edge for every pair of items that may be frequent. An itemset that is frequent is a clique in
it, so the maximal cliques hold all of them (Li, Qardaji, Su and Cao, PrivBasis, 2012).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Items = tuple[int, ...]
    Graph = dict[int, set[int]]

LARGEST_BASIS = 12
"""A basis of n items has 2^n subsets."""


def find_bases(pairs: Iterable[Items], most: int) -> list[Items]:
    """Return the maximal cliques, each cut to LARGEST_BASIS items, with at most so many subsets in all."""
    neighbours: Graph = {}
    for one, other in pairs:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    cliques = _maximal_cliques(neighbours, set(), set(neighbours), set())
    return _split_to_fit(sorted({tuple(sorted(each)[:LARGEST_BASIS]) for each in cliques}), most)


def _split_to_fit(found: list[Items], most: int) -> list[Items]:
    """Split the largest basis in two, which share all items but one, until there are few enough subsets."""
    while sum(2 ** len(each) for each in found) > most and max(map(len, found)) > 2:
        longest = max(found, key=len)
        found = [each for each in found if each != longest]
        found += [half for half in (longest[:-1], longest[1:]) if half not in found]
    return sorted(found)


def _maximal_cliques(
    neighbours: Graph, chosen: set[int], left: set[int], done: set[int]
) -> Iterator[set[int]]:
    """Yield maximal cliques by the algorithm of Bron and Kerbosch, with a pivot."""
    if not left and not done:
        if chosen:
            yield chosen
        return
    pivot = max(sorted(left | done), key=lambda each: len(neighbours[each] & left))
    for each in sorted(left - neighbours[pivot]):
        yield from _maximal_cliques(
            neighbours, chosen | {each}, left & neighbours[each], done & neighbours[each]
        )
        left = left - {each}
        done = done | {each}


def list_subsets(basis: Items) -> Iterator[tuple[Items, int]]:
    """Yield every itemset of a basis that is not empty, and the number whose bits say which items it has."""
    for length in range(1, len(basis) + 1):
        for places in itertools.combinations(range(len(basis)), length):
            yield tuple(basis[place] for place in places), sum(2**place for place in places)
