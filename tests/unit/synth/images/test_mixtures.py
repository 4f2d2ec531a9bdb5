"""Several Gaussians for a class: what is drawn, what is refused, and what is paid."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.privacy.events import Gaussian
from sfumato.synth.images import moment_mixtures
from sfumato.synth.images.moment_mixtures import MixtureKernel
from sfumato.synth.images.public_basis import PublicBasis

if TYPE_CHECKING:
    from collections.abc import Iterator

RANDOM = np.random.default_rng(4)
LABELS = np.repeat([0, 1], [3000, 1000])
SIDES = RANDOM.choice([-6.0, 6.0], 4000)
"""Rows of a class lie in two clusters, far from its mean."""
ROWS = np.column_stack([SIDES, RANDOM.normal(LABELS, 1), -SIDES]) + RANDOM.normal(0, 0.5, (4000, 3))
DECLARED: dict[str, Any] = {"rho": 1e4, "bounds": (-10, 10), "classes": [0, 1]}


def test_clusters_within_a_class_are_kept() -> None:
    plain, parted = (
        sf.synth.Moments(**DECLARED, components=components).fit(ROWS, LABELS) for components in (1, 2)
    )
    # At this ρ noise moves no mean by more than a thousandth, and clusters are 12 deviations from 0.
    for made, most in ((plain, 1.0), (parted, 0.02)):
        rows, labels = made.sample(4000, seed=1)
        middle = np.abs(rows[:, 0]) < 3
        assert middle.mean() <= most
        assert (labels == 0).mean() == pytest.approx(0.75, abs=0.05)
    assert (np.abs(plain.sample(4000, seed=1)[0][:, 0]) < 3).mean() > 0.2
    assert parted.class_counts_ == pytest.approx([3000, 1000], abs=5)
    only, sevens = parted.sample(5, labels=1)
    assert (only.shape, sevens.tolist()) == ((5, 3), [1] * 5)


@pytest.mark.parametrize("components", [0, 3, 8])
def test_other_numbers_of_components_are_refused(components: int) -> None:
    with pytest.raises(UsageError, match=r"SF-E225|SF-N102"):
        sf.synth.Moments(**DECLARED, components=components).fit(ROWS, LABELS)


def neighbours() -> Iterator[tuple[Any, Any]]:
    """Tables with and without one extreme row, both ways round."""
    random = np.random.default_rng(5)
    rows = np.vstack([random.integers(-ONE, ONE + 1, (9, 60)), random.integers(-1, 2, 60)])
    for extreme in (np.full(9, ONE), np.where(np.arange(9) % 2, -ONE, ONE), np.zeros(9, dtype=int)):
        more = np.column_stack([rows, [*extreme, 1]])
        yield rows, more
        yield more, rows


@pytest.mark.parametrize("components", [2, 4])
def test_both_releases_together_cost_no_more_than_was_priced(components: int) -> None:
    kernel = MixtureKernel(PublicBasis.of((3, 3)), (ONE,) * 9, 2, Fraction(2), False, 0, components)
    found = audit.replay(kernel.release, neighbours(), claim=Gaussian(Fraction(2)))
    assert not found.violates, found.sentence
    assert found.reached > 0.9


def test_a_cut_that_is_not_paid_for_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment_mixtures, "_SECOND", Fraction(1))
    kernel = MixtureKernel(PublicBasis.of((3, 3)), (ONE,) * 9, 2, Fraction(2), False, 0, 2)
    assert audit.replay(kernel.release, neighbours(), claim=Gaussian(Fraction(2))).violates
