"""Gaussians of classes from noisy moments: what is drawn, what is refused, and what is paid."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.privacy.events import Gaussian
from sfumato.synth.images import class_moments
from sfumato.synth.images.class_moments import MomentsKernel
from sfumato.synth.images.public_basis import REACH, PublicBasis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RANDOM = np.random.default_rng(3)
SIDE = 6
BLOBS = np.zeros((2, SIDE, SIDE))
BLOBS[0, 1:3, 1:3], BLOBS[1, 3:5, 2:6] = 200, 160
LABELS = np.repeat([0, 1], [1500, 500])
IMAGES = np.clip(BLOBS[LABELS] + RANDOM.normal(30, 12, (2000, SIDE, SIDE)), 0, 255).astype(np.uint8)
RICH: dict[str, Any] = {"rho": 1e6, "bounds": (0, 255), "classes": [0, 1]}


def test_samples_have_the_declared_form() -> None:
    made = sf.synth.Moments(epsilon=1, delta=1e-6, bounds=(0, 255)).fit(IMAGES, LABELS, classes=[0, 1, 7])
    rows, labels = made.sample(300, seed=1)
    assert (rows.shape, rows.dtype, labels.shape) == ((300, SIDE, SIDE), np.uint8, (300,))
    assert set(labels.tolist()) <= {0, 1, 7}
    again, _ = made.sample(300, seed=1)
    assert (rows == again).all()
    only, sevens = made.sample(5, labels=7)
    assert sevens.tolist() == [7] * 5
    assert only.shape == (5, SIDE, SIDE)
    assert made.guarantee_.epsilon == 1
    assert "one row" in repr(made)


def test_with_little_noise_classes_keep_weight_mean_and_covariance() -> None:
    made = sf.synth.Moments(**RICH, size=SIDE * SIDE).fit(IMAGES, LABELS)
    rows, labels = made.sample(20_000, seed=2)
    # A share of 3/4 has a deviation of 0.003 here, so it is within 0.03 but once in 10²⁰ runs.
    assert (labels == 0).mean() == pytest.approx(0.75, abs=0.03)
    for side in (0, 1):
        real, drawn = (
            part.reshape(len(part), -1).astype(float)
            for part in (IMAGES[side == LABELS], rows[labels == side])
        )
        assert np.abs(real.mean(axis=0) - drawn.mean(axis=0)).max() < 3
        assert drawn.std(axis=0) == pytest.approx(real.std(axis=0), rel=0.3, abs=2)


def test_colours_vectors_and_an_own_basis() -> None:
    colours = np.repeat(IMAGES[:200, :, :, None], 3, axis=3) / 255.0
    rows, _ = (
        sf.synth.Moments(rho=10, bounds=(0, 1), classes=[0, 1]).fit(colours, LABELS[:200] == 0).sample(4)
    )
    assert rows.shape == (4, SIDE, SIDE, 3)
    assert 0 <= rows.min() <= rows.max() <= 1
    flat = RANDOM.normal(size=(400, 300))
    basis = np.linalg.qr(RANDOM.normal(size=(300, 5)))[0].T
    made = sf.synth.Moments(rho=10, bounds=(-3, 3), classes=["a", "b"], basis=basis)
    rows, labels = made.fit(flat, np.where(flat[:, 0] > 0, "a", "b")).sample(7)
    assert rows.shape == (7, 300)
    assert set(labels.tolist()) <= {"a", "b"}
    assert made.size_ <= 5


def test_the_number_of_coefficients_follows_from_the_noise() -> None:
    sizes = [
        sf.synth.Moments(rho=rho, bounds=(0, 255), classes=[0, 1]).fit(IMAGES, LABELS).size_
        for rho in (1e-4, 1e-2, 1)
    ]
    assert sizes[0] < sizes[1] < sizes[2] == SIDE * SIDE


# ---- refused before anything is charged ----


def _spoilt(at: Any, value: float) -> Any:
    found = IMAGES.astype(float)
    found[at] = value
    return found


REFUSED: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("SF-N316", IMAGES, LABELS, {"delta": None}),
    ("SF-E213", IMAGES, np.where(np.arange(2000) == 5, 9, LABELS), {}),
    ("SF-E176", IMAGES, LABELS[:-1], {}),
    ("SF-E176", IMAGES[:, 0, 0], LABELS, {}),
    ("SF-E176", [["a", "b"]], [0], {}),
    ("SF-E176", IMAGES[:0], LABELS[:0], {}),
    ("SF-N105", _spoilt((7, 1, 1), np.nan), LABELS, {}),
    ("SF-N105", _spoilt((7, 1, 1), np.inf), LABELS, {}),
    ("SF-E176", np.zeros((9, 400)), np.zeros(9), {}),
    ("SF-E176", IMAGES, LABELS, {"basis": np.ones((2, SIDE * SIDE))}),
    ("SF-E101", IMAGES, LABELS, {"bounds": None}),
    ("SF-E101", IMAGES, LABELS, {"classes": None}),
]


@pytest.mark.parametrize(("code", "rows", "labels", "other"), REFUSED)
def test_bad_input_is_one_coded_error_before_the_charge(
    code: str, rows: Any, labels: Any, other: dict[str, Any], tmp_path: Path
) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=4, delta=1e-5)
    given = {"epsilon": 1, "delta": 1e-6, "bounds": (0, 255), "classes": [0, 1], "budget": account, **other}
    with pytest.raises(UsageError) as refused:
        sf.synth.Moments(**given).fit(rows, labels)
    assert refused.value.code == code
    assert account.left == 4


def test_an_account_pays_once_for_the_whole_fit(tmp_path: Path) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=1.25, delta=1e-5)
    made = sf.synth.Moments(epsilon=1, delta=1e-6, bounds=(0, 255), classes=[0, 1], budget=account)
    made.fit(IMAGES, LABELS)
    with pytest.raises(sf.errors.BudgetError):
        made.fit(IMAGES, LABELS)


def test_samples_before_a_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="SF-N606"):
        sf.synth.Moments(rho=1).sample(3)


# ---- replayed on neighbours ----

KERNEL = MomentsKernel(PublicBasis.of((3, 3)), (ONE,) * 9, 2, Fraction(2))


def neighbours() -> Iterator[tuple[Any, Any]]:
    """Tables with and without one extreme row, of either class, both ways round."""
    random = np.random.default_rng(5)
    wide = np.vstack([random.integers(-ONE, ONE + 1, (9, 40)), random.integers(0, 2, 40)])
    # Rows that are all alike leave a length near 0, beside which any other row is far away.
    alike = np.vstack([np.zeros((9, 40), dtype=int), random.integers(0, 2, 40)])
    checks = np.where(np.arange(9) % 2, -ONE, ONE)
    for rows in (wide, alike):
        for extreme in (np.full(9, ONE), np.full(9, -ONE), checks, np.eye(9, dtype=int)[0] * ONE):
            more = np.column_stack([rows, [*extreme, 1]])
            yield rows, more
            yield more, rows


def test_every_measurement_moves_by_no_more_than_its_price() -> None:
    found = audit.replay(KERNEL.release, neighbours(), claim=Gaussian(Fraction(2)))
    assert not found.violates, found.sentence
    # The bounds are reached by extreme rows: more noise than is due is no proof.
    assert found.reached > 0.9


def test_uncharged_class_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MomentsKernel._release

    def leaky(kernel: Any, norm: int, share: Fraction, exact: list[Any]) -> Any:
        return np.array(exact) if share == class_moments._COUNTS else honest(kernel, norm, share, exact)

    monkeypatch.setattr(MomentsKernel, "_release", leaky)
    assert audit.replay(KERNEL.release, neighbours(), claim=Gaussian(Fraction(2))).violates


def test_preprocessing_by_the_rows_themselves_is_caught() -> None:
    def scaled(rows: Any) -> Any:
        largest = np.abs(rows[:-1]).max(axis=1)
        return MomentsKernel(KERNEL.basis, tuple(largest.tolist()), 2, Fraction(2)).release(rows)

    random = np.random.default_rng(5)
    rows = np.vstack([random.integers(-400, 400, (9, 40)), random.integers(0, 2, 40)])
    pair = rows, np.column_stack([rows, [*[ONE] * 9, 0]])
    assert audit.replay(scaled, [pair], claim=Gaussian(Fraction(2))).violates


def test_clipping_holds_for_rows_of_any_length() -> None:
    basis = PublicBasis.of((4, 4))
    found = basis.project(3, lambda at: np.full((3, 16), float(ONE))[at])
    assert (found**2).sum(axis=1).max() <= REACH**2
    assert np.array(basis.directions).shape == (16, 16)


# ---- behind the curator ----


def test_a_table_is_charged_once_and_the_same_fit_again_is_free(tmp_path: Path) -> None:
    ages = np.where(LABELS == 0, 30, 70) + np.arange(2000) % 7
    wards = np.where(LABELS == 0, "a", "b")
    rows = pa.table({"age": ages, "cost": ages * 10, "ward": wards})
    columns = {"age": sf.between(0, 110), "cost": sf.between(0, 1000), "ward": sf.one_of("a", "b", "c")}
    lab = sf.create(tmp_path / "lab")
    lab.register("visits", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=40, delta=1e-5))
    session, asked = lab.session(), {"table": "visits", "features": ["age", "cost"], "target": "ward"}
    made = session.fit(sf.synth.Moments(epsilon=20, delta=1e-6), **asked)
    drawn, labels = made.sample(500, seed=4)
    assert drawn.shape == (500, 2)
    # Noise in a mean of 1500 rows is far below 1 at this ε.
    assert drawn[labels == "a", 0].mean() == pytest.approx(33, abs=3)
    assert np.corrcoef(drawn[labels == "a"].T)[0, 1] > 0.9
    spent = str(lab.budget)
    again = session.fit(sf.synth.Moments(epsilon=20, delta=1e-6), **asked)
    assert (again.class_counts_ == made.class_counts_).all()
    assert str(lab.budget) == spent
    for wrong in ({"target": None}, {"rows_per_unit": 2}):
        with pytest.raises(UsageError, match="SF-E112"):
            session.fit(sf.synth.Moments(epsilon=1, delta=1e-6), **{**asked, **wrong})
    assert str(lab.budget) == spent


def test_sums_of_squares_are_exact_where_doubles_would_round() -> None:
    odd = 2.0**52 + 1
    assert class_moments._sum_exactly(np.full(3, odd)) == 3 * int(odd) != int(np.full(3, odd).sum())
