"""The joint region holds both probabilities as often as it says, by exact sums, and is small."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sfumato.audit.claims import parse_claim
from sfumato.audit.joint_region import Hits, approximate_jointly, bound_apart, bound_jointly
from sfumato.privacy import events


@pytest.mark.parametrize(("slope", "alpha"), [(2.7, 0.2), (0.6, 0.05)])
def test_it_fails_as_rarely_as_it_says(slope: float, alpha: float) -> None:
    """The truth must lie in the cell of its second probability; all hits are weighed by their chance."""
    from scipy.stats import binom

    n = 12
    regions = {each: bound_jointly(Hits(*each, n), slope, alpha) for each in product(range(n + 1), repeat=2)}
    for p, q in [(0.5, 0.18), (0.9, 0.3), (0.3, 0.3), (0.05, 0.01), (1.0, 0.4), (0.2, 0.6)]:
        missed = 0.0
        for (likely, unlikely), (first, second) in regions.items():
            cell = min(int(np.searchsorted(second, q)), len(first) - 1)
            if q > second[-1] or first[cell] > p:
                missed += binom.pmf(likely, n, p) * binom.pmf(unlikely, n, q)
        assert missed <= alpha


def test_it_is_nearer_to_the_truth_than_two_bounds() -> None:
    for trials in (1_500, 90_000):
        hits = Hits(round(trials / 2), round(trials / 2 / np.e), trials)
        apart, joint = (
            float(np.log(p / q).min())
            for p, q in (bound_apart(hits, 1e-4), bound_jointly(hits, np.e**0.9, 1e-4))
        )
        quick = float(np.log(np.divide(*approximate_jointly(hits, np.e**0.9, 1e-4))).min())
        assert apart < joint < 1
        assert joint == pytest.approx(quick, abs=0.2 * (1 - joint))


def test_no_hits_and_all_hits_are_bounded() -> None:
    for likely, unlikely in [(0, 0), (0, 100), (100, 0), (100, 100)]:
        p, q = bound_jointly(Hits(likely, unlikely, 100), 2.0, 1e-3)
        assert ((p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)).all()
        assert (p <= q).any() == (likely <= unlikely)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [(events.Pure(1), 2.5), (events.ApproxDP(1, 0.1), 2.0), (events.Gaussian(1), 1.4249)],
)
def test_a_slope_keeps_the_share_of_a_claim(claim: events.Event, expected: float) -> None:
    assert parse_claim(claim, 0).slope(0.5, 0.2) == pytest.approx(expected, rel=0.02)
