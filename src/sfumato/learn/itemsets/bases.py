"""Bases: sets of items so small that all their subsets can be counted at once.

A graph has an edge for every pair of items that may be frequent. An itemset that is frequent is a clique in
it, so the largest cliques hold all of them (Li, Qardaji, Su and Cao, PrivBasis, 2012).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Items = tuple[int, ...]

LONGEST = 12
"""A basis of l items has 2^l subsets."""


def bases(pairs: Iterable[Items], most: int) -> list[Items]:
    """The largest cliques, each cut to LONGEST items, until so many subsets are to be counted."""
    near: dict[int, set[int]] = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found = sorted({tuple(sorted(each)[:LONGEST]) for each in _cliques(near, set(), set(near), set())})
    return _within(found, most)


def _within(found: list[Items], most: int) -> list[Items]:
    """Large ones are split in two until they fit."""
    while sum(2 ** len(each) for each in found) > most and max(map(len, found)) > 2:
        longest = max(found, key=len)
        found = [each for each in found if each != longest]
        found += [half for half in (longest[:-1], longest[1:]) if half not in found]
    return sorted(found)


def _cliques(
    near: dict[int, set[int]], chosen: set[int], left: set[int], done: set[int]
) -> Iterator[set[int]]:
    """Bron and Kerbosch, with a pivot."""
    if not left and not done:
        if chosen:
            yield chosen
        return
    pivot = max(sorted(left | done), key=lambda each: len(near[each] & left))
    for each in sorted(left - near[pivot]):
        yield from _cliques(near, chosen | {each}, left & near[each], done & near[each])
        left = left - {each}
        done = done | {each}


def subsets(basis: Items) -> Iterator[tuple[Items, int]]:
    """Every itemset of a basis that is not empty, and the number whose binary digits say which it is."""
    for length in range(1, len(basis) + 1):
        for places in itertools.combinations(range(len(basis)), length):
            yield tuple(basis[place] for place in places), sum(2**place for place in places)
