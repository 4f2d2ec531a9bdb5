"""The grey-box audit: mutants are caught, true programs pass, nothing is left behind."""

from __future__ import annotations

import threading
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sfumato import audit
from sfumato.audit.distance import input_distance, same_result
from sfumato.errors import UsageError
from sfumato.noise import (
    CorrelatedGaussian,
    ExponentialMechanism,
    GaussianNoise,
    LaplaceNoise,
    NoisyMax,
    PermuteAndFlip,
    ProposeTestRelease,
    SparseVector,
    ThresholdedNoise,
    TopK,
    TruncatedGeometric,
    laplace,
)
from sfumato.noise.audit_hook import MechanismCall, recording

Rows = list[int]
BOUND = 10


def pairs(count: int = 200) -> list[tuple[Rows, Rows]]:
    """Neighbouring tables, small ones above all: one row, whatever its value, is in one and not the other."""
    rng = np.random.default_rng(3)
    tables = [rng.integers(-5, 30, size=rng.integers(0, 12)).tolist() for _ in range(count)]
    odd = [int(value) for value in rng.integers(-5, 30, size=count)]
    return [
        (rows, [*rows, more]) if i % 2 else ([*rows, more], rows)
        for i, (rows, more) in enumerate(zip(tables, odd, strict=True))
    ]


def clipped(rows: Rows) -> int:
    return sum(min(max(row, 0), BOUND) for row in rows)


def true_mean(rows: Rows) -> float:
    total = laplace(clipped(rows), sensitivity=BOUND, epsilon=0.5)
    count = laplace(len(rows), epsilon=0.5)
    return total / max(count, 1)


def adaptive(rows: Rows) -> list[int]:
    """Looks closer where the first answer says so, which is its right."""
    first = laplace(len(rows), epsilon=0.5)
    return [first, laplace(clipped(rows), sensitivity=BOUND, epsilon=0.5)] if first > 5 else [first]


