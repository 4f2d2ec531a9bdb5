"""Nearest neighbours by prototypes: the votes are those of rows nearby, and engines sum what NumPy does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import sfumato as sf
from sfumato.errors import BudgetError, UsageError
from sfumato.learn import NearestNeighbors, load
from sfumato.learn.neighbors import _COSINES, _SINES, FourierFeatures

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (3000, 2))
NAMED = pd.DataFrame(X, columns=["a", "b"])
RINGS = (np.linalg.norm(X, axis=1) > 0.7).astype(int)


def neighbours(**given: Any) -> NearestNeighbors:
    return NearestNeighbors(**{"bounds": (-1, 1), "classes": [0, 1], **given})


@pytest.mark.parametrize("spend", [{"epsilon": 2.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}])
def test_classes_that_no_line_divides_are_told_apart(spend: dict[str, float]) -> None:
    model = neighbours(**spend).fit(X, RINGS)
    assert model.score(X, RINGS) > 0.85
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)


def test_votes_are_the_kernel_of_the_rows() -> None:
    """By so many waves the mean of the kernel is off by less than 6 deviations of 1 / √waves."""
    model = neighbours(epsilon=1e4, width=0.5, waves=1024).fit(X, RINGS)
    points = RNG.uniform(-1, 1, (50, 2))
    kernel = rbf_kernel(points, X, gamma=1 / (2 * 0.5**2))
    true = np.stack([kernel[:, each == RINGS].sum(axis=1) for each in (0, 1)], axis=1)
    off = abs(model.votes(points) - true) / np.bincount(RINGS)
    assert off.max() < 6 / math.sqrt(1024)


def test_no_row_adds_more_than_its_price() -> None:
    waves = FourierFeatures(np.zeros((7, 2), dtype=np.int64), (4, 4))
    block, vectors = waves.build_block(), np.array([_COSINES, _SINES])
    assert 7 * (vectors**2).sum(axis=0).max() <= block.l2_squared <= 7 * 256**2
    assert 7 * abs(vectors).sum(axis=0).max() <= block.l1


def test_rows_of_no_class_vote_for_none() -> None:
    labels = np.full(len(X), 9)
    labels[0] = 0  # a fit of no declared class at all is refused
    model = neighbours(epsilon=1e4, width=0.5).fit(X, labels)
    assert abs(model.votes(X)).max() < 5


def session(path: Path) -> Any:
    lab = sf.create(path / "lab")
    columns = {"a": sf.between(-1, 1, step=2**-11), "b": sf.between(-1, 1, step=2**-11), "y": sf.one_of(0, 1)}
    rows = pa.table({"a": X[:, 0], "b": X[:, 1], "y": RINGS})
    lab.register("t", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1e6, delta=1e-6))
    return lab.session()


def test_behind_the_curator_the_prototypes_are_the_same(tmp_path: Path) -> None:
    s = session(tmp_path)
    given: dict[str, Any] = {"epsilon": 1e4, "width": 0.4, "waves": 20}
    there = s.fit(NearestNeighbors(**given), table="t", features=["a", "b"], target="y")
    here = neighbours(**given).fit(X, RINGS)
    assert np.abs(there.votes(NAMED) - here.votes(X)).max() < 0.02 * len(X)
    assert there.guarantee_.epsilon == 1e4
    with pytest.raises(BudgetError):
        s.fit(NearestNeighbors(epsilon=1e7), table="t", features=["a", "b"], target="y")


def test_predictions_are_free_and_see_no_row(tmp_path: Path) -> None:
    s = session(tmp_path)
    model = s.fit(NearestNeighbors(epsilon=1.0, waves=8), table="t", features=["a", "b"], target="y")
    before = str(s.budget)
    model.predict(NAMED)
    assert str(s.budget) == before
    assert all(getattr(each, "size", 0) < 200 for each in vars(model).values())


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    model = neighbours(epsilon=2.0).fit(X, RINGS)
    model.save(tmp_path / "m.npz")
    assert np.array_equal(load(tmp_path / "m.npz").predict(X), model.predict(X))


@pytest.mark.parametrize("given", [{"bounds": None}, {"classes": None}, {"width": 0}, {"waves": 0}])
def test_what_is_missing_or_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        neighbours(epsilon=1.0, **given).fit(X, RINGS)
