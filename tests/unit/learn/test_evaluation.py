"""Evaluations and kernels on own arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import audit
from sfumato.errors import PolicyError, UsageError
from sfumato.learn import (
    Account,
    GaussianNB,
    KernelSVC,
    LinearSVC,
    LogisticRegression,
    evaluate,
    load,
)
from sfumato.privacy.events import Sequential


def blobs(rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, rows)
    return np.clip(rng.normal(0, 0.2, (rows, 3)) + 0.5 * (2 * y[:, None] - 1), -1, 1), y


def logistic(**more: Any) -> LogisticRegression:
    return LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient", **more)


# ---- evaluations -------------------------------------------------------------------------------------------


def test_an_evaluation_is_near_the_truth() -> None:
    X, y = blobs()
    model = logistic(epsilon=1.0, delta=1e-6).fit(X, y)
    measured = evaluate(model, X, y, epsilon=4.0)
    assert abs(measured.accuracy.value - model.score(X, y)) < 0.02
    assert measured.accuracy.low <= measured.accuracy.value <= measured.accuracy.high
    assert measured.auc is not None
    assert measured.auc.value > 0.97
    assert abs(int(measured.confusion.sum()) - len(y)) < 50
    assert all(0 <= share.low <= share.value <= share.high <= 1 for _, share in measured.calibration)


def test_intervals_hold_the_exact_shares() -> None:
    """At 99.9 %, of 200 draws of the noise 193 or more; fewer is less likely than one in a million."""
    X, y = blobs(500)
    model = GaussianNB(bounds=(-1, 1), classes=[0, 1], epsilon=1.0).fit(X, y)
    turned = np.where(np.arange(500) % 4 == 0, 1 - y, y)
    exact = model.score(X, turned)
    found = [evaluate(model, X, turned, epsilon=0.5, delta=1e-5, confidence=0.999) for _ in range(200)]
    assert sum(each.accuracy.low <= exact <= each.accuracy.high for each in found) >= 193


def test_three_classes_have_no_auc_and_labels_of_none_are_left_out() -> None:
    X, y = blobs(300)
    model = LogisticRegression(bounds=(-1, 1), classes=[0, 1, 2], epsilon=1.0, delta=1e-6).fit(X, y)
    measured = evaluate(model, X, np.full(300, 9), epsilon=50.0)
    assert measured.auc is None
    assert np.abs(measured.confusion).max() <= 2


def test_an_evaluation_keeps_its_price() -> None:
    X, y = blobs(40)
    model = LinearSVC(bounds=(-1, 1), classes=[0, 1], epsilon=1.0, delta=1e-6).fit(X, y)
    more = np.vstack([X, [[1e6, -1e6, np.nan]]])

    def program(data: tuple[np.ndarray, np.ndarray]) -> Any:
        measured = evaluate(model, *data, epsilon=1.0)
        return [measured.confusion, measured.accuracy.value]

    pairs = [((X, y), (more, np.append(y, label))) for label in (0, 1, 5)]
    found = audit.replay(program, [*pairs, *(pair[::-1] for pair in pairs)], claim=1.0)
    assert found.finding is None
    assert found.reached > 0.99


def test_an_account_pays_for_an_evaluation(tmp_path: Path) -> None:
    account = Account(tmp_path / "fits.ledger", epsilon=2)
    model = logistic(epsilon=1.0).fit(*blobs(100))
    evaluate(model, *blobs(100), epsilon=1.0, budget=account)
    assert 0.99 < account.left <= 1


def test_only_fitted_classifiers_are_evaluated() -> None:
    with pytest.raises(UsageError, match="fitted classifiers"):
        evaluate(logistic(), *blobs(10), epsilon=1.0)
    with pytest.raises(UsageError, match="confidence"):
        evaluate(logistic(epsilon=1.0).fit(*blobs(50)), *blobs(50), epsilon=1.0, confidence=1.0)


# ---- kernels -----------------------------------------------------------------------------------------------


def rings(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, rows)
    turn, far = rng.uniform(0, 2 * np.pi, rows), np.where(y, 0.3, 0.9) + rng.normal(0, 0.05, rows)
    return np.column_stack([far * np.cos(turn), far * np.sin(turn)]), y


def kernel(**more: Any) -> KernelSVC:
    return KernelSVC(bounds=(-1.2, 1.2), classes=[0, 1], gamma=2.0, waves=60, **more)


def test_a_kernel_tells_rings_apart(tmp_path: Path) -> None:
    X, y = rings()
    fitted = kernel(epsilon=1.0, delta=1e-6).fit(X, y)
    assert fitted.score(X, y) > 0.9
    assert fitted.predict(np.array([[np.nan, np.nan]])).shape == (1,)
    fitted.save(tmp_path / "rings.npz")
    assert np.array_equal(load(tmp_path / "rings.npz").predict(X), fitted.predict(X))


def test_a_kernel_keeps_its_price() -> None:
    X, y = rings(60)
    more = np.vstack([X, [[1e9, -1e9]]]), np.append(y, 1)

    def program(data: tuple[np.ndarray, np.ndarray]) -> Any:
        return kernel(epsilon=1.0, delta=1e-6, steps=3).fit(*data).coef_

    claim = Sequential(kernel(epsilon=1.0, delta=1e-6).fit_budget().events)
    found = audit.replay(program, [((X, y), more), (more, (X, y))], claim=claim)
    assert found.finding is None
    assert found.reached > 0.5


def test_waves_are_of_length_one_and_products_are_the_kernel() -> None:
    X, y = rings(300)
    fitted = KernelSVC(
        bounds=(-1.2, 1.2), classes=[0, 1], gamma=0.5, waves=4000, epsilon=1.0, delta=1e-6, steps=1
    ).fit(X, y)
    waves = fitted._fourier_features(X)
    assert np.allclose(np.linalg.norm(waves, axis=1), 1)
    apart = ((X[:1] - X) ** 2).sum(axis=1) / 1.2**2
    assert np.abs(waves[0] @ waves.T - np.exp(-0.5 * apart)).max() < 0.1


def test_kernels_stay_outside() -> None:
    with pytest.raises(PolicyError, match="own arrays"):
        kernel(epsilon=1.0).begin_fit(["x"], None)  # type: ignore[arg-type]
