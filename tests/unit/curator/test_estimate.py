"""Intervals hold what they say: coverage over many simulated releases of known integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.catalog import declared
from sfumato.curator.estimate import interval
from sfumato.curator.measurement import Aggregate, Count, Mean, Output, Question, Sum
from sfumato.curator.plan import plan
from sfumato.curator.relation import Relation
from sfumato.curator.spend import Pure, Rounded, Spend

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
@pytest.mark.parametrize("aggregate", [Count(), Sum("x"), Mean("x"), Mean("flag")])
def test_coverage(aggregate: Aggregate, rows: int, confidence: float, spend: Spend) -> None:
    exact = {"Rows": rows, "Value": 900 * rows, "Weight": rows // 3, "Present": rows}
    got = _coverage(aggregate, exact, confidence, spend)
    slack = 4.9 * math.sqrt(confidence * (1 - confidence) / RUNS)
    assert got >= confidence - slack
    assert got <= confidence + slack + 0.03  # integers: the smallest interval that holds enough may hold more
