"""Junction trees and the models on them, beside sums over all cells at once."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from sfumato.synth.graphical_model import GraphicalModel, NoisyMarginal, TreeSums, estimate
from sfumato.synth.junction_tree import JunctionTree, build_tree, count_cells

SIZES = (2, 3, 4, 2, 3)
SETS: list[list[tuple[int, ...]]] = [
    [],
    [(0, 1), (1, 2), (2, 3), (3, 4)],
    [(0, 1), (1, 2), (0, 2)],
    [(0, 1), (1, 2), (2, 3), (0, 3)],
    [(0, 1, 2), (2, 3), (3, 4), (1, 4)],
]


@pytest.mark.parametrize("marginals", SETS)
def test_a_tree_holds_every_marginal_and_each_column_in_one_piece(marginals: list[tuple[int, ...]]) -> None:
    tree = build_tree(SIZES, marginals)
    assert all(tree.find_clique(each) >= 0 for each in marginals)
    for column in range(len(SIZES)):
        homes = [at for at, clique in enumerate(tree.cliques) if column in clique]
        begun = [at for at in homes if tree.parents[at] not in homes]
        assert len(begun) == 1, "the cliques of a column are joined"


@pytest.mark.parametrize("marginals", SETS)
def test_room_for_one_more_marginal_is_foreseen(marginals: list[tuple[int, ...]]) -> None:
    tree = build_tree(SIZES, marginals)
    for columns in combinations(range(len(SIZES)), 3):
        foreseen = tree.cells_with(columns)
        assert foreseen >= tree.cells
        assert foreseen >= count_cells(SIZES, columns)
        assert (foreseen == tree.cells) == (tree.find_clique(columns) >= 0)


@pytest.mark.parametrize("marginals", SETS)
def test_sums_over_a_tree_are_those_over_all_cells(marginals: list[tuple[int, ...]]) -> None:
    tree, random = build_tree(SIZES, marginals), np.random.default_rng(1)
    sums = TreeSums(tree)
    logs = [random.normal(0, 2, shape) for shape in sums.shapes]
    whole = np.zeros(SIZES)
    for clique, log in zip(tree.cliques, logs, strict=True):
        whole += log.reshape([SIZES[at] if at in clique else 1 for at in range(len(SIZES))])
    joint = np.exp(whole) / np.exp(whole).sum()
    for clique, table in zip(tree.cliques, sums.calibrate(logs), strict=True):
        rest = tuple(at for at in range(len(SIZES)) if at not in clique)
        np.testing.assert_allclose(table, joint.sum(axis=rest), atol=1e-12)


def _rows() -> Any:
    random = np.random.default_rng(2)
    first = random.integers(0, 2, 4000)
    second = (first + (random.random(4000) < 0.2)) % 3
    third = (second + 2 * first + (random.random(4000) < 0.3)) % 4
    return np.stack([first, second, third, random.integers(0, 2, 4000), random.integers(0, 3, 4000)], axis=1)


def _count(rows: Any, columns: tuple[int, ...]) -> Any:
    cells = np.ravel_multi_index(rows[:, list(columns)].T, [SIZES[at] for at in columns])
    shape = [SIZES[at] for at in columns]
    return np.bincount(cells, minlength=count_cells(SIZES, columns)).reshape(shape).astype(float)


def _fit(columns: list[tuple[int, ...]]) -> tuple[Any, GraphicalModel]:
    rows = _rows()
    measured = [NoisyMarginal(each, _count(rows, each), 1.0) for each in columns]
    return rows, estimate(SIZES, measured, 400)


def test_a_model_has_the_marginals_that_were_measured() -> None:
    columns: list[tuple[int, ...]] = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (0, 2)]
    rows, model = _fit(columns)
    for each in columns:
        assert np.abs(model.marginal(each) - _count(rows, each)).sum() < 0.02 * len(rows)


def test_drawn_rows_have_the_counts_of_the_model_but_for_rounding() -> None:
    _, model = _fit([(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (0, 2)])
    drawn = model.draw(10_000, np.random.default_rng(3))
    assert drawn.shape == (10_000, 5)
    assert (drawn.max(axis=0) < SIZES).all()
    for each in ((0, 1), (0, 2), (3,), (4,)):
        wanted = model.marginal(each) / model.total
        assert np.abs(_count(drawn, each) / 10_000 - wanted).max() < 0.002, "systematic, not one by one"
    # What no clique holds is drawn independently: within five deviations of a multinomial.
    pair = _count(drawn, (3, 4)) / 10_000
    apart = np.outer(model.marginal((3,)), model.marginal((4,))) / model.total**2
    assert np.abs(pair - apart).max() < 5 * np.sqrt(apart.max() / 10_000) + 0.002


def test_an_earlier_model_is_a_start() -> None:
    rows, model = _fit([(0,), (1,), (2,), (3,), (4,), (0, 1)])
    measured = [NoisyMarginal(each, _count(rows, each), 1.0) for each in model.factors]
    again = estimate(SIZES, measured, 0, model.factors)
    np.testing.assert_allclose(again.marginal((0, 1)), model.marginal((0, 1)))


def test_nothing_is_drawn_of_no_rows() -> None:
    measured = [NoisyMarginal((at,), np.zeros(size), 5.0) for at, size in enumerate(SIZES)]
    model = estimate(SIZES, measured, 5)
    assert model.total == 1.0
    assert model.draw(0, np.random.default_rng(0)).shape == (0, 5)


def test_trees_are_the_same_whatever_the_order_of_marginals() -> None:
    given = SETS[4]
    trees = {
        build_tree(SIZES, [given[at] for at in order])
        for order in product(range(4), repeat=4)
        if len({*order}) == 4
    }
    assert len(trees) == 1
    assert isinstance(trees.pop(), JunctionTree)
