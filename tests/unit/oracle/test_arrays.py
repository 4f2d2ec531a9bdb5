"""Sums over own arrays are exact whatever the rows: many, wide, a few at a time, or never laid out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learn.cells import clip_deviation, clip_value, locate_nearest
from sfumato.oracle.arrays.features import read_arrays, transform_arrays
from sfumato.oracle.arrays.integer_rows import ONE, ArrayBounds, RowTransform
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import COUNT, Add, CellKey, Choose, Column, Constant, Divide, Least, Less, Multiply
from sfumato.oracle.declared import Feature
from sfumato.oracle.moments import build_gram_block, build_sum_block

RNG = np.random.default_rng(5)
A, B, W, C = (Column(0, name) for name in "abwc")
FAR = 2**60


@pytest.fixture(scope="module")
def rows() -> dict[Column, Any]:
    """More than are at hand at a time."""
    size = 20_011
    numbers = {A: RNG.integers(-ONE, ONE + 1, size), B: RNG.integers(-ONE, ONE + 1, size)}
    return {**numbers, W: RNG.integers(0, 2**22, size) * 2**28, C: RNG.integers(0, 3, size)}


@pytest.fixture
def arrays(rows: dict[Column, Any]) -> ArrayTable:
    spans = {A: (-ONE, ONE), B: (-ONE, ONE), W: (0, 2**50), C: (0, 2)}
    return ArrayTable({name: column.astype(np.float64) for name, column in rows.items()}, spans)


def listed(rows: dict[Column, Any], name: Column) -> list[int]:
    return [int(each) for each in rows[name]]


def expected(rows: dict[Column, Any]) -> dict[Any, list[int]]:
    """Terms beside what they are in Python's own integers."""
    a, b, w = (listed(rows, name) for name in (A, B, W))
    far = Multiply(W, Constant(2**10))
    return {
        COUNT: [1] * len(a),
        Add(Multiply(A, A), Constant(-7)): [x * x - 7 for x in a],
        Multiply(Multiply(A, Constant(7)), B): [7 * x * y for x, y in zip(a, b, strict=True)],
        Multiply(A, Constant(2**40)): [x * 2**40 for x in a],
        far: [x * 2**10 for x in w],
        Least(far, Constant(2**52)): [min(x * 2**10, 2**52) for x in w],
        Least(Add(far, A), Constant(FAR)): [min(x * 2**10 + y, FAR) for x, y in zip(w, a, strict=True)],
        Divide(Add(A, Constant(ONE)), Constant(9)): [(x + ONE) // 9 for x in a],
        Choose(Less(Add(far, A), Add(far, B)), far, A): [
            z * 2**10 if x < y else x for x, y, z in zip(a, b, w, strict=True)
        ],
        Add(Constant(3), Constant(4)): [7] * len(a),
    }


def test_sums_over_all_rows_are_exact(rows: dict[Column, Any], arrays: ArrayTable) -> None:
    wanted = expected(rows)
    found = arrays.sums([], list(wanted))
    assert [int(each) for each in found[:, 0]] == [sum(each) for each in wanted.values()]


def test_sums_by_cell_are_exact(rows: dict[Column, Any], arrays: ArrayTable) -> None:
    wanted, cells = expected(rows), listed(rows, C)
    found = arrays.sums([CellKey(C, 2)], list(wanted))
    for sums, values in zip(found, wanted.values(), strict=True):
        here = [sum(v for v, c in zip(values, cells, strict=True) if c == cell) for cell in range(2)]
        assert [int(each) for each in sums] == here


def test_the_nearest_is_the_first_of_equals(rows: dict[Column, Any], arrays: ArrayTable) -> None:
    features = [Feature("a", A, ONE, 0.0, 1.0), Feature("b", B, ONE, 0.0, 1.0)]
    centres = np.array([[0.5, 0.5], [-0.5, 0.25], [0.5, 0.5], [0.0, -0.75]])
    points = np.rint(centres * ONE)
    found = arrays.with_values([locate_nearest(features, centres)])[0].column(Column(3, "v4"))
    every = np.column_stack([rows[A], rows[B]])[:, None, :] - points
    assert np.array_equal(found, (every**2).sum(axis=2).argmin(axis=1))
    assert set(found.tolist()) == {0.0, 1.0, 3.0}


def test_one_centre_needs_no_cell(arrays: ArrayTable, rows: dict[Column, Any]) -> None:
    away = clip_deviation(Feature("a", A, ONE, 0.0, 1.0), Constant(0), [0.25], 100)
    assert away == clip_value(Add(A, Constant(-ONE // 4)), 100)


# ---- rows that are never laid out ----


@pytest.mark.parametrize("bounds", [(-1, 1), (-3, 5)])
@pytest.mark.parametrize("count", [0, 1, 9000])
def test_sums_do_not_depend_on_how_rows_lie(bounds: tuple[int, int], count: int) -> None:
    """Sums and products of rows around a point: computed as they pass, and from columns."""
    points = RNG.normal(size=(count, 4)) * 2
    points[::7, 2] = np.nan
    own = read_arrays(points, ArrayBounds.of(4, bounds))
    view = RowTransform(0.6, centre=(0.3, 0.1, -0.2, 0.0))
    passing, laid = (
        transform_arrays(own.declared, own.arrays, view),
        transform_arrays(own.declared, own.arrays, view),
    )
    features, norm = passing.declared.features, passing.declared.norm
    terms = (
        build_gram_block(features, norm, Fraction(1)).terms
        + build_sum_block(features, norm, Fraction(1)).terms
    )
    columns = np.array([laid.arrays.column(each.value) for each in features])  # type: ignore[arg-type]
    assert np.array_equal(passing.arrays.sums([], terms), laid.arrays.sums([], terms))
    again = passing.arrays.sums([], terms)
    assert np.array_equal(again[-4:, 0], columns.sum(axis=1))
    assert not count or (columns**2).sum(axis=0).max() <= norm**2  # type: ignore[operator]


def test_what_was_summed_is_the_same_when_it_passes_again() -> None:
    points = RNG.uniform(-1.2, 1.2, size=(5000, 3))
    own = read_arrays(points, ArrayBounds.of(3, (-1, 1)))
    whole = np.rint(np.clip(points, -1, 1) * ONE)
    features = own.declared.features
    assert np.array_equal(own.arrays.sums([], [each.value for each in features])[:, 0], whole.sum(axis=0))
    products = build_gram_block(features, None, Fraction(1)).terms
    found = own.arrays.sums([], products)[:, 0]
    weights = np.where(np.eye(3) > 0, 5, 7)[np.triu_indices(3)]
    assert np.array_equal(found, (whole.T @ whole)[np.triu_indices(3)] * weights)
    assert np.array_equal(own.arrays.column(features[1].value), whole[:, 1])  # type: ignore[arg-type]
