"""Intervals of what is computed from several released groups: windows, shares, totals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.laws.drawn_noise import sum_half_width
from sfumato.noise import GaussianNoise, LaplaceNoise

ROWS = pa.table(
    {
        "who": np.arange(900),
        "ward": ["A"] * 400 + ["B"] * 300 + ["C"] * 200,
        "year": [2020 + at % 3 for at in range(900)],
        "cost": [float(at % 10) for at in range(900)],
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C", missing="A"),
    "year": sf.between(2020, 2022, step=1, missing=2020),
    "cost": sf.between(0, 9, step=1, missing=0),
}
ASKED = """SELECT ward, year, SUM(COUNT(*)) OVER () AS total, SUM(COUNT(*)) OVER (ORDER BY ward, year) AS run,
    100 * COUNT(*) / SUM(COUNT(*)) OVER () AS share, SUM(COUNT(*)) OVER (ORDER BY COUNT(*)) AS chosen,
    MAX(SUM(cost)) OVER (PARTITION BY ward) AS most, AVG(COUNT(*)) OVER (PARTITION BY year) AS mean
    FROM t GROUP BY ward, year"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("windows") / "lab")
    budget = sf.Budget(epsilon=10**6, delta=1e-2)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    return lab.session()


@pytest.mark.parametrize("count", [2, 5, 40, 1000])
@pytest.mark.parametrize(
    "noise", [LaplaceNoise(Fraction(1, 2)), LaplaceNoise(Fraction(300)), GaussianNoise(Fraction(7))]
)
def test_the_width_of_a_sum_of_draws_is_that_of_its_law(noise: Any, count: int) -> None:
    """Beside NumPy's draws: 20,000 are within 0.7 points of 95 % but for once in a million."""
    rng = np.random.default_rng(1)
    if isinstance(noise, LaplaceNoise):
        stop = 1 - math.exp(-1 / float(noise.scale))
        # A sum of geometric numbers is a negative binomial one.
        drawn = rng.negative_binomial(count, stop, 20_000) - rng.negative_binomial(count, stop, 20_000)
    else:
        drawn = rng.normal(0, 7 * math.sqrt(count), 20_000)
    inside = np.mean(np.abs(drawn) <= sum_half_width(noise, count, 0.95))
    assert inside >= 0.943
    # Whole numbers may jump over 95 %.
    assert inside <= 0.957 or sum_half_width(noise, count, 0.95) < 12


@pytest.mark.parametrize("spend", [{}, {"delta": 1e-6}], ids=["pure", "gaussian"])
def test_the_exact_numbers_lie_within(session: Any, spend: dict[str, float]) -> None:
    exact = session.sql(ASKED).release(epsilon=900).to_arrow().to_pydict()
    misses = dict.fromkeys(["total", "run", "share", "most", "mean"], 0)
    rounds = 20
    for turn in range(rounds):
        found = session.sql(ASKED).release(epsilon=1 + turn / 1000, **spend)
        ends = found.interval(0.95).to_pydict()
        for name in misses:
            pairs = zip(ends[f"{name}_low"], exact[name], ends[f"{name}_high"], strict=True)
            # Windows of one question share noise, so that one row stands for all.
            low, value, high = list(pairs)[turn % 9]
            misses[name] += not low <= value <= high
        # Which groups a frame has was chosen by noise, so the interval holds whichever they are.
        assert all(low is not None for low in ends["chosen_low"])
    # More than 8 of 20 at 5 % happen less than once in a million.
    assert all(number <= 8 for number in misses.values()), misses


def test_totals_have_the_noise_of_their_groups(session: Any) -> None:
    one = session.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward").release(epsilon=1)
    width = (one.interval()["n_high"][0].as_py() - one.interval()["n_low"][0].as_py()) / 2
    inner = "(SELECT ward, COUNT(*) AS n FROM t GROUP BY ward)"
    sql = f"SELECT SUM(n) AS s, AVG(n) AS a, COUNT(*) AS k FROM {inner}"
    ends = session.sql(sql).release(epsilon=1).interval().to_pylist()[0]
    half = (ends["s_high"] - ends["s_low"]) / 2
    assert width < half < 3 * width
    assert (ends["a_high"] - ends["a_low"]) / 2 == pytest.approx(half / 3)
    chosen = session.sql(f"{sql} WHERE n > 100").release(epsilon=1).interval().to_pylist()[0]
    assert chosen["s_high"] - chosen["s_low"] > 2 * half


def test_what_has_no_noise_is_a_label(session: Any) -> None:
    sql = """SELECT ward, ROW_NUMBER() OVER (ORDER BY ward) AS place, SUM(COUNT(*)) OVER () AS n
        FROM t GROUP BY ward"""
    shown = session.sql(sql).release(epsilon=1)
    assert str(shown).splitlines()[0].split() == ["ward", "place", "n", "95", "%", "interval"]


def test_a_window_over_a_window_counts_one_noise_as_often_as_it_comes(session: Any) -> None:
    """The same total nine times is one noise nine times, and not nine that even out."""
    inner = "SELECT ward, year, SUM(COUNT(*)) OVER () AS y FROM t GROUP BY ward, year"
    nested = f"SELECT ward, SUM(y) OVER () AS y FROM ({inner})"
    shown = [session.sql(sql).release(epsilon=Fraction(1, 50)).all_groups() for sql in (inner, nested)]
    once, often = (each.to_pandas(intervals=True).iloc[0] for each in shown)
    assert often.y_high - often.y_low >= 9 * (once.y_high - once.y_low)
