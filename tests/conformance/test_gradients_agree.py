"""Gradients of losses, computed in layers of columns, are the same on every engine and in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.both_engines import Both
from conformance.with_spark import Beside
from sfumato.curator.lower.computed import ComputedColumns, clip_to_norm
from sfumato.curator.lower.row_source import RowSource
from sfumato.engines.program import CellSums, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredGrid
from sfumato.engines.values import Column
from sfumato.learn.convex.losses import LOGISTIC, huber
from sfumato.learn.convex.score_gradients import MarginGradient, ScoreGrid, SoftmaxGradient
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.declared import Declared, Feature, Labels
from sfumato.oracle.gradients import FeatureMatrix, GradientQuestion

NAMES = [Column(0, f"x{place}") for place in range(3)]
LABEL = Column(0, "y")
SCORE = ScoreGrid(256 * ONE)
GRADIENTS = [
    MarginGradient(LOGISTIC, SCORE, 0.3, 2),
    MarginGradient(huber(), SCORE, 0.7, 3),
    SoftmaxGradient(SCORE, 0.45, 3),
]


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.integers(-ONE, ONE + 1, (80, 3))
    X[0], X[1], X[2] = ONE, -ONE, 0
    return X, rng.integers(-1, 4, 80)


def prepared(engines: Any, rows: tuple[np.ndarray, np.ndarray]) -> Any:
    X, y = rows
    columns: dict[str, Any] = {name.name: X[:, place] for place, name in enumerate(NAMES)}
    columns["y"] = pa.array([None if label == 3 else int(label) for label in y], pa.int64())
    grids = (*(StoredGrid(name.name, -ONE, ONE) for name in NAMES), StoredGrid("y", -1, 4))
    engines.prepare(pa.table(columns), Preparation(None, 1, grids, b"k"), "t")
    return engines


@pytest.fixture
def both(tmp_path: Path, postgres: str, rows: tuple[np.ndarray, np.ndarray]) -> Both:
    return prepared(Both.at(tmp_path, postgres), rows)


@pytest.fixture
def beside(tmp_path: Path, spark: Any, rows: tuple[np.ndarray, np.ndarray]) -> Beside:
    return prepared(Beside.at(tmp_path, spark), rows)


def layers() -> ComputedColumns:
    unknown: Any = None
    return ComputedColumns(RowSource(Scan("t"), ALL, unknown, unknown, 1, (), 1))


def compare(engines: Any, rows: tuple[np.ndarray, np.ndarray], gradient: Any) -> None:
    X, y = rows
    columns = {name: X[:, place].astype(float) for place, name in enumerate(NAMES)}
    features = tuple(Feature(name.name, name, ONE, 0.0, 1.0) for name in NAMES)
    known = Declared(features, Labels(LABEL, tuple(range(gradient.classes))), {}, 2 * ONE)
    labels = np.where(y < gradient.classes, y, -1).astype(float)
    weights = np.random.default_rng(5).normal(0, 500, (gradient.outputs, 4))
    question = GradientQuestion(np.rint(weights).astype(np.int64), gradient, 400)
    grown = layers()
    terms = question.lower_terms(known, grown.add_columns)
    duck, other = engines.run(CellSums(grown.source.rows, ALL, (), tuple(map(Total, terms))))
    expected = question.sum_rows(
        FeatureMatrix.of(known, ArrayTable({**columns, LABEL: labels}, {}), question)
    )
    assert duck == other
    assert [int(each) for (each,) in duck] == expected.ravel().tolist()


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_gradients_are_the_same_integers(
    both: Both, rows: tuple[np.ndarray, np.ndarray], gradient: Any
) -> None:
    compare(both, rows, gradient)


def test_gradients_are_the_same_integers_on_spark(
    beside: Beside, rows: tuple[np.ndarray, np.ndarray]
) -> None:
    compare(beside, rows, GRADIENTS[-1])


def test_rows_are_shortened_alike(both: Both) -> None:
    for norm in (100, ONE, 3 * ONE):
        grown = layers()
        columns = clip_to_norm(grown, NAMES, [ONE] * 3, norm, ONE)
        duck, postgres = both.run(CellSums(grown.source.rows, ALL, (), tuple(map(Total, columns))))
        assert duck == postgres
