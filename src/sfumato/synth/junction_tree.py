"""Junction trees: cliques of columns that hold every measured marginal, joined so that each is summed once.

A tree follows from the sizes of the columns and from which marginals were measured, both public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Clique = tuple[int, ...]
    """Columns by their places, ascending."""


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which every clique comes after its parent; the first of each part has none."""

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    """The place of each clique's parent, −1 for none."""

    @property
    def cells(self) -> int:
        """The number of cells of all cliques together."""
        return sum(count_cells(self.sizes, clique) for clique in self.cliques)

    def separator(self, place: int) -> Clique:
        """Return the columns that a clique shares with its parent."""
        shared = set(self.cliques[self.parents[place]])
        return tuple(each for each in self.cliques[place] if each in shared)

    def find_clique(self, columns: Iterable[int]) -> int:
        """Return the place of the smallest clique that holds these columns, −1 if none does."""
        wanted = set(columns)
        found = [at for at, clique in enumerate(self.cliques) if wanted <= set(clique)]
        return min(found, key=lambda at: count_cells(self.sizes, self.cliques[at]), default=-1)

    # ---- what one more marginal would cost ----

    def cells_with(self, columns: Clique) -> int:
        """Return how many cells a tree has at most that holds these columns in one clique besides.

        Each column is added to the cliques on its way to where all of them meet.
        """
        if any(set(columns) <= held for held in self._sets):
            return self.cells
        parts: dict[int, list[int]] = {}
        for column in columns:
            parts.setdefault(self._part[self._homes[column][0]], []).append(column)
        # Columns of parts that nothing joins yet meet in a clique of their own.
        added = count_cells(self.sizes, columns) if len(parts) > 1 else 0
        return self.cells + added + sum(self._meeting_cells(each) for each in parts.values())

    def _meeting_cells(self, columns: list[int]) -> int:
        if len(columns) == 1:
            return 0
        places = dict.fromkeys(place for column in columns for place in self._homes[column])
        return min(self._cells_at(columns, place) for place in places)

    def _cells_at(self, columns: list[int], place: int) -> int:
        grown: dict[int, int] = {}
        for column in columns:
            homes = self._homes[column]
            way = min((self._way(home, place) for home in homes), key=len)
            for at in way:
                if at not in homes:
                    grown[at] = grown.get(at, 1) * self.sizes[column]
        return sum((times - 1) * self._cells[at] for at, times in grown.items())

    def _way(self, start: int, end: int) -> list[int]:
        """Return the cliques from one to another of the same part, both included."""
        one, other = self._ancestors[start], self._ancestors[end]
        known = set(other)
        up = []
        for at in one:
            up.append(at)
            if at in known:
                return up + other[: other.index(at)][::-1]
        raise AssertionError("cliques of different parts")

    @cached_property
    def _sets(self) -> list[set[int]]:
        return [set(clique) for clique in self.cliques]

    @cached_property
    def _cells(self) -> list[int]:
        return [count_cells(self.sizes, clique) for clique in self.cliques]

    @cached_property
    def _homes(self) -> list[list[int]]:
        """The cliques that hold each column."""
        found: list[list[int]] = [[] for _ in self.sizes]
        for at, clique in enumerate(self.cliques):
            for column in clique:
                found[column].append(at)
        return found

    @cached_property
    def _ancestors(self) -> list[list[int]]:
        """Each clique, its parent, and so on to the first."""
        found: list[list[int]] = []
        for at, parent in enumerate(self.parents):
            found.append([at, *(found[parent] if parent >= 0 else ())])
        return found

    @cached_property
    def _part(self) -> list[int]:
        return [each[-1] for each in self._ancestors]


def count_cells(sizes: Sequence[int], columns: Iterable[int]) -> int:
    """Return the number of cells of a marginal."""
    return math.prod(sizes[each] for each in columns)


def build_tree(sizes: Sequence[int], marginals: Iterable[Clique]) -> JunctionTree:
    """Return a tree whose cliques hold every marginal and every column; columns are eliminated greedily."""
    neighbours: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for columns in marginals:
        for column in columns:
            neighbours[column].update(each for each in columns if each != column)
    weights = [math.log(max(size, 1)) for size in sizes]
    cliques: list[set[int]] = []
    while neighbours:
        # The column whose clique has the fewest cells goes first.
        chosen = min(
            neighbours,
            key=lambda each: (weights[each] + sum(map(weights.__getitem__, neighbours[each])), each),
        )
        around = neighbours.pop(chosen)
        for each in around:
            neighbours[each] |= around
            neighbours[each] -= {each, chosen}
        clique = around | {chosen}
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
    return _join(tuple(sizes), [tuple(sorted(clique)) for clique in cliques])


def _join(sizes: tuple[int, ...], cliques: list[Clique]) -> JunctionTree:
    """Return the cliques joined where they share the most columns: a spanning tree of greatest weight."""
    sets = [set(clique) for clique in cliques]
    order: list[int] = []
    parents: list[int] = []
    left = dict.fromkeys(range(len(cliques)), (-1, -1))
    while left:
        place = max(left, key=lambda at: (left[at][0], -at))
        shared, parent = left.pop(place)
        # Parts that share nothing are trees of their own.
        parents.append(order.index(parent) if shared > 0 else -1)
        order.append(place)
        for other, (most, _) in left.items():
            common = len(sets[place] & sets[other])
            if common > most:
                left[other] = common, place
    return JunctionTree(sizes, tuple(cliques[at] for at in order), tuple(parents))
