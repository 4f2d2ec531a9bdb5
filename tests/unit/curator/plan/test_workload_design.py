"""The design of a workload against least squares with whole matrices, and against each question alone."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.curator.plan.together.design import (
    AskedSum,
    JointLimit,
    MeasurableForms,
    WorkloadDesign,
    count_cells,
    list_subsets,
)
from sfumato.curator.plan.together.shares import choose_shares, round_shares

SIZES = (3, 2, 4)
ONE = np.ones((1, 1))


def _matrix(keys: tuple[int, ...]) -> np.ndarray:
    """Return the sums by these keys of a table with all keys, as a matrix."""
    found = np.ones((1, 1))
    for key, size in enumerate(SIZES):
        found = np.kron(found, np.eye(size) if key in keys else np.ones((1, size)))
    return found


def _dense_variance(measured: dict[tuple[int, ...], float], asked: tuple[int, ...]) -> float:
    """Return the variance of one cell by least squares with whole matrices."""
    information = sum(u * _matrix(keys).T @ _matrix(keys) for keys, u in measured.items())
    wanted = _matrix(asked)
    return float((wanted @ np.linalg.pinv(information) @ wanted.T)[0, 0])


@pytest.mark.parametrize(
    "measured",
    [
        {(0, 1, 2): 1.0},
        {(0,): 0.3, (1, 2): 0.7, (0, 1): 0.1},
        {(): 0.2, (0,): 0.3, (0, 1): 0.5, (0, 1, 2): 0.05},
    ],
)
def test_variances_are_those_of_least_squares(measured: dict[tuple[int, ...], float]) -> None:
    every = {part for keys in measured for part in list_subsets(keys)}
    asked = [keys for keys in every if any(set(keys) <= set(other) for other in measured)]
    items = [MeasurableForms(keys, ONE, 1.0) for keys in measured]
    design = WorkloadDesign(SIZES, items, [AskedSum(keys, 0, ONE[0], 1.0, 1.0) for keys in asked])
    found = design.variances(np.array(list(measured.values())))
    assert np.allclose(found, [_dense_variance(measured, keys) for keys in asked])


def test_several_sums_are_those_of_least_squares() -> None:
    """One marginal measures both sums of a shape, another only their total."""
    both, total = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([[1.0, 0.0]])
    items = [MeasurableForms((0,), both, 2.0), MeasurableForms((0, 1), total, 3.0)]
    design = WorkloadDesign(
        SIZES, items, [AskedSum((0,), at, row, 1.0, 1.0) for at, row in enumerate(np.eye(2))]
    )
    information = np.kron(both.T @ both / 2, _matrix((0,)).T @ _matrix((0,)))
    information += np.kron(total.T @ total / 3, _matrix((0, 1)).T @ _matrix((0, 1)))
    covariance = np.kron(np.eye(2), _matrix((0,))) @ np.linalg.pinv(information)
    covariance = covariance @ np.kron(np.eye(2), _matrix((0,))).T
    assert np.allclose(design.variances(np.ones(2)), [covariance[0, 0], covariance[3, 3]])


def test_correlated_noise_is_weighed_by_its_covariance() -> None:
    """As least squares with whole matrices do, and the weights of numbers add up to what they estimate."""
    both, noise = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([[2.0, 0.7], [0.7, 1.0]])
    items = [
        MeasurableForms((0,), both, 3.0, covariance=noise),
        MeasurableForms((0, 1), np.array([[1.0, 0.0]]), 5.0),
    ]
    asked = [AskedSum((0,), at, row, 1.0, 1.0) for at, row in enumerate(np.eye(2))]
    design = WorkloadDesign(SIZES, items, asked)
    information = np.kron(both.T @ np.linalg.inv(3 * noise) @ both, _matrix((0,)).T @ _matrix((0,)))
    information += np.kron(np.diag([1 / 5, 0]), _matrix((0, 1)).T @ _matrix((0, 1)))
    wanted = np.kron(np.eye(2), _matrix((0,)))
    covariance = (wanted @ np.linalg.pinv(information) @ wanted.T)[np.ix_([0, 3], [0, 3])]
    covariances = design.invert(np.ones(2))
    assert np.allclose(design.covary((0,), np.eye(2), covariances), covariance)
    assert np.allclose(design.variances(np.ones(2)), np.diagonal(covariance))
    gains = [design.gains(at, 1.0, covariances) @ each.forms for at, each in enumerate(items)]
    place = design.places[(0,)]
    assert np.allclose(gains[0][place] + gains[1][place], np.eye(2))


def _limit_averages(bound: float) -> tuple[WorkloadDesign, np.ndarray]:
    """Return a deviation and a count with noise that cancels in an average, or noise of their own."""
    joint, forms = np.array([[1.0, 0.9], [0.9, 1.0]]), np.eye(2)
    items = [MeasurableForms((0,), forms, 1.0, covariance=joint)]
    items += [MeasurableForms((0,), forms[at : at + 1], bound) for at in range(2)]
    values, vectors = np.linalg.eigh(joint)
    white = (vectors / np.sqrt(values)).T
    asked = [AskedSum((0,), at, row, 0.5, 1.0) for at, row in enumerate(forms)]
    limits = [JointLimit((0,), white @ forms, np.eye(2) / 2)]
    return WorkloadDesign(SIZES, items, asked, limits), np.array([1.0, 0.0, 0.0])


def test_a_limit_holds_for_all_linear_functions() -> None:
    """Both sums would be better with noise of their own, and their difference would be worse."""
    design, start = _limit_averages(0.4)
    apart = np.array([0.0, 0.5, 0.5])
    assert (design.variances(apart) < design.variances(start)).all()
    assert design.is_no_worse(start)
    assert not design.is_no_worse(apart)
    chosen = choose_shares(design, start, GaussianSpend(Fraction(1), ""))
    difference = np.array([[1.0, -1.0]])
    worst = design.covary((0,), difference, design.invert(chosen))[0, 0]
    assert worst <= 1.01 * design.covary((0,), difference, design.invert(start))[0, 0]


def _workload(marginals: list[tuple[int, ...]], pure: bool) -> tuple[WorkloadDesign, np.ndarray]:
    """Return all marginals as measurable, those asked for with an equal share each."""
    every = list_subsets((0, 1, 2))
    share = 1 / len(marginals)
    alone = 1 / (share**2 if pure else share)
    asked = [AskedSum(keys, 0, ONE[0], 1 / alone, alone) for keys in marginals]
    start = np.array([share if keys in marginals else 0.0 for keys in every])
    return WorkloadDesign(SIZES, [MeasurableForms(keys, ONE, 1.0) for keys in every], asked), start


WORKLOADS = [
    [(), (0,), (0, 1)],
    list_subsets((0, 1, 2)),
    [(0,), (1,), (2,)],
    [(0, 1), (1, 2), (0, 2)],
    [(0, 1, 2), (0,)],
]


@pytest.mark.parametrize("marginals", WORKLOADS)
@pytest.mark.parametrize(
    "spend",
    [PureSpend(Fraction(1)), GaussianSpend(Fraction(1), "")],
    ids=["pure", "gaussian"],
)
def test_nothing_is_worse_than_alone_and_something_is_better(
    marginals: list[tuple[int, ...]], spend: PureSpend | GaussianSpend
) -> None:
    pure = isinstance(spend, PureSpend)
    design, start = _workload(marginals, pure)
    shares = choose_shares(design, start, spend)
    found = design.variances(shares**2 if pure else shares)
    ratios = found / np.array([each.alone for each in design.asked])
    assert ratios.max() <= 1.001
    assert ratios.mean() < 0.95
    assert sum(round_shares(shares)) <= 2**16


@pytest.mark.parametrize("marginals", WORKLOADS)
def test_gaussian_shares_are_as_good_as_any(marginals: list[tuple[int, ...]]) -> None:
    """No share that is moved from one marginal to another lowers the weighted variance by a hundredth."""
    design, start = _workload(marginals, pure=False)
    design = WorkloadDesign(
        SIZES, design.measurable, [AskedSum(each.keys, 0, ONE[0], 1.0, 1e9) for each in design.asked]
    )
    shares = choose_shares(design, start, GaussianSpend(Fraction(1), ""))
    least = design.variances(shares).sum()
    for one, other in itertools.permutations(range(len(shares)), 2):
        moved = shares.copy()
        step = min(0.05, moved[one])
        moved[one], moved[other] = moved[one] - step, moved[other] + step
        assert not design.can_estimate(moved) or design.variances(moved).sum() > 0.99 * least


def test_what_cannot_be_computed_is_known() -> None:
    asked = [AskedSum((0, 1), 0, ONE[0], 1.0, 1.0)]
    design = WorkloadDesign(SIZES, [MeasurableForms(keys, ONE, 1.0) for keys in [(0,), (0, 1)]], asked)
    assert design.can_estimate(np.array([0.0, 1.0]))
    assert not design.can_estimate(np.array([1.0, 0.0]))
    assert count_cells(SIZES, (0, 2)) == 12
