"""Intervals hold as often as they say: from 94 to 96.5 in 100, for every kind of number, refined or not.

Known sums get fresh noise many times, one cell a time, and every cell has its own interval. Slow tests draw
noise by its samplers. Fast ones take even points of its law, which tell coverage as well as many more draws
do; what is linear in whole sums they leave to test_exact_widths.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.curator.answers.answer import NoisyAnswer, combine_answers, noise_laws
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.post_processing import compute_figure, compute_interval
from sfumato.curator.answers.shaped_answer import read_shape
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.plan import QuestionPlan, plan_question
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import GaussianShape
from sfumato.curator.plan.spend import GaussianSpend, PureSpend, Spend
from sfumato.curator.plan.steps import GAUSSIAN, SHAPED
from sfumato.curator.plan.summands import ROWS
from sfumato.curator.question.measurement import (
    Arithmetic,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    Figure,
    MeanOf,
    Output,
    Question,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import BaseTable, Name

FEW, MANY = 2_000, 20_000
"""Runs of fast and of slow tests. The standard error of a share is 0.16 points of the many."""
LEAST, MOST = 0.94, 0.965
"""How often intervals of 95 % hold at least, and at most where numbers are continuous."""
PRIMES = [p for p in range(2, 200) if all(p % each for each in range(2, p))]

TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=2),
    {"x": sf.between(-10, 30, step=2**-15), "y": sf.between(0, 7, step=1), "flag": sf.one_of(0, 1)},
)
Rows = list[dict[str, int | None]]
Exact = Callable[[QuestionPlan, Rows], list[int]]

N, X, Y, FLAG = CountOf(), Name("x"), Name("y"), Name("flag")
LINEAR: list[Figure] = [
    N,
    DistinctUnits(Name("who")),
    SumOf(X),
    Arithmetic("/", N, Fraction(7)),
    Arithmetic("-", SumOf(Y), Arithmetic("*", Fraction(3), N)),
    Arithmetic("+", N, Arithmetic("+", N, SumOf(FLAG))),
]
CURVED: list[Figure] = [
    MeanOf(X),
    MeanOf(FLAG),
    VarianceOf(X),
    VarianceOf(Y, sample=False, root=True),
    VarianceOf(FLAG, root=True),
    CovarianceOf(X, Y),
    CovarianceOf(X, Y, scaled=True),
    Arithmetic("/", SumOf(Y), N),
    Arithmetic("/", Arithmetic("*", Fraction(100), SumOf(FLAG)), N),
    Arithmetic("*", MeanOf(X), CountOf(X)),
    Arithmetic("/", Arithmetic("-", SumOf(X), N), Arithmetic("+", CountOf(X), N)),
    Arithmetic("-", MeanOf(X), VarianceOf(Y, root=True)),
]
PURE, MORE, ROUND = (
    PureSpend(Fraction(1, 10)),
    PureSpend(Fraction(1, 5)),
    GaussianSpend(Fraction(20), "Gaussian", shaped=False),
)
JOINT, MORE_JOINT = (PureSpend(each.epsilon, shaped=True) for each in (PURE, MORE))
ELLIPSOID = GaussianSpend(Fraction(20), "Gaussian")
ROUNDS: dict[str, tuple[Spend, ...]] = {
    "Laplace": (PURE,),
    "shaped": (JOINT,),
    "shaped, refined twice": (JOINT, ELLIPSOID, MORE_JOINT),
    "Gaussian": (ROUND,),
    "shaped Gaussian": (ELLIPSOID,),
    "Laplace refined": (PURE, MORE),
    "refined twice, of both kinds": (PURE, ROUND, MORE),
}


class Seeded:
    """Words for noise that only this test sees."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(11)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**64, count, dtype=np.uint64)


