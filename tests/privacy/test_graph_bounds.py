"""What one node or one edge moves, checked on every small graph and on hubs of larger ones."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.curator.plan.graphs import degree_sensitivity, edge_sensitivity
from sfumato.engines.duckdb.graphs import count_kept_degrees

Vector = NDArray[np.int64]
Edges = list[tuple[int, int]]
MOST = (1, 2, 3, 4)


def projected(edges: Edges, nodes: int, most: int) -> Vector:
    """The degrees after the projection, as the proof note says it, one edge after the other."""
    degrees = [0] * nodes
    for a, b in edges:
        if degrees[a] < most and degrees[b] < most:
            degrees[a] += 1
            degrees[b] += 1
    return np.array(degrees)


def by_code(edges: Edges, nodes: int, most: int | None) -> Vector:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return count_kept_degrees(ends[:, 0], ends[:, 1], nodes, most)


def tails(degrees: Vector, most: int) -> Vector:
    """How many have at least 1, 2, … most, in each graph."""
    return (degrees[..., None, :] >= np.arange(1, most + 1)[:, None]).sum(axis=-1)


def exactly(degrees: Vector, most: int) -> Vector:
    capped = np.minimum(degrees, most)
    return (capped[..., None, :] == np.arange(1, most + 1)[:, None]).sum(axis=-1)


def count(degrees: Vector) -> Vector:
    return degrees.sum(axis=-1, keepdims=True) // 2


def norms(move: Vector) -> tuple[int, int]:
    """The largest l1 norm and the largest squared l2 norm of any of these."""
    return int(np.abs(move).sum(axis=-1).max()), int((move * move).sum(axis=-1).max())


# ---- every small graph -------------------------------------------------------------------------------------


def orders(nodes: int) -> list[Edges]:
    """All orders of the edges of up to four nodes; three hundred of the orders of ten edges among five."""
    edges = list(combinations(range(nodes), 2))
    if nodes <= 4:
        return [list(each) for each in permutations(edges)]
    rng = np.random.default_rng(20)
    return [[edges[place] for place in rng.permutation(len(edges))] for _ in range(300)]


def every_graph(order: Edges, nodes: int, most: int | None) -> Vector:
    """The degrees of every graph of some of these edges; bit i of its number says that edge i is there."""
    numbers = np.arange(2 ** len(order))
    degrees = np.zeros((len(numbers), nodes), dtype=np.int64)
    for place, (a, b) in enumerate(order):
        room = most is None or ((degrees[:, a] < most) & (degrees[:, b] < most))
        added = (numbers >> place & 1) * np.asarray(room)
        degrees[:, a] += added
        degrees[:, b] += added
    return degrees


def without(order: Edges, gone: set[tuple[int, int]]) -> Vector:
    """For every graph, the number of the one without these edges."""
    lost = sum(1 << place for place, edge in enumerate(order) if edge in gone)
    return np.arange(2 ** len(order)) & ~lost


def larger(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), max(one[1], other[1])


def moved(full: Vector, rest: Vector, most: int, found: dict[str, tuple[int, int]]) -> None:
    for name, of in {
        "tails": tails(full, most) - tails(rest, most),
        "exactly": exactly(full, most) - exactly(rest, most),
        "edges": count(full) - count(rest),
    }.items():
        found[name] = larger(found.get(name, (0, 0)), norms(of))


def node_moves(nodes: int, most: int) -> dict[str, tuple[int, int]]:
    """The largest norms over every order, every graph, and every node that is removed."""
    found: dict[str, tuple[int, int]] = {}
    for order in orders(nodes):
        full = every_graph(order, nodes, most)
        for gone in range(nodes):
            rest = full[without(order, {edge for edge in order if gone in edge})]
            moved(full, rest, most, found)
            others = np.abs(np.delete(full - rest, gone, axis=1)).sum(axis=1)
            assert (others <= full[:, gone]).all(), "the lemma"
            assert (count(full) >= count(rest)).all(), "a node never takes edges away"
    return found


def edge_moved(nodes: int, most: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    order = list(combinations(range(nodes), 2))
    full = every_graph(order, nodes, None)
    for gone in order:
        moved(full, full[without(order, {gone})], most, found)
    return found


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("nodes", [2, 3, 4, 5])
def test_no_node_moves_more_than_is_priced(nodes: int, most: int) -> None:
    unit = sf.Node("a", "b", max_degree=most)
    found = node_moves(nodes, most)
    by_degree, by_edges = degree_sensitivity(unit), edge_sensitivity(unit)
    assert found["tails"][0] <= by_degree.l1
    assert found["tails"][1] <= by_degree.l2_squared
    assert found["edges"][0] <= by_edges.l1
    assert found["edges"][1] <= by_edges.l2_squared
    assert found["exactly"][0] <= 2 * most + 1
    assert found["exactly"][1] <= (most + 1) ** 2 + most**2
    if nodes > most:  # a star of new nodes reaches every bound that is priced
        assert found["tails"] == (by_degree.l1, by_degree.l2_squared)
        assert found["edges"] == (by_edges.l1, by_edges.l2_squared)


def test_exact_degrees_are_moved_as_far_as_the_note_says() -> None:
    assert node_moves(3, 2)["exactly"] == (2 * 2 + 1, 3**2 + 2**2)


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("nodes", [2, 3, 4, 5])
def test_no_edge_moves_more_than_is_priced(nodes: int, most: int) -> None:
    unit = sf.Edge("a", "b", max_degree=most)
    found = edge_moved(nodes, most)
    assert found["tails"] == (degree_sensitivity(unit).l1, degree_sensitivity(unit).l2_squared) == (2, 4)
    assert found["edges"] == (edge_sensitivity(unit).l1, edge_sensitivity(unit).l2_squared) == (1, 1)
    assert found["exactly"][0] <= 4


def test_counting_nodes_without_an_edge_would_have_no_bound() -> None:
    """Why the histogram begins at one: with a hub of a thousand leaves, a thousand nodes vanish."""
    star = [(0, leaf) for leaf in range(1, 1001)]
    full, rest = by_code(star, 1001, 3), by_code([], 1001, 3)
    there = 1001  # every end of an edge
    assert there - int((full > 0).sum()) == 997
    assert int((rest > 0).sum()) == 0
    assert norms(tails(full, 3) - tails(rest, 3)) == (6, 18)


# ---- the code's way of taking many edges at once -----------------------------------------------------------


def heavy_tailed(rng: np.random.Generator, nodes: int, edges: int) -> Edges:
    """Distinct edges in a random order, with hubs among the first nodes."""
    ends = np.floor(nodes * rng.random((edges, 2)) ** 3).astype(int)
    distinct = {(min(a, b), max(a, b)) for a, b in ends.tolist() if a != b}
    listed = sorted(distinct)
    return [listed[place] for place in rng.permutation(len(listed))]


@pytest.mark.parametrize("most", [*MOST, None])
def test_every_small_graph_is_projected_as_the_code_does(most: int | None) -> None:
    order = orders(5)[0]
    degrees = every_graph(order, 5, most)
    for number in range(0, 1024, 7):
        edges = [edge for place, edge in enumerate(order) if number >> place & 1]
        assert by_code(edges, 5, most).tolist() == degrees[number].tolist()


@pytest.mark.parametrize("most", [1, 3, 10, 40, 1000])
def test_taking_most_edges_at_once_keeps_the_same(most: int) -> None:
    rng = np.random.default_rng(most)
    for _ in range(20):
        edges = heavy_tailed(rng, 200, 1500)
        assert by_code(edges, 200, most).tolist() == projected(edges, 200, most).tolist()


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_hubs_of_larger_graphs_stay_within_the_bounds(most: int) -> None:
    rng = np.random.default_rng(most)
    unit = sf.Node("a", "b", max_degree=most)
    for _ in range(5):
        edges = heavy_tailed(rng, 300, 3000)
        full = by_code(edges, 300, most)
        for gone in range(40):  # the hubs come first
            rest = by_code([edge for edge in edges if gone not in edge], 300, most)
            l1, l2_squared = norms(tails(full, most) - tails(rest, most))
            assert l1 <= degree_sensitivity(unit).l1
            assert l2_squared <= degree_sensitivity(unit).l2_squared
            assert 0 <= (full.sum() - rest.sum()) // 2 <= most


def test_an_order_that_the_graph_decides_would_break_the_bounds() -> None:
    """The check can fail: sorting edges by the degrees of their ends moves far more than is priced."""
    most, worst = 2, 0
    rng = np.random.default_rng(3)

    def by_degree(edges: Edges) -> Edges:
        degrees = by_code(edges, 60, None)
        return sorted(edges, key=lambda edge: (int(degrees[edge[0]] + degrees[edge[1]]), edge))

    for _ in range(20):
        edges = heavy_tailed(rng, 60, 300)
        full = projected(by_degree(edges), 60, most)
        for gone in range(60):
            rest = projected(by_degree([edge for edge in edges if gone not in edge]), 60, most)
            worst = max(worst, int(np.abs(np.delete(full - rest, gone)).sum()))
    assert worst > most
