"""The perceptron: what it learns, and that engines sum what NumPy does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, UsageError
from sfumato.learn import Perceptron, load
from sfumato.learn.perceptron import PerceptronGradient

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (4000, 3))
TWO = (X @ [1.0, -2.0, 0.5] + 0.2 > 0).astype(int)
THREE = np.array([[1.0, 0, 0], [-1, 1, 0], [0, -1, 1]]).dot(X.T).argmax(axis=0)


@pytest.mark.parametrize("spend", [{"epsilon": 2.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}])
def test_two_classes_are_told_apart(spend: dict[str, float]) -> None:
    model = Perceptron(bounds=(-1, 1), classes=[0, 1], **spend).fit(X, TWO)
    assert model.score(X, TWO) > 0.9
    assert model.coef_.shape == (1, 3)


def test_more_classes_are_told_apart() -> None:
    model = Perceptron(bounds=(-1, 1), classes=[0, 1, 2], epsilon=2.0, delta=1e-6).fit(X, THREE)
    assert model.score(X, THREE) > 0.85
    assert model.coef_.shape == (3, 3)
    with pytest.raises(AttributeError):
        model.predict_proba(X)


def test_only_rows_on_the_wrong_side_pull() -> None:
    two, codes = PerceptronGradient(2), np.array([1, 0, 1, 0, -1])
    found = two.compute_gradients(np.array([[5.0], [5.0], [0.0], [0.0], [3.0]]), two.encode_labels(codes))
    assert found[:, 0].tolist() == [0, 1, -1, 1, 0]
    three = PerceptronGradient(3)
    found = three.compute_gradients(
        np.array([[1.0, 2, 3], [3.0, 2, 1], [0.0, 9, 0]]), three.encode_labels(np.array([0, 0, 7]))
    )
    assert found.tolist() == [[-70, 0, 70], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_no_row_pulls_further_than_it_is_priced(classes: int) -> None:
    gradient = PerceptronGradient(classes)
    scores = RNG.integers(-5, 6, (500, gradient.outputs)).astype(float)
    found = gradient.compute_gradients(scores, gradient.encode_labels(RNG.integers(-1, classes + 1, 500)))
    lengths = (found**2).sum(axis=1)
    assert lengths.max() <= gradient.norm_bound**2
    assert lengths.max() > 0.95 * gradient.norm_bound**2


def session(path: Path, y: np.ndarray, classes: list[int]) -> Any:
    lab = sf.create(path / "lab")
    rows = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}
    columns = dict.fromkeys("abc", sf.between(-1, 1, step=2**-11)) | {"y": sf.one_of(*classes)}
    lab.register("t", pa.table(rows), unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1e6, delta=1e-6))
    return lab.session()


@pytest.mark.parametrize(("y", "classes"), [(TWO, [0, 1]), (THREE, [0, 1, 2])])
def test_behind_the_curator_it_learns_the_same(tmp_path: Path, y: np.ndarray, classes: list[int]) -> None:
    s = session(tmp_path, y, classes)
    there = s.fit(Perceptron(epsilon=1e5, rounds=3), table="t", features=list("abc"), target="y")
    here = Perceptron(epsilon=1e5, rounds=3, bounds=(-1, 1), classes=classes).fit(X, y)
    assert (there.predict(pd.DataFrame(X, columns=list("abc"))) == here.predict(X)).mean() > 0.98
    with pytest.raises(BudgetError):
        s.fit(Perceptron(epsilon=1e7), table="t", features=list("abc"), target="y")


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    model = Perceptron(bounds=(-1, 1), classes=[0, 1], epsilon=2.0).fit(X, TWO)
    model.save(tmp_path / "m.npz")
    assert np.array_equal(load(tmp_path / "m.npz").predict(X), model.predict(X))


def test_what_is_missing_is_refused() -> None:
    for given in ({"bounds": (-1, 1)}, {"classes": [0, 1]}):
        with pytest.raises(UsageError):
            Perceptron(epsilon=1.0, **given).fit(X, TWO)