class Sampled:
    """Adds noise by its samplers."""

    def __init__(self) -> None:
        self._source = Seeded()

    def add(self, noise: Any, exact: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(noise.release(exact, source=self._source))


class Even(Sampled):
    """Adds noise at even points of its law: multiples of the roots of primes, less their whole part.

    Noise of several sums together has no such points, and is drawn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._roots = iter(np.sqrt(PRIMES))

    def add(self, noise: Any, exact: NDArray[Any]) -> NDArray[Any]:
        if not hasattr(noise, "quantiles"):
            return super().add(noise, exact)
        rows = np.atleast_2d(exact)
        chances = [(np.arange(1, exact.shape[-1] + 1) * next(self._roots)) % 1 for _ in rows]
        return np.asarray((rows + noise.quantiles(np.array(chances))).reshape(exact.shape))


def _rows(count: int) -> Rows:
    """Numbers that depend on each other, in which one in nine is missing."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 8, count)
    flag = (rng.random(count) < 0.3).astype(int)
    x = np.rint((y * 3 + rng.normal(0, 4, count)) * 2**15).astype(int)
    columns = zip(x.tolist(), y.tolist(), flag.tolist(), strict=True)
    return [{"x": a if at % 9 else None, "y": b, "flag": c} for at, (a, b, c) in enumerate(columns)]


def _asked(figure: Figure, spend: Spend, *beside: Figure) -> QuestionPlan:
    shown = tuple(Output(f"a{at}", each) for at, each in enumerate((figure, *beside)))
    return plan_question(lambda _: TABLE, Question(BaseTable("t"), (), shown), spend)


def _drawn(asked: QuestionPlan, sums: list[int], drawn: Sampled, runs: int) -> NoisyAnswer:
    """The same exact sums in many cells, each with noise of its own."""
    shaped = asked.measured[0]
    if isinstance(shaped, ShapedSum):
        # A shape may count rows that nobody asks for.
        found = {ROWS: 100 * len(_rows(500)), **dict(zip(asked.summands, sums, strict=True))}
        cells = np.array([[found[each]] * runs for each in shaped.sums], dtype=object)
        noisy_ = drawn.add(shaped.noise, shaped.shape.compute(cells))
        mark: list[Any] = [GAUSSIAN, []] if isinstance(shaped.shape, GaussianShape) else [SHAPED]
        numbers = read_shape(asked, [*mark, *noisy_.tolist()], runs)
        return NoisyAnswer(numbers, noise_laws(asked), (), None, runs)
    noises = [each.noise for each in asked.measured]
    assert None not in noises
    noisy = [
        drawn.add(noise, np.full(runs, total))
        for noise, total in zip(noises, sums, strict=True)
        if noise is not None
    ]
    return NoisyAnswer(np.array(noisy), noise_laws(asked), (), None, runs)


def _coverage(
    figure: Figure, spends: tuple[Spend, ...], sums: list[int], runs: int, *beside: Figure
) -> float:
    """How often the interval holds what is computed from the exact sums; where nothing is known it does."""
    asked = [_asked(figure, spend, *beside) for spend in spends]
    drawn = Even() if runs == FEW else Sampled()
    together = _drawn(asked[0], sums, drawn, runs)
    for later in asked[1:]:
        together = combine_answers(together, _drawn(later, sums, drawn, runs))
    exact = NoisyAnswer(np.array(sums)[:, None], (NoiseLaw.of(None),) * len(sums), (), None, 1)
    truth = compute_figure(asked[0], figure, exact)[0]
    low, high = compute_interval(asked[0], figure, together, 0.95)
    close = 1e-9 * abs(truth)
    return float(np.mean(((low <= truth + close) & (truth - close <= high)) | np.isnan(low)))


SLOW, RARE = pytest.mark.slow, ("Laplace refined", "shaped, refined twice")


@pytest.mark.parametrize("rounds", [each for each in ROUNDS if each not in RARE])
@pytest.mark.parametrize("figure", CURVED)
def test_coverage(figure: Figure, rounds: str, exact_sums: Exact) -> None:
    _check_coverage(figure, rounds, exact_sums, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("figure", [*LINEAR, *CURVED])
def test_coverage_of_many_draws(figure: Figure, rounds: str, exact_sums: Exact) -> None:
    _check_coverage(figure, rounds, exact_sums, MANY)


def _check_coverage(figure: Figure, rounds: str, exact_sums: Exact, runs: int) -> None:
    sums = [100 * each for each in exact_sums(_asked(figure, PURE), _rows(500))]
    got = _coverage(figure, ROUNDS[rounds], sums, runs)
    print(f"{got:.4f}, {rounds}: {figure}")
    assert LEAST <= got <= MOST


@pytest.mark.parametrize(
    ("rows", "runs"), [(50, FEW), *(pytest.param(rows, MANY, marks=SLOW) for rows in (3, 50))]
)
@pytest.mark.parametrize("figure", CURVED)
def test_of_few_rows_intervals_hold_at_least_as_often(
    figure: Figure, rows: int, runs: int, exact_sums: Exact
) -> None:
    """Where noise drowns the number, intervals end at what is possible, and hold more often."""
    sums = exact_sums(_asked(figure, PURE), _rows(rows))
    got = _coverage(figure, (PureSpend(Fraction(3)),), sums, runs)
    print(f"{got:.4f}, {rows} rows: {figure}")
    assert got >= LEAST
