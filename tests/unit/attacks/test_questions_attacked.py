"""Attacks on questions win on raw answers and stay under the ceiling on a real lab's.

A ceiling is taken to be broken when so many right guesses have a chance below 1e-9 under it, by the exact
binomial tail, which dominates the number of right guesses (docs/proofs/attacks.md).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.differencing import HIGHEST
from sfumato.errors import UsageError


def test_differencing_is_exact_without_noise_and_off_by_its_scale_with_it() -> None:
    """A mean of n ≥ 0 numbers of mean 1.5 b and mean square 4 b² is below b with chance ≤ exp(−n/32)."""
    trials = 700
    assert math.exp(-trials / 32) < 1e-9
    report = sf.attacks.differencing(epsilon=1, trials=trials)
    assert report.raw.success == 1
    assert report.raw.error == 0
    assert report.private.error is not None
    assert report.private.error >= HIGHEST / 0.5
    assert not report.breaks_ceiling


def test_asking_again_recovers_bits_only_without_a_ledger() -> None:
    """20,000 answers of deviation 14.1 have a mean of deviation 0.1: a bit is wrong by five of these, with
    chance 3e-7, and more than 4 of 150 bits are with chance 1e-24.
    """
    report = sf.attacks.asking_again(trials=150, times=(1, 20_000))
    assert report.raw.against == "fresh noise for ε = 0.1, asked 20,000×"
    assert report.raw.success > 0.97
    assert not report.breaks_ceiling
    assert report.notes == (
        "Asked 10 times, the same question had 1 answer.",
        "10 wordings at ε = 0.1 were answered; the next was refused.",
    )


def test_reconstruction_finds_bits_from_shaken_counts_and_not_from_private_ones() -> None:
    """All but the last outcomes are the same in every run. At a total ε = 1 the share of right bits has mean
    .504 and deviation .011 over 4,000 simulated runs, so 0.6 is 8.6 deviations away.
    """
    report = sf.attacks.reconstruction(people=50, subsets=200, trials=40, off=2)
    assert report["exact counts"].success == 1
    assert report["counts off by up to ±2"].success >= 0.95
    assert report["the same, by linear programming"].success >= 0.8
    assert report["sfumato, total ε = 1"].success <= 0.6
    assert not report.breaks_ceiling


def test_reconstruction_wants_a_count_for_each_subset() -> None:
    chosen = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    assert sf.attacks.solve_bits(chosen, chosen @ [1, 0, 1]).tolist() == [[1, 0, 1]]
    assert sf.attacks.solve_bits(chosen, chosen @ [1, 0, 1], method="lp").tolist() == [[1, 0, 1]]
    with pytest.raises(UsageError, match="SF-E176"):
        sf.attacks.solve_bits(chosen, [1, 2])
    with pytest.raises(UsageError, match="SF-E187"):
        sf.attacks.solve_bits(chosen, [1, 2, 1], method="guess")
