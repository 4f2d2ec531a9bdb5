"""Whole fits of generators are replayed on neighbours: rows, what is released, and what is drawn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.noise import LaplaceNoise
from sfumato.synth.images.gaussian_budget import multiplier_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    Rows = tuple[Any, Any]

CLAIM = {"epsilon": 1, "delta": 1e-6}
RANDOM = np.random.default_rng(7)
IMAGES, LABELS = RANDOM.integers(0, 256, (40, 3, 3)), RANDOM.integers(0, 2, 40)


def make(kind: str) -> Any:
    declared: dict[str, Any] = {**CLAIM, "bounds": (0, 255), "classes": [0, 1]}
    if kind == "MERF":
        return sf.synth.MERF(**declared, waves=20, steps=3)
    return sf.synth.Moments(**declared)


def neighbours() -> Iterator[tuple[Rows, Rows]]:
    for extreme in (np.zeros((3, 3)), np.full((3, 3), 255)):
        more = np.concatenate([IMAGES, extreme[None].astype(int)]), np.append(LABELS, 1)
        yield (IMAGES, LABELS), more
        yield more, (IMAGES, LABELS)


def fit(made: Any, rows: Rows) -> list[Any]:
    found = made.fit(*rows)
    drawn, labels = found.sample(5, seed=1)
    return [found.class_counts_.tolist(), drawn.tolist(), labels.tolist()]


@pytest.mark.parametrize("kind", ["Moments", "MERF"])
def test_a_fit_and_its_samples_say_no_more_than_was_paid_for(kind: str) -> None:
    claim = sf.privacy.events.Gaussian(multiplier_of(make(kind).fit_budget()))
    found = audit.replay(lambda rows: fit(make(kind), rows), neighbours(), claim=claim)
    assert not found.violates, found.sentence
    assert found.reached > 0.9


@pytest.mark.parametrize("kind", ["Moments", "MERF"])
def test_an_epsilon_that_preprocessing_takes_silently_is_caught(kind: str) -> None:
    def scaled(rows: Rows) -> Any:
        images, labels = rows
        # A noisy count chooses the contrast, for an ε of 1 that nobody counts.
        bright = np.array([(images.max(axis=(1, 2)) > 250).sum()])
        (noisy,) = LaplaceNoise(1).release(bright, l1=1)
        return fit(make(kind), (np.clip(images * (1 + noisy % 2), 0, 255), labels))

    claim = sf.privacy.events.Gaussian(multiplier_of(make(kind).fit_budget()))
    assert audit.replay(scaled, neighbours(), claim=claim).violates


@pytest.mark.parametrize("kind", ["Moments", "MERF"])
def test_classes_that_are_listed_by_the_rows_are_caught(kind: str) -> None:
    def listed(rows: Rows) -> Any:
        made = make(kind)
        made.classes = sorted(set(rows[1].tolist()))
        return fit(made, rows)

    pair = (IMAGES, LABELS), (np.concatenate([IMAGES, IMAGES[:1]]), np.append(LABELS, 2))
    claim = sf.privacy.events.Gaussian(multiplier_of(make(kind).fit_budget()))
    assert audit.replay(listed, [pair], claim=claim).violates
