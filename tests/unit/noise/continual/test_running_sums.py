"""Running sums with correlated noise: their law, their price, and what they refuse."""

from __future__ import annotations

import copy
import dataclasses
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
from sfumato.noise.continual.stored import (
    read_checkpoint,
    read_mechanism,
    write_checkpoint,
    write_mechanism,
)
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


def test_a_stream_that_goes_on_from_its_text_has_the_sums_of_one_that_never_stopped() -> None:
    class Bits:
        """Bits that come in the same order in both ways."""

        def __init__(self) -> None:
            self.rng = np.random.default_rng(8)

        def words(self, count: int) -> NDArray[np.uint64]:
            return self.rng.integers(0, 2**63, count, dtype=np.uint64)

    mechanism = RunningSums(ONE, 40, cells=2)
    rows, whole, parts = np.arange(80).reshape(40, 2), Bits(), Bits()
    stream = mechanism.begin(source=whole)
    expected = [stream.extend(row.reshape(1, 2)).tolist() for row in rows]
    told, text = [], write_checkpoint(mechanism.begin().checkpoint())
    stored = write_mechanism(mechanism)
    for row in rows:
        noise = read_mechanism(stored).resume(read_checkpoint(text), source=parts)
        told.append(noise.extend(row.reshape(1, 2)).tolist())
        text = write_checkpoint(noise.checkpoint())
    assert told == expected
    assert read_mechanism(stored).grid == mechanism.grid
    coarse = dataclasses.replace(read_checkpoint(text), precision=2.0**-100)
    with pytest.raises(UsageError, match="SF-S105"):
        mechanism.resume(coarse)


def binary_tree(bits: int, below: bool = False) -> NDArray[np.float64]:
    """Variances of a tree of bits + 1 levels; with Honaker's estimator, nodes use all below them."""
    ticks = np.arange(1, 2**bits + 1)
    nodes = [1 / (2 - 2.0**-level) if below else 1.0 for level in range(bits + 1)]
    return (bits + 1) * np.sum([node * (ticks >> level & 1) for level, node in enumerate(nodes)], axis=0)


def test_honakers_estimator_is_the_best_of_a_node_and_all_below_it() -> None:
    # A node over four ticks: each of its seven nodes says the sum of some of the four, with variance 1.
    says = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4)])
    best = np.ones(4) @ np.linalg.inv(says.T @ says) @ np.ones(4)
    assert binary_tree(2, below=True)[3] == pytest.approx(3 * best)


def test_the_square_root_factorisation_is_what_it_is_said_to_be() -> None:
    ages = np.arange(1, 64)
    half = np.tril(toeplitz(np.concatenate([[1.0], np.cumprod((2 * ages - 1) / (2 * ages))])))
    np.testing.assert_allclose(half @ half, np.tri(64))
    assert square_root_variance(64) == pytest.approx((half[:, 0] @ half[:, 0]) * (half[-1] @ half[-1]))
    assert RunningSums(ONE, 64).variances([64])[0] < 1.01 * square_root_variance(64)


def test_a_million_ticks_come_near_the_lower_bound() -> None:
    mechanism = RunningSums(ONE, 2**20)
    variances = mechanism.variances(np.arange(1, 2**20 + 1))
    tree, bound = binary_tree(20), 26.16
    assert variances.mean() <= 0.130 * tree.mean()
    assert variances.max() <= 0.075 * tree.max()
    assert variances.mean() <= 0.25 * binary_tree(20, below=True).mean()
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
    with pytest.raises(PolicyError, match="SF-L303"):
        way(RunningSums(ONE, 3).begin())  # type: ignore[operator]


def test_what_is_refused() -> None:
    stream = RunningSums(ONE, 2).begin()
    stream.add(1)
    with pytest.raises(UsageError, match="SF-N202"):
        stream.add(float("nan"))
    with pytest.raises(UsageError, match="SF-N203"):
        stream.extend([[1, 2]])
    stream.add(1)
    with pytest.raises(PolicyError, match="SF-N604"):
        stream.add(1)
    with pytest.raises(UsageError, match="SF-U104"):
        RunningSums(ONE, participations=2)
