"""Intervals hold what they say: coverage over many simulated releases of known integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.catalog import declared
from sfumato.curator.estimate import interval, values
from sfumato.curator.measurement import (
    Aggregate,
    Count,
    Mean,
    Output,
    Question,
    Sum,
    Units,
    Variance,
)
from sfumato.curator.plan import Plan, plan
from sfumato.curator.relation import Relation
from sfumato.curator.spend import Pure, Rounded, Spend
from sfumato.noise import Gaussian

RUNS = 10_000
FALSE_ALARM = 1e-6  # of each coverage test: about 4.9 standard errors

TABLE = declared("t", sf.Unit("who", max_rows=3), {"x": sf.between(-10, 30), "flag": sf.one_of(0, 1)})


def _coverage(aggregate: Aggregate, exact: dict[str, int], confidence: float, spend: Spend) -> float:
    """How often the interval holds the exact value of the aggregate."""
    priced = plan(TABLE, Question(Relation("t"), (), (Output("a", aggregate),)), spend)
    truths = [exact[type(each.summand.term).__name__] for each in priced.measured]
    noisy = np.array(
        [
            each.noise.release(np.full(RUNS, truth))
            for each, truth in zip(priced.measured, truths, strict=True)
        ],
        dtype=object,
    )
    low, high = interval(priced, aggregate, noisy, confidence)
    at = priced.sums(aggregate)
    summand = priced.measured[at[0]].summand
    if isinstance(aggregate, Mean):
        truth = float((Fraction(truths[at[0]], truths[at[1]]) + summand.centre) * summand.step)
    else:
        truth = float(truths[at[0]] * summand.step)
    return float(np.mean((low <= truth) & (truth <= high)))


@pytest.mark.parametrize(
    "spend", [Pure(Fraction(1, 2)), Rounded(Fraction(2), "Gaussian")], ids=["pure", "rounded"]
)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("rows", [40, 400, 100_000])
@pytest.mark.parametrize("aggregate", [Count(), Units("who"), Sum("x"), Mean("x"), Mean("flag")])
def test_coverage(aggregate: Aggregate, rows: int, confidence: float, spend: Spend) -> None:
    exact = {"Rows": rows, "Units": rows, "Value": 900 * rows, "Weight": rows // 3, "Present": rows}
    got = _coverage(aggregate, exact, confidence, spend)
    slack = 4.9 * math.sqrt(confidence * (1 - confidence) / RUNS)
    assert got >= confidence - slack
    held = confidence + 0.03 if isinstance(aggregate, Mean) else _held(aggregate, confidence, spend)
    assert got <= held + slack


def _held(aggregate: Aggregate, confidence: float, spend: Spend) -> float:
    """What the smallest interval of whole numbers that holds enough does hold, by the law of its noise."""
    noise = plan(TABLE, Question(Relation("t"), (), (Output("a", aggregate),)), spend).measured[0].noise
    half = noise.half_width(confidence)
    if isinstance(noise, Gaussian):
        return math.erf((half + 0.5) / (float(noise.sigma) * math.sqrt(2)))
    ratio = math.exp(-1 / float(noise.scale))
    return 1 - 2 * ratio ** (half + 1) / (1 + ratio)


# ---- variances: intervals are wider than needed, so only too few is wrong ----------------------------------

VARIANCES = [
    Variance("x"),
    Variance("x", sample=False),
    Variance("x", root=True),
    Variance("x", sample=False, root=True),
    Variance("flag"),
    Variance("flag", sample=False, root=True),
]
SPENDS = [Pure(Fraction(3)), Rounded(Fraction(2), "Gaussian")]


def _rows(column: str, rows: int) -> list[int]:
    """Deviations from the centre, in steps: far from it, uneven, and ending with one at the bound."""
    bound = TABLE.columns[column].deviation(column).bound
    if column == "flag":
        return [1 if i % 3 else -1 for i in range(rows)]
    return [(bound * (i % 7)) // 9 for i in range(rows - 1)] + [bound]


def _exact(priced: Plan, aggregate: Variance, deviations: list[int]) -> list[int]:
    """The three sums, as an engine would give them."""
    square, deviation, _ = (priced.measured[at].summand for at in priced.sums(aggregate))
    coarser = int(square.step / deviation.step**2)
    sums = [sum(d * d // coarser for d in deviations), sum(deviations), len(deviations)]
    return [sums[priced.sums(aggregate).index(at)] for at in range(3)]


def _truth(aggregate: Variance, deviations: list[int]) -> float:
    step = TABLE.columns[aggregate.column].deviation(aggregate.column).step
    n, total = len(deviations), sum(deviations)
    squares = sum(d * d for d in deviations) - Fraction(total**2, n)
    variance = float(squares / (n - 1 if aggregate.sample else n) * step**2)
    return math.sqrt(variance) if aggregate.root else variance


def _asked(aggregate: Variance, spend: Spend = SPENDS[0]) -> Plan:
    return plan(TABLE, Question(Relation("t"), (), (Output("a", aggregate),)), spend)


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "rounded"])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("rows", [2, 40, 100_000])
@pytest.mark.parametrize("aggregate", VARIANCES)
def test_coverage_of_variances(aggregate: Variance, rows: int, confidence: float, spend: Spend) -> None:
    priced, deviations = _asked(aggregate, spend), _rows(aggregate.column, rows)
    exact = _exact(priced, aggregate, deviations)
    noisy = np.array(
        [
            each.noise.release(np.full(RUNS, truth)).astype(object)
            for each, truth in zip(priced.measured, exact, strict=True)
        ]
    )
    low, high = interval(priced, aggregate, noisy, confidence)
    truth = _truth(aggregate, deviations)
    covered = np.mean((low <= truth * (1 + 1e-12)) & (truth * (1 - 1e-12) <= high))
    assert covered >= confidence - 4.9 * math.sqrt(confidence * (1 - confidence) / RUNS)


@pytest.mark.parametrize("aggregate", VARIANCES)
def test_with_many_rows_a_variance_is_near_the_exact_one(aggregate: Variance) -> None:
    priced, deviations = _asked(aggregate), _rows(aggregate.column, 100_000)
    noisy = np.array([[truth] for truth in _exact(priced, aggregate, deviations)], dtype=object)
    low, high = interval(priced, aggregate, noisy, 0.95)
    truth = _truth(aggregate, deviations)
    assert values(priced, aggregate, noisy)[0] == pytest.approx(truth, rel=1e-4)
    assert high[0] - low[0] < 0.02 * truth


@pytest.mark.parametrize("aggregate", VARIANCES)
def test_a_variance_stays_within_what_is_possible(aggregate: Variance) -> None:
    priced = _asked(aggregate)
    rng = np.random.default_rng(1)
    noisy = np.array([rng.integers(-(2**40), 2**40, 500) for _ in range(3)], dtype=object)
    noisy[:, :100] //= 2**38
    most = {"x": 20.0, "flag": 0.5}[aggregate.column] ** 2 * (2 if aggregate.sample else 1)
    most = math.sqrt(most) if aggregate.root else most
    shown = values(priced, aggregate, noisy)
    low, high = interval(priced, aggregate, noisy, 0.95)
    for numbers in (shown, low, high):
        assert np.isfinite(numbers).all()
        assert (numbers >= 0).all()
        assert (numbers <= most * (1 + 1e-12)).all()
    assert (low <= high).all()