def half_sensitivity(rows: Rows) -> int:
    return laplace(clipped(rows), sensitivity=BOUND // 2, epsilon=1)


def half_scale(rows: Rows) -> int:
    return int(LaplaceNoise(Fraction(BOUND, 2)).release(np.array([clipped(rows)]))[0])


def unclipped(rows: Rows) -> int:
    return laplace(sum(rows), sensitivity=BOUND, epsilon=1)


def branch(rows: Rows) -> int:
    return laplace(len(rows), epsilon=1) if len(rows) > 5 else 0


def branch_of_equal_calls(rows: Rows) -> int:
    noisy = laplace(len(rows), epsilon=1)
    return noisy if len(rows) > 5 else -noisy


def noise_by_size(rows: Rows) -> int:
    return laplace(clipped(rows), sensitivity=BOUND, epsilon=Fraction(1, max(len(rows), 1)))


def many_answers(rows: Rows) -> list[int]:
    return [laplace(len(rows), epsilon=1) for _ in range(2)]


def sizes(rows: Rows) -> list[int]:
    return laplace(np.array([*rows, 0]), sensitivity=100, epsilon=1).tolist()


def raises(rows: Rows) -> int:
    noisy = laplace(len(rows), epsilon=1)
    return noisy // (len(rows) - 3) if len(rows) == 3 else noisy


@pytest.mark.parametrize("program", [true_mean, adaptive])
def test_true_programs_pass(program) -> None:  # type: ignore[no-untyped-def]
    found = audit.replay(program, pairs(), claim=1)
    assert not found.violates, found
    assert found.reached == 1
    assert "no violation found in 200 pairs" in str(found)


@pytest.mark.parametrize(
    ("program", "finding"),
    [
        (half_sensitivity, "priced for 5"),
        (half_scale, "more than ε = 1 pays for"),
        (unclipped, "priced for 10"),
        (branch, "call"),
        (branch_of_equal_calls, "the result differs"),
        (noise_by_size, "call 1 differs"),
        (many_answers, "more than"),
        (sizes, "call 1 differs"),
        (raises, "the result differs"),
    ],
)
def test_mutants_are_caught(program, finding: str) -> None:  # type: ignore[no-untyped-def]
    found = audit.replay(program, pairs(), claim=1)
    assert found.violates
    assert finding in str(found.finding)
    assert found.to_dict()["violates"] is True
    assert "violates" in found._repr_html_()


def test_gaussian_noise_is_priced_by_the_l2_norm() -> None:
    def histogram(rows: Rows) -> list[int]:
        counts = np.bincount(np.clip(np.array(rows, int), 0, BOUND), minlength=BOUND + 1) * 3
        return GaussianNoise(Fraction(30)).release(counts, l2=3).tolist()

    claim = GaussianNoise(Fraction(30)).event(3)
    assert not audit.replay(histogram, pairs()[2:], claim=claim).violates
    assert audit.replay(histogram, pairs()[2:], claim=GaussianNoise(Fraction(40)).event(3)).violates


def test_distances() -> None:
    assert input_distance(LaplaceNoise(Fraction(1)), [1, 2**80], [4, 2**80 - 1]) == 4
    assert input_distance(GaussianNoise(Fraction(1)), [3, 0], [0, 4]) == 5
    assert input_distance(GaussianNoise(Fraction(1)), [7], [7]) == 0
    root = input_distance(GaussianNoise(Fraction(1)), [1, 1], [0, 0])
    assert 2 < root**2 < 2 + Fraction(1, 10**5)


def test_nothing_is_left_behind() -> None:
    class Loud:
        def answer(self, call: MechanismCall, draw):  # type: ignore[no-untyped-def]
            raise AssertionError("still recording")

    with pytest.raises(AssertionError, match="still recording"), recording(Loud()):
        laplace(1, epsilon=1)
    laplace(1, epsilon=1)


def test_threads_do_not_see_each_other() -> None:
    seen: list[MechanismCall] = []

    class Quiet:
        def answer(self, call: MechanismCall, draw):  # type: ignore[no-untyped-def]
            seen.append(call)
            return draw()

    with recording(Quiet()):
        worker = threading.Thread(target=lambda: laplace(7, epsilon=1))
        worker.start()
        worker.join()
        laplace(1, sensitivity=2, epsilon=1)
    [call] = seen
    assert (call.mechanism, call.sensitivity, int(call.exact)) == (LaplaceNoise(Fraction(2)), 2, 1)


def test_noise_of_another_thread_cannot_hide() -> None:
    """What the recorder does not see is drawn anew, and the results differ."""

    def program(rows: Rows) -> list[int]:
        answers: list[int] = []
        worker = threading.Thread(target=lambda: answers.append(laplace(len(rows), epsilon=1e-6)))
        worker.start()
        worker.join()
        return [laplace(len(rows), epsilon=1), *answers]

    assert audit.replay(program, pairs(20), claim=1).violates


def test_a_program_without_noise_is_not_passed() -> None:
    with pytest.raises(UsageError) as refused:
        audit.replay(lambda rows: 1, pairs(), claim=1)
    assert refused.value.code == "SF-A105"
    assert audit.replay(len, pairs(), claim=1).violates


def test_results_are_compared_through_and_through() -> None:
    nan = float("nan")
    assert same_result({"a": [1, nan, np.array([1.0, nan])]}, {"a": [1, nan, np.array([1.0, nan])]})
    assert not same_result(np.array([1]), np.array([1.0]))
    assert not same_result([1, 2], [1])
    assert not same_result({"a": 1}, {"b": 1})


@pytest.mark.parametrize("kind", [ExponentialMechanism, NoisyMax, PermuteAndFlip])
def test_choices_are_one_call_and_priced_by_the_score_that_moved_most(kind: type) -> None:
    def choice(scores: Rows) -> int:
        return kind(Fraction(1), 3).release(scores)

    assert not audit.replay(choice, [([0, 5, 9], [3, 2, 6]), ([1, 1], [1, 1])], claim=1).violates
    assert audit.replay(choice, [([0, 5, 9], [4, 5, 9])], claim=1).violates


def test_monotone_choices_move_one_way() -> None:
    def choice(scores: Rows) -> list[int]:
        return TopK(Fraction(1), 2, 1, monotone=True).release(scores)

    assert not audit.replay(choice, [([0, 5, 9], [1, 5, 10])], claim=1).violates
    assert audit.replay(choice, [([0, 5, 9], [1, 4, 9])], claim=1).violates


def course(rows: Rows) -> list[bool]:
    """Three questions against one noisy threshold, each of which one row moves by 1."""
    return SparseVector(Fraction(1), 1, positives=2).release(
        [len(rows), sum(row > 9 for row in rows), len(rows)], 6
    )


def two_watches(rows: Rows) -> list[bool]:
    """Their questions come by turns."""
    watches = [SparseVector(Fraction(1, 2), positives=3).begin() for _ in range(2)]
    return [watch.reaches(len(rows), 5) for _ in range(3) for watch in watches]


@pytest.mark.parametrize("program", [course, two_watches])
def test_a_threshold_in_use_is_one_price(program) -> None:  # type: ignore[no-untyped-def]
    found = audit.replay(program, pairs(), claim=1)
    assert not found.violates, found
    assert found.reached == 1
    assert audit.replay(program, pairs(), claim=Fraction(1, 2)).violates


def test_answers_that_move_too_far_are_caught() -> None:
    def clipped_sums(rows: Rows) -> list[bool]:
        return SparseVector(Fraction(1), 5, positives=9).release([0, clipped(rows)], 6)

    def one_way(rows: Rows) -> list[bool]:
        return SparseVector(Fraction(1), 1, positives=9, monotone=True).release([len(rows), -len(rows)], 6)

    assert "priced for 5" in str(audit.replay(clipped_sums, pairs(), claim=1).finding)
    assert "moved by 2, priced for 1" in str(audit.replay(one_way, pairs(), claim=1).finding)


def test_a_watch_that_is_taken_for_another_is_caught() -> None:
    def by_size(rows: Rows) -> list[bool]:
        watches = [SparseVector(Fraction(1, 2), positives=3).begin() for _ in range(2)]
        return [watches[0].reaches(0, 5), watches[len(rows) % 2].reaches(0, 5)]

    assert "call 2 differs" in str(audit.replay(by_size, pairs(20), claim=1).finding)


def counted(rows: Rows, most: int) -> dict[int, int]:
    """Every row is a unit that has so many keys: its own and those after it."""
    counts = Counter(row + k for row in rows for k in range(most))
    return dict(counts)


@pytest.mark.parametrize("kind", [TruncatedGeometric, ThresholdedNoise])
def test_telling_keys_is_one_call_and_priced_by_units(kind: type) -> None:
    mechanism = kind(Fraction(1), Fraction(1, 100), 3)
    claim = mechanism.event()
    assert not audit.replay(lambda rows: mechanism.release(counted(rows, 3)), pairs(), claim=claim).violates
    found = audit.replay(lambda rows: mechanism.release(counted(rows, 4)), pairs(), claim=claim)
    assert "moved by 2, priced for 1" in str(found.finding)
    twice = audit.replay(lambda rows: mechanism.release(Counter(rows + rows)), pairs(), claim=claim)
    assert "moved by 2, priced for 1" in str(twice.finding)


def test_propose_test_release_is_one_call() -> None:
    mechanism = ProposeTestRelease(Fraction(1), Fraction(1, 100))

    def stable(rows: Rows) -> int | None:
        return mechanism.release(len(rows) // 8, min(len(rows) % 8, 7 - len(rows) % 8))

    def unstable(rows: Rows) -> int | None:
        return mechanism.release(len(rows), 3)

    def jumpy(rows: Rows) -> str | None:
        return mechanism.release("same", 2 * len(rows))

    assert not audit.replay(stable, pairs(), claim=mechanism.event()).violates
    assert "moved by 4, priced for 1" in str(audit.replay(unstable, pairs(), claim=mechanism.event()).finding)
    assert "moved by 2, priced for 1" in str(audit.replay(jumpy, pairs(), claim=mechanism.event()).finding)


def test_correlated_noise_is_priced_by_its_covariance() -> None:
    mechanism = CorrelatedGaussian(((2, 0), (1, 3)), Fraction(5))
    claim = mechanism.event([(1, 0)])
    assert not audit.replay(mechanism.release, [([5, 5], [6, 5]), ([1, 1], [1, 1])], claim=claim).violates
    assert audit.replay(mechanism.release, [([5, 5], [7, 5])], claim=claim).violates
