"""What a run costs as a whole: its tail is side δ, and the rest costs what its profile says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.oracle.one_run import can_be_one_run, round_side_delta, state_one_run
from sfumato.privacy import ApproxDP, Budget, Gaussian, Repeated, Sampled, caps, composition, price
from sfumato.privacy.account import SIDE

RUN = Repeated(Sampled(Gaussian(1.703), Fraction(1, 100)), 1000)
"""A run that is (1, 10⁻⁷)-private."""


def test_a_run_costs_gaussian_dp_an_eighth_where_a_coin_would_close_it() -> None:
    limits = caps(Budget(4, 1e-6)).gaussian
    assert limits is not None
    run, coin = (
        price(claim).gaussian
        for claim in (state_one_run(RUN, 1, Fraction(1, 10**7)), ApproxDP(1, Fraction(1, 10**7)))
    )
    assert run is not None
    assert coin is not None
    assert 0.05 < run[limits.place] / limits.most < 0.125
    assert coin[limits.place] > limits.most


def test_no_point_is_better_than_the_run() -> None:
    claim = state_one_run(RUN, 1, Fraction(1, 10**7))
    assert claim.pure() == 1
    assert claim.side_delta() == Fraction(1, 10**7)
    assert len(claim.points) == 17
    for epsilon, delta in claim.points:
        assert delta >= composition.delta(RUN, epsilon, lower=True)


@pytest.mark.parametrize("delta", [1e-6, 3e-19, Fraction(1, 3)])
def test_a_delta_is_rounded_down_to_what_ledgers_count_in(delta: float | Fraction) -> None:
    rounded = round_side_delta(delta)
    assert (rounded * SIDE).denominator == 1
    assert 0 <= Fraction(delta if isinstance(delta, Fraction) else str(delta)) - rounded < Fraction(1, SIDE)
    assert can_be_one_run(1, delta) == (rounded > 0)
    assert not can_be_one_run(201, delta)


def test_an_epsilon_is_read_before_it_is_kept() -> None:
    """0.1 and the double of it are equal, and are read as two numbers."""
    run = Repeated(Sampled(Gaussian(Fraction(4)), Fraction(1, 100)), 3)
    typed, exact = (state_one_run(run, each, Fraction(1, 2**30)) for each in (0.1, Fraction(0.1)))
    assert (typed.pure(), exact.pure()) == (Fraction(1, 10), Fraction(0.1))
