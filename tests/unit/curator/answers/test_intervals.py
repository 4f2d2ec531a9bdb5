"""Numbers computed from sums: right where there is no noise, and possible whatever the noise."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.answers import intervals
from sfumato.curator.answers.answer import NoisyAnswer, noise_laws, read_answer
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.post_processing import compute_figure, compute_interval
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.catalog.columns import NumberColumn
from sfumato.curator.plan.plan import QuestionPlan, plan_question
from sfumato.curator.plan.spend import GaussianSpend, PureSpend, Spend
from sfumato.curator.question.measurement import (
    Aggregate,
    CovarianceOf,
    MeanOf,
    Output,
    Question,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import BaseTable, Name
from sfumato.noise import GaussianNoise

TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=1),
    {"x": sf.between(-10, 30), "y": sf.between(0, 7, step=1), "flag": sf.one_of(0, 1)},
)
X, Y, FLAG = Name("x"), Name("y"), Name("flag")
SPENDS: list[Spend] = [PureSpend(Fraction(3)), GaussianSpend(Fraction(2), "Gaussian", shaped=False)]
Rows = list[dict[str, int | None]]
Exact = Callable[[QuestionPlan, Rows], list[int]]


def _asked(aggregate: Aggregate, spend: Spend = SPENDS[0]) -> QuestionPlan:
    return plan_question(lambda _: TABLE, Question(BaseTable("t"), (), (Output("a", aggregate),)), spend)


def _rows(count: int) -> Rows:
    """Uneven numbers, a few of them missing, of which one depends on the others."""
    grid = TABLE.columns["x"]
    assert isinstance(grid, NumberColumn)
    rng = np.random.default_rng(4)
    y, flag = rng.integers(0, 8, count), rng.integers(0, 2, count)
    x = np.clip(np.rint((y * 3 + rng.normal(0, 4, count)) / float(grid.step)), *grid.ends).astype(int)
    columns = zip(x.tolist(), y.tolist(), flag.tolist(), strict=True)
    return [{"x": a if at % 17 else None, "y": b, "flag": c} for at, (a, b, c) in enumerate(columns)]


def _column(name: str, rows: Rows) -> np.ndarray[Any, np.dtype[np.float64]]:
    step = float(TABLE.columns["x"].step) if name == "x" else 1.0  # type: ignore[union-attr]
    return np.array([math.nan if row[name] is None else step * (row[name] or 0) for row in rows])


def _truth(aggregate: Aggregate, rows: Rows) -> float:
    match aggregate:
        case MeanOf(of):
            return float(np.nanmean(_column(str(of), rows)))
        case SumOf(of):
            return float(np.nansum(_column(str(of), rows)))
        case VarianceOf(of, sample, root):
            variance = float(np.nanvar(_column(str(of), rows), ddof=int(sample)))
            return math.sqrt(variance) if root else variance
        case CovarianceOf(of, other, sample, scaled):
            both = np.stack([_column(str(of), rows), _column(str(other), rows)])
            both = both[:, ~np.isnan(both).any(axis=0)]
            return float((np.corrcoef(both) if scaled else np.cov(both, ddof=int(sample)))[0, 1])
    raise AssertionError(aggregate)


AGGREGATES: list[Aggregate] = [
    SumOf(X),
    MeanOf(X),
    MeanOf(FLAG),
    VarianceOf(X),
    VarianceOf(X, sample=False),
    VarianceOf(Y, root=True),
    VarianceOf(FLAG, sample=False, root=True),
    CovarianceOf(X, Y),
    CovarianceOf(Y, FLAG, sample=False),
    CovarianceOf(X, X),
    CovarianceOf(X, Y, scaled=True),
    CovarianceOf(Y, FLAG, scaled=True),
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_without_noise_numbers_are_those_of_the_rows(aggregate: Aggregate, exact_sums: Exact) -> None:
    priced, rows = _asked(aggregate), _rows(3000)
    kept = read_answer(priced, json.dumps([[[each] for each in exact_sums(priced, rows)]]))
    noisy = replace(kept, laws=(NoiseLaw.of(None),) * len(kept.laws))
    assert compute_figure(priced, aggregate, noisy)[0] == pytest.approx(
        _truth(aggregate, rows), rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "rounded"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_with_many_rows_intervals_are_narrow_around_the_number(
    aggregate: Aggregate, spend: Spend, exact_sums: Exact
) -> None:
    priced, rows = _asked(aggregate, spend), _rows(1000)
    sums = [[100 * each] for each in exact_sums(priced, rows)]
    noisy = read_answer(priced, json.dumps([sums]))
    low, high = compute_interval(priced, aggregate, noisy, 0.95)
    truth = compute_figure(priced, aggregate, noisy)[0]
    assert low[0] < truth < high[0]
    assert high[0] - low[0] < 0.02 * abs(truth) + 0.005


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "rounded"])
@pytest.mark.parametrize(
    ("aggregate", "least", "most"),
    [
        (MeanOf(X), -10, 30),
        (VarianceOf(X), 0, 800),
        (VarianceOf(X, sample=False), 0, 400),
        (VarianceOf(X, root=True), 0, math.sqrt(800)),
        (VarianceOf(FLAG, sample=False), 0, 0.25),
        (CovarianceOf(X, FLAG), -20, 20),
        (CovarianceOf(X, FLAG, sample=False), -10, 10),
        (CovarianceOf(X, Y, scaled=True), -1, 1),
    ],
)
def test_numbers_and_intervals_stay_within_what_is_possible(
    aggregate: Aggregate, least: float, most: float, spend: Spend
) -> None:
    priced = _asked(aggregate, spend)
    rng = np.random.default_rng(1)
    sums = rng.integers(-(2**40), 2**40, (len(priced.measured), 500))
    sums[:, :100] //= 2**38
    noisy = NoisyAnswer(sums, noise_laws(priced), (), None, 500)
    shown = compute_figure(priced, aggregate, noisy)
    low, high = compute_interval(priced, aggregate, noisy, 0.95)
    assert (low <= high).all()
    for numbers in (shown[~np.isnan(shown)], low, high):
        assert (numbers >= least - 1e-9).all()
        assert (numbers <= most + 1e-9).all()


def test_squares_that_were_rounded_down_widen_the_interval_upwards(exact_sums: Exact) -> None:
    """With so many rows that noise is far below it, rounding down alone decides, and the truth is inside."""
    priced, rows = _asked(VarianceOf(X), PureSpend(Fraction(100))), _rows(500)
    copies = 10**7
    noisy = read_answer(priced, json.dumps([[[copies * each] for each in exact_sums(priced, rows)]]))
    low, high = compute_interval(priced, VarianceOf(X), noisy, 0.95)
    truth = _truth(VarianceOf(X, sample=False), rows)
    assert low[0] <= truth <= high[0]
    assert compute_figure(priced, VarianceOf(X), noisy)[0] < truth


def test_sums_beyond_64_bits_are_kept_whole() -> None:
    priced = _asked(SumOf(X))
    noisy = read_answer(priced, json.dumps([[[2**70]]]))
    assert noisy.sums[0, 0] == 2**70
    assert compute_figure(priced, SumOf(X), noisy)[0] == pytest.approx(
        2**70 * float(priced.measured[0].of.step)
    )


@pytest.mark.parametrize("deviation", [Fraction(35, 100), Fraction(3, 4), Fraction(3, 2), Fraction(3)])
def test_few_rows_with_coarse_gaussian_noise_are_covered(deviation: Fraction) -> None:
    """Noise of a number of rows that is mostly −1, 0 or 1 has other tails than Gaussian noise."""
    sums, rows = NoiseLaw.of(GaussianNoise(380 * deviation), 0), NoiseLaw.of(GaussianNoise(deviation), 1)
    explained = intervals._explained_by((sums, rows), 500, 0.95)
    drawn = np.random.default_rng(5).normal(size=(2, 40_000)) * float(deviation) * np.array([[380], [1]])
    moved, more = np.rint(drawn)
    for mean in (-500.0, -475.0, -100.0, 250.0):
        covered = explained(np.abs(moved - mean * more), np.full(moved.shape, mean)).mean()
        assert 0.94 < covered < 0.96  # ten standard errors off
