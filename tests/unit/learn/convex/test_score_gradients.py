"""Gradients in whole numbers: engines and NumPy agree, and no row adds more than it is priced for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.curator.lower.computed import ComputedColumns, clip_to_norm, grid_factor, sum_values
from sfumato.curator.lower.row_source import RowSource
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import CellSums, Counted, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredGrid
from sfumato.engines.values import AtLeast, Column, Multiply
from sfumato.learn.convex.losses import LOGISTIC, huber
from sfumato.learn.convex.score_gradients import (
    STEPS,
    MarginGradient,
    ScoreGrid,
    SoftmaxGradient,
)
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.declared import Declared, Feature, Labels
from sfumato.oracle.gradients import FeatureMatrix, GradientQuestion, ScoreGradient

FEATURES, ROWS = 5, 400
NAMES = [Column(0, f"x{place}") for place in range(FEATURES)]
LABEL = Column(0, "y")
SCORE = ScoreGrid(256 * ONE)
GRADIENTS: list[ScoreGradient] = [
    MarginGradient(LOGISTIC, SCORE, 0.3, 2),
    MarginGradient(huber(), SCORE, 1.0, 2),
    MarginGradient(huber(0.1), SCORE, 0.7, 4),
    SoftmaxGradient(SCORE, 0.45, 4),
    SoftmaxGradient(SCORE, 5.0, 4),
]


def drawn(bound: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.integers(-bound, bound + 1, (ROWS, FEATURES))
    X[0], X[1], X[2] = bound, -bound, 0
    return X, rng.integers(-1, 5, ROWS)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    """Labels from −1 to 4, of which 0 to 3 are declared, and some are missing."""
    X, y = drawn(ONE)
    engine = DuckDBEngine(tmp_path_factory.mktemp("lab"))
    columns: dict[str, Any] = {name.name: X[:, place] for place, name in enumerate(NAMES)}
    columns["y"] = pa.array([None if label == 4 else int(label) for label in y], pa.int64())
    grids = (*(StoredGrid(name.name, -ONE, ONE) for name in NAMES), StoredGrid("y", -1, 4))
    engine.prepare(pa.table(columns), Preparation(None, 1, grids, b"k"), "t")
    return engine


def layers() -> ComputedColumns:
    unknown: Any = None
    return ComputedColumns(RowSource(Scan("t"), ALL, unknown, unknown, 1, (), 1))


def told(engine: DuckDBEngine, grown: ComputedColumns, terms: list[Any]) -> np.ndarray:
    found = engine.run(CellSums(grown.source.rows, ALL, (), tuple(map(Total, terms))))
    return np.array(found.tolist(), dtype=np.int64)[:, 0]


def declared(bound: int, norm: int, classes: int) -> Declared:
    features = tuple(Feature(name.name, name, bound, 0.0, 1.0) for name in NAMES)
    return Declared(features, Labels(LABEL, tuple(range(classes))), {}, norm)


def arrays(X: np.ndarray, y: np.ndarray) -> ArrayTable:
    columns = {name: X[:, place].astype(float) for place, name in enumerate(NAMES)}
    return ArrayTable({**columns, LABEL: y.astype(float)}, {})


def asked(gradient: ScoreGradient, seed: int = 5) -> GradientQuestion:
    weights = np.random.default_rng(seed).normal(0, 2 * 256, (gradient.outputs, FEATURES + 1))
    return GradientQuestion(np.rint(weights).astype(np.int64), gradient, 400)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_an_engine_and_numpy_agree(engine: DuckDBEngine, gradient: Any) -> None:
    X, y = drawn(ONE)
    y = np.where(y < gradient.classes, y, -1)
    known = declared(ONE, 3 * ONE, gradient.classes)
    question = asked(gradient)
    grown = layers()
    terms = question.lower_terms(known, grown.add_columns)
    expected = question.sum_rows(FeatureMatrix.of(known, arrays(X, y), question))
    assert told(engine, grown, terms).tolist() == expected.ravel().tolist()
    assert np.abs(expected).sum() > 0


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_no_row_adds_more_than_priced(gradient: Any) -> None:
    known = declared(ONE, 3 * ONE, gradient.classes)
    corners = np.array(np.meshgrid(*[[-ONE, ONE]] * FEATURES)).reshape(FEATURES, -1).T
    longest = 0.0
    for seed in range(20):
        question = asked(gradient, seed)
        for label in range(-1, gradient.classes):
            rows = FeatureMatrix.of(known, arrays(corners, np.full(len(corners), label)), question)
            found = gradient.compute_gradients(rows.matrix @ question.weights.T.astype(float), rows.labels)
            parts = np.linalg.norm(found, axis=1) * np.linalg.norm(rows.matrix, axis=1)
            longest = max(longest, float(parts.max()))
            assert label >= 0 or not found.any()
            assert np.array_equal(found, np.rint(found))
    block = question.build_block(known)
    assert longest**2 <= block.l2_squared
    assert block.l1**2 >= block.l2_squared * question.weights.size
    reached = gradient.norm_bound if gradient.norm_bound < STEPS else STEPS
    assert longest > 0.5 * reached * ONE * np.sqrt(FEATURES)


def test_rows_are_shortened_to_what_is_priced(engine: DuckDBEngine) -> None:
    X, _ = drawn(ONE)
    squares = []
    for norm in (1, 1000, ONE, 2 * ONE, 10 * ONE):
        grown = layers()
        columns = clip_to_norm(grown, NAMES, [ONE, ONE, ONE, ONE, ONE], norm, ONE)
        (squared,) = grown.add_columns([sum_values([Multiply(each, each) for each in columns])])
        longer = CellSums(grown.source.rows, AtLeast(squared, norm * norm + 1), (), (Counted(),))
        assert engine.run(longer).tolist() == [[0]]
        squares.append(told(engine, grown, [squared])[0])
    lengths = (X.astype(float) ** 2).sum(axis=1)
    assert squares == sorted(squares)
    assert squares[-1] == lengths.sum()
    assert squares[2] > 0.95 * np.minimum(lengths, ONE**2).sum()


def test_features_of_different_bounds_are_made_alike() -> None:
    for bound in (1, 7, 100, 5000, 8191):
        assert 0.85 < grid_factor(bound) * bound / 2**16 <= 1
