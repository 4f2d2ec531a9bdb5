"""What is said of a row is said of it alone, wherever it lies and whoever lies beside it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.learn import KernelSVC
from sfumato.oracle.arrays.integer_rows import ArrayBounds, _squared_norms
from sfumato.oracle.row_by_row import compute_row_by_row


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 3000])
def test_every_row_has_its_own_answer(count: int) -> None:
    rows = np.arange(2.0 * count).reshape(count, 2)
    assert np.array_equal(compute_row_by_row(lambda block: block[:, 0] * 3, rows), rows[:, 0] * 3)
    frame = pd.DataFrame(rows, columns=["a", "b"])
    assert np.array_equal(compute_row_by_row(lambda block: block["b"] - block["a"], frame), np.ones(count))


def test_blocks_have_one_shape_and_rows_draw_their_places() -> None:
    seen: list[Any] = []

    def told(block: Any) -> Any:
        seen.append(block.shape)
        return np.arange(len(block))

    places = compute_row_by_row(told, np.ones((256 * 200, 3)))
    assert set(seen) == {(256, 3)}
    counts = np.bincount(places, minlength=256)
    assert float(((counts - 200) ** 2 / 200).sum()) < 400  # χ² of 255 degrees: less than once in 10⁷
    assert len(seen) == counts.max()


def test_more_than_one_answer_a_row_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        compute_row_by_row(lambda block: block, np.ones((3, 2)))


def test_waves_of_a_row_depend_on_it_alone() -> None:
    """A row more, before all others, shifts where each lies in memory."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (1500, 7)), rng.integers(0, 2, 1500)
    model = KernelSVC(epsilon=1, bounds=(-1, 1), classes=[0, 1], waves=33, gamma=3.0).fit(X, y)
    whole = model._fourier_features(X)
    for some in ([0], [700, 3, 1499], list(range(1, 1500)), list(range(1499, -1, -1))):
        assert np.array_equal(model._fourier_features(X[some]), whole[some])
    assert np.allclose((whole**2).sum(axis=1), 1)
    near = np.exp(-3.0 * ((X[0] - X[1]) ** 2).sum())
    assert abs(float(whole[0] @ whole[1]) - near) < 0.7


def test_a_row_is_shortened_by_itself() -> None:
    """In whole numbers, to the last one; at every place in an array of every length."""
    X = np.random.default_rng(2).normal(size=(600, 11)) * 3
    frame = ArrayBounds.of(11, None, 1.0)
    whole = frame.to_integers(X)
    for some in ([5], list(range(1, 600)), list(range(599, -1, -1)), list(range(0, 600, 7))):
        assert np.array_equal(frame.to_integers(X[some]), whole[some])


def test_squares_are_summed_in_one_order() -> None:
    rows = np.random.default_rng(3).normal(size=(1001, 13))
    found = _squared_norms(rows)
    one = [float(functools.reduce(lambda total, x: total + x * x, row, 0.0)) for row in rows.tolist()]
    assert found.tolist() == one
