"""Rounds that pages play: raw answers give the secret away, and a real lab's answers are what was charged."""

from __future__ import annotations

import pytest

from sfumato.attacks.differencing import BANDS, HIGHEST
from sfumato.attacks.play import KNOWN, play_differencing, play_linkage, play_repetition


def test_a_round_of_differencing_gives_the_salary_away_exactly_and_noisily() -> None:
    """The seeded noise of scale 400,000 moves both private totals."""
    one = play_differencing(epsilon=1, seat=3, seed=5)
    assert one.exact_difference == one.truth
    assert 0 <= one.truth < HIGHEST
    assert one.private != one.exact
    assert 0 <= one.private_tenth < BANDS
    assert one.questions[1].endswith(f"<> '{one.target}'")
    assert one.noise_scale == 400_000
    assert one.ceiling == pytest.approx(0.2718, abs=1e-3)


def test_the_people_of_a_round_follow_from_its_seed_alone() -> None:
    first, again = (play_differencing(epsilon=2, seat=0, seed=7) for _ in range(2))
    assert (first.truth, first.exact) == (again.truth, again.exact)


def test_a_round_of_repetition_shows_one_answer_for_one_question_and_a_refusal() -> None:
    """20,000 answers of deviation 14.1 have a mean of deviation 0.1: a wrong guess has the chance 3e-7."""
    one = play_repetition(epsilon=1, times=20_000, seed=1)
    assert one.fresh_guess == one.truth
    assert [step for step, _ in one.averages] == [1, 10, 100, 1000, 10_000, 20_000]
    same = one.asked[:3]
    assert len({each.answer for each in same}) == 1
    assert [each.charged for each in same] == [0.1, 0, 0]
    assert one.asked[-1].answer is None
    assert one.asked[-1].refusal.startswith("SF-B101")
    assert sum(each.charged for each in one.asked) == pytest.approx(1)


def test_a_round_of_linkage_reads_the_secret_of_whoever_is_alone() -> None:
    everything = play_linkage(known=tuple(KNOWN), epsilon=1, person=2, seed=3)
    assert everything.matches == 1
    assert everything.raw_guess == everything.truth
    assert everything.alone > 0.9
    nothing = play_linkage(known=(), epsilon=1, person=2, seed=3)
    assert nothing.matches == 2000
    assert nothing.raw_guess is None
    assert nothing.alone == 0
    assert nothing.question == "SELECT COUNT(*) AS n FROM people WHERE secret = 1"
