"""Which candidate noisy counts of units lead to."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.curator.answers.noisy_tail import CHANCE, FURTHER, NoisyTail
from sfumato.curator.catalog.candidates import list_row_candidates, list_value_candidates, widen_column
from sfumato.curator.catalog.columns import between
from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise
from sfumato.privacy.bound_choice import choose

NOISE = LaplaceNoise(Fraction(20))


def test_candidates_are_few_and_public() -> None:
    rows = list_row_candidates(choose(epsilon=1))
    assert rows[:6] == (1, 2, 3, 5, 8, 13)
    assert rows[-1] == 10_000
    assert len(rows) == 20
    assert list_row_candidates(choose(epsilon=1, up_to=9)) == (1, 2, 3, 5, 8, 9)
    values = list_value_candidates(between(choose(epsilon=1, up_to=1000), step=1))
    assert values[len(values) // 2 :] == (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    assert [-each for each in reversed(values)] == list(values)


def test_values_are_kept_finer_than_the_smallest_candidate() -> None:
    column = between(choose(epsilon=1, up_to=10))
    wide = widen_column(column)
    assert (wide.low, wide.high) == (-10, 10)
    assert wide.step * 16 >= min(size for size in list_value_candidates(column) if size > 0) >= wide.step * 8


def test_a_step_that_does_not_suit_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        list_value_candidates(between(choose(epsilon=1, up_to=Fraction(1, 8)), step=1))
    assert refused.value.code == "SF-N101"
    for up_to in (1, 10**7):
        with pytest.raises(UsageError) as refused:
            list_row_candidates(choose(epsilon=1, up_to=up_to))
        assert refused.value.code == "SF-N101"


def test_the_bound_follows_the_units() -> None:
    counts = (9000, 3000, 1000, 400, 0, 0, 0, 0, 0, 0)
    tail = NoisyTail(counts, NOISE)
    assert tail.seen == 3
    firsts = range(1, len(counts))
    wanted = [tail.pick_candidate(firsts, allowed) for allowed in (5000, 1000, 100, 2)]
    assert wanted == sorted(w for w in wanted if w is not None)
    assert wanted[0] == 0
    assert wanted[2] == 3
    assert wanted[-1] is not None
    assert 3 < wanted[-1] <= 3 + FURTHER


def test_no_bound_comes_from_noise() -> None:
    """Without units every cell is noise: a candidate is named with a chance of one in a thousand at most."""
    rng, named = np.random.default_rng(3), 0
    for _ in range(2000):
        counts = np.rint(rng.laplace(0, 20, 21)).astype(int).tolist()
        named += NoisyTail(tuple(counts), NOISE).pick_candidate(range(1, 21), 2) is not None
    assert named <= 2000 * CHANCE * 6  # the seed is fixed


def test_a_bound_does_not_cross_zero_unless_units_were_seen_there() -> None:
    firsts = [0, 1, 2, 4, 5, 6, 7]  # of three negative cells, zero, and three positive ones
    zeros = NoisyTail((0, 0, 0, 9000, 0, 0, 0), NOISE)
    assert zeros.pick_candidate(firsts, 2, barrier=3) == 3
    seen = NoisyTail((0, 0, 0, 9000, 300, 0, 0), NOISE)
    assert seen.pick_candidate(firsts, 2, barrier=3) in (5, 6)


def test_what_choose_refuses() -> None:
    for wrong in ({"keep": 1}, {"keep": 0}, {"keep": 0.9, "for_epsilon": 1}):
        with pytest.raises(UsageError) as refused:
            choose(epsilon=0.1, **wrong)  # type: ignore[arg-type]
        assert refused.value.code == "SF-U104"
    with pytest.raises(UsageError) as refused:
        between(0, choose(epsilon=0.1))  # type: ignore[call-overload]
    assert refused.value.code == "SF-C114"
