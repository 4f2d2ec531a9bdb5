"""Running sums with correlated noise: their law, their price, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from sfumato.audit.replay import replay
from sfumato.errors import PolicyError, UsageError
from sfumato.noise.continual.planning import plan_buffers, plan_endless, square_root_variance
from sfumato.noise.continual.running_sums import RunningSums
from sfumato.privacy import Gaussian

ONE = Fraction(1)


def matrix(mechanism: RunningSums, ticks: int) -> NDArray[np.float64]:
    """C·D⁻¹ entry by entry, from the coefficients of the factor."""
    factor = np.tril(toeplitz(mechanism.factor.list_coefficients(ticks)))
    return np.asarray(factor / mechanism.scales.spread(ticks))


@pytest.mark.parametrize(
    ("participations", "separation"),
    [(1, 1), (3, 1), (4, 7), (50, 1)],
    ids=["once", "next", "apart", "always"],
)
def test_no_unit_moves_further_than_is_priced(participations: int, separation: int) -> None:
    mechanism = RunningSums(ONE, 50, participations=participations, separation=separation)
    columns = matrix(mechanism, 50)
    rng = np.random.default_rng(5)
    priced = float(mechanism.grid.sigma) / mechanism.grid.steps
    reached = 0.0
    for _ in range(300):
        places = np.sort(
            rng.choice(50 - (participations - 1) * (separation - 1), participations, replace=False)
        )
        places += np.arange(participations) * (separation - 1)
        moved = np.zeros(50)
        moved[places] = rng.choice([-1, 1, 1, 1], participations)
        reached = max(reached, float(np.linalg.norm(columns @ moved)))
        assert mechanism.distance(moved) <= 1
    first = np.zeros(50)
    first[: participations * separation : separation] = 1
    reached = max(reached, float(np.linalg.norm(columns @ first)))
    assert 0.98 * priced <= reached <= priced


def test_noise_has_the_variances_that_are_stated() -> None:
    cells, ticks = 20_000, 100
    mechanism = RunningSums(ONE, ticks, cells=cells)
    sums = mechanism.release(np.zeros((ticks, cells), dtype=np.int64)).astype(float)
    stated = mechanism.variances(np.arange(1, ticks + 1)) + 1 / 12
    # Each is a mean of 20,000 squares, so five of its deviations are five times √(2/20,000) of it.
    assert np.abs((sums**2).mean(axis=1) / stated - 1).max() < 0.05


def test_variances_are_those_of_the_matrices() -> None:
    for mechanism in (RunningSums(ONE, 60), RunningSums(ONE, 60, participations=3), RunningSums(ONE)):
        scales = mechanism.scales.spread(60)
        factor = np.tril(toeplitz(mechanism.factor.list_coefficients(60)))
        noise = np.tri(60) @ np.diag(scales) @ np.linalg.inv(factor)
        square = float(mechanism.grid.sigma / mechanism.grid.steps) ** 2
        expected = square * (noise**2).sum(axis=1)
        np.testing.assert_allclose(mechanism.variances(np.arange(1, 61)), expected, rtol=1e-9)


def test_ticks_one_by_one_and_at_once_have_the_same_sums() -> None:
    class Zeros:
        """Noise-free bits, so that both ways draw the same."""

        def words(self, count: int) -> NDArray[np.uint64]:
            return np.full(count, 2**62 + 12345, dtype=np.uint64)

    mechanism = RunningSums(ONE, 40)
    values = np.arange(40)
    stream = mechanism.begin(source=Zeros())
    assert [stream.add(int(value)) for value in values] == mechanism.release(values, source=Zeros()).tolist()


def test_a_million_ticks_come_near_the_lower_bound() -> None:
    mechanism = RunningSums(ONE, 2**20)
    variances = mechanism.variances(np.arange(1, 2**20 + 1))
    tree_mean, tree_most, bound = 210, 420, 26.16
    assert variances.mean() <= 0.130 * tree_mean
    assert variances.max() <= 0.075 * tree_most
    assert variances.mean() <= 1.1 * bound
    assert len(mechanism.factor.poles) <= 8


def test_a_stream_without_a_horizon_stays_near_one_with() -> None:
    factor = plan_endless()
    ticks = [2**bits for bits in range(6, 25)]
    variances = factor.norm_squared(np.inf) * factor.sum_squares(ticks)
    known = [square_root_variance(tick) for tick in ticks]
    assert (variances / known).max() < 1.5


def test_one_buffer_is_optimal_for_two_ticks() -> None:
    # The square root of a 2×2 running sum is the optimal factor: [[1, 0], [½, 1]].
    np.testing.assert_allclose(plan_buffers(2).list_coefficients(2), [1, 0.5], rtol=1e-4)


def test_replay_finds_streams_that_move_too_far() -> None:
    def program(table: list[int]) -> list[int]:
        stream = RunningSums(ONE, 8, participations=2).begin()
        return [int(stream.add(each)) for each in table]

    near = [0] * 8, [1, 1, *[0] * 6]
    far = [0] * 8, [1, 1, 1, *[0] * 5]
    assert not replay(program, [near], claim=Gaussian(1)).violates
    assert replay(program, [far], claim=Gaussian(1)).violates


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_in_use_is_not_copied(way: object) -> None:
    with pytest.raises(PolicyError, match="SF-N605"):
        way(RunningSums(ONE, 3).begin())  # type: ignore[operator]


def test_what_is_refused() -> None:
    stream = RunningSums(ONE, 2).begin()
    stream.add(1)
    with pytest.raises(UsageError, match="SF-N202"):
        stream.add(float("nan"))
    with pytest.raises(UsageError, match="SF-N603"):
        stream.extend([[1, 2]])
    stream.add(1)
    with pytest.raises(PolicyError, match="SF-N604"):
        stream.add(1)
    with pytest.raises(UsageError, match="SF-N601"):
        RunningSums(ONE, participations=2)
