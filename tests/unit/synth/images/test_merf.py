"""Generators trained on a noisy mean embedding: what is drawn, what is refused, and what is paid."""

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
from sfumato.synth.images.mean_embedding import EmbeddingKernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RANDOM = np.random.default_rng(8)
LABELS = np.repeat([0, 1], [900, 300])
IMAGES = np.full((1200, 4, 4), 40.0)
IMAGES[LABELS == 0, :2], IMAGES[LABELS == 1, 2:] = 220, 200
IMAGES = np.clip(IMAGES + RANDOM.normal(0, 10, IMAGES.shape), 0, 255)
QUICK: dict[str, Any] = {"waves": 60, "steps": 60, "rho": 50, "classes": [0, 1]}


def test_images_of_a_class_resemble_it() -> None:
    made = sf.synth.MERF(**QUICK, bounds=(0, 255)).fit(IMAGES, LABELS)
    rows, labels = made.sample(400, seed=1)
    assert rows.shape == (400, 4, 4)
    assert 0 <= rows.min() <= rows.max() <= 255
    # Classes differ by 160 in each half of an image; training need only find the sign.
    assert (rows[labels == 0, :2].mean() > rows[labels == 0, 2:].mean() + 40).all()
    assert (rows[labels == 1, 2:].mean() > rows[labels == 1, :2].mean() + 40).all()
    again, _ = made.sample(400, seed=1)
    assert (rows == again).all()
    assert made.guarantee_.rho == 50


def test_the_length_is_bought_or_declared() -> None:
    exact = np.sqrt(2 * (IMAGES / 127.5).reshape(1200, -1).var(axis=0).sum())
    bought = sf.synth.MERF(**{**QUICK, "steps": 1}, bounds=(0, 255)).fit(IMAGES, LABELS)
    # At ρ = 50 noise moves the variance by less than a hundredth of this.
    assert bought.length_ == pytest.approx(exact, rel=0.1)
    declared = sf.synth.MERF(**{**QUICK, "steps": 1}, bounds=(0, 255), length=2).fit(IMAGES, LABELS)
    assert declared.length_ == 2


FRAME = {
    "age": np.where(LABELS == 0, 30.0, 70.0) + RANDOM.normal(0, 4, 1200),
    "ward": np.where(RANDOM.random(1200) < np.where(LABELS == 0, 0.9, 0.2), "A", "B"),
}
DECLARED = {"age": (0, 110), "ward": ["A", "B", "C"]}


@pytest.mark.parametrize(("balanced", "share"), [(True, 0.5), (False, 0.75)])
def test_mixed_tables_keep_shares_of_classes_and_categories(balanced: bool, share: float) -> None:
    made = sf.synth.MERF(**QUICK, bounds=DECLARED, balanced=balanced).fit(FRAME, LABELS)
    table, labels = made.sample(3000, seed=3)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["age", "ward"]
    age, ward = (table[name].to_numpy(zero_copy_only=False) for name in ("age", "ward"))
    assert 0 <= age.min() <= age.max() <= 110
    assert (labels == 0).mean() == pytest.approx(share, abs=0.06)
    assert (ward[labels == 0] == "A").mean() > (ward[labels == 1] == "A").mean() + 0.3
    assert age[labels == 1].mean() > age[labels == 0].mean() + 15


# ---- refused before anything is charged ----

REFUSED: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("SF-N316", IMAGES, LABELS, {"delta": None}),
    ("SF-E213", IMAGES, LABELS + 5, {}),
    ("SF-E176", IMAGES[:0], LABELS[:0], {}),
    ("SF-N105", np.full((1200, 4), np.nan), LABELS, {}),
    ("SF-N105", {**FRAME, "age": np.full(1200, np.nan)}, LABELS, {"bounds": DECLARED}),
    ("SF-E101", FRAME, LABELS, {"bounds": {"age": (0, 110)}}),
    ("SF-E176", FRAME, LABELS[:9], {"bounds": DECLARED}),
    ("SF-N101", IMAGES, LABELS, {"length": -1}),
    ("SF-N104", IMAGES, LABELS, {"steps": 1.5}),
    ("SF-E230", IMAGES, LABELS, {"waves": 10**6}),
    ("SF-E230", IMAGES, LABELS, {"components": 10**6}),
    ("SF-N101", IMAGES, LABELS, {"length": 1e-310}),
    ("SF-N101", IMAGES, LABELS, {"seed": -1}),
    ("SF-N201", np.zeros((2, 2, 2)), np.arange(2), {"epsilon": 1e-15, "delta": 1e-18}),
]


@pytest.mark.parametrize(("code", "rows", "labels", "other"), REFUSED)
def test_bad_input_is_one_coded_error_before_the_charge(
    code: str, rows: Any, labels: Any, other: dict[str, Any], tmp_path: Path
) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=4, delta=1e-5)
    given = {"epsilon": 1, "delta": 1e-6, "bounds": (0, 255), "classes": [0, 1], "budget": account, **other}
    with pytest.raises(UsageError) as refused:
        sf.synth.MERF(**given).fit(rows, labels)
    assert refused.value.code == code
    assert account.left == 4


# ---- replayed on neighbours ----

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def _release(rows: Rows, kernel: EmbeddingKernel) -> Any:
    numbers, places, labels = rows
    return list(kernel.release(np.vstack([numbers.T, places, labels])).values())


def neighbours() -> Iterator[tuple[Rows, Rows]]:
    """Tables with and without one extreme row, both ways round."""
    random = np.random.default_rng(6)
    numbers = random.integers(-ONE, ONE + 1, (30, 5))
    places, labels = random.integers(0, 3, 30), random.integers(0, 2, 30)
    for extreme in (np.full(5, ONE), np.full(5, -ONE), np.zeros(5, dtype=int)):
        for label in (0, 1):
            more = np.vstack([numbers, extreme]), np.append(places, 2), np.append(labels, label)
            yield (numbers, places, labels), more
            yield more, (numbers, places, labels)


@pytest.mark.parametrize("length", [None, Fraction(2)])
def test_every_measurement_moves_by_no_more_than_its_price(length: Fraction | None) -> None:
    kernel = EmbeddingKernel((ONE,) * 5, (3,), 2, Fraction(2), 40, 0, length)
    found = audit.replay(lambda rows: _release(rows, kernel), neighbours(), claim=Gaussian(Fraction(2)))
    assert not found.violates, found.sentence
    assert found.reached > 0.9


def test_a_length_taken_from_the_rows_is_caught() -> None:
    def leaky(rows: Rows) -> Any:
        own = Fraction(float(np.sqrt(2 * (rows[0] / ONE).var(axis=0).sum())))
        return _release(rows, EmbeddingKernel((ONE,) * 5, (3,), 2, Fraction(2), 40, 0, own))

    assert audit.replay(leaky, neighbours(), claim=Gaussian(Fraction(2))).violates


def test_uncharged_class_weights_are_caught() -> None:
    kernel = EmbeddingKernel((ONE,) * 5, (3,), 2, Fraction(2), 40, 0, Fraction(2))

    def leaky(rows: Rows) -> Any:
        return [*_release(rows, kernel), np.bincount(rows[2], minlength=2)]

    assert audit.replay(leaky, neighbours(), claim=Gaussian(Fraction(2))).violates
