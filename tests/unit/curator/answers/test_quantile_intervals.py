"""Intervals of quantiles hold as often as they say, and are missing where they were never bought."""

from __future__ import annotations

import json
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.ordered.quantile_intervals import CountsAround, half_widths, intersect
from sfumato.curator.answers.release import Release
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.noise import GaussianNoise, Histograms, LaplaceNoise, QuantilesMechanism, Surroundings

if TYPE_CHECKING:
    from pathlib import Path

HALF, GROUPS = Fraction(1, 2), 3000
ONE_ROW = SumSensitivity(1, 1)


def histograms(rng: np.random.Generator, rows: int, cells: int) -> tuple[Histograms, Any]:
    """Groups of rows around places of their own, some dense and some all over the grid."""
    middle, width = rng.uniform(0, cells, GROUPS), rng.uniform(1, cells, GROUPS)
    values = rng.normal(middle[:, None], width[:, None], (GROUPS, rows)).clip(0, cells - 1).astype(np.int64)
    long = np.sort((values + np.arange(GROUPS)[:, None] * cells).reshape(-1))
    return Histograms.from_sorted_cells(long, None, groups=GROUPS, cells=cells), np.sort(values, axis=1)


@pytest.mark.parametrize(
    "noise", [LaplaceNoise(Fraction(8)), GaussianNoise(Fraction(8))], ids=["laplace", "gaussian"]
)
@pytest.mark.parametrize(("cells", "rows"), [(30, 400), (5000, 701)])
def test_intervals_hold_as_often_as_they_say(noise: Any, cells: int, rows: int) -> None:
    shares = (Fraction(1, 4), HALF, Fraction(9, 10))
    table, values = histograms(np.random.default_rng(5), rows, cells)
    places = QuantilesMechanism(Fraction(1), shares).release_groups(table)
    around = Surroundings(noise)
    counts = around.release(table, places, ONE_ROW)
    found = CountsAround(around, np.arange(GROUPS), places, counts, cells)
    for row, share in enumerate(shares):
        low, high = found.bracket(row, share, 0.95)
        # Both of the rows next to the rank are inside, whichever of them is called the quantile.
        at = float(share) * rows
        one, other = values[:, max(0, int(np.ceil(at)) - 1)], values[:, min(rows - 1, int(np.floor(at)))]
        inside = (low <= one) & (other <= high)
        assert inside.mean() > 0.95 - 5.5 * np.sqrt(0.05 * 0.95 / GROUPS)
        assert (high - low).mean() < cells / 2


def test_half_widths_are_those_of_the_law() -> None:
    noise, counts, share = LaplaceNoise(Fraction(50)), 7, 0.3
    halves = half_widths(noise, counts, share, 0.95)
    drawn = np.random.default_rng(2).laplace(0, 50, (200_000, counts))
    for before in range(counts + 1):
        gaps = (1 - share) * drawn[:, :before].sum(axis=1) - share * drawn[:, before:].sum(axis=1)
        assert np.mean(np.abs(gaps) <= halves[before]) == pytest.approx(0.95, abs=0.004)


def test_two_answers_share_the_risk_and_are_intersected() -> None:
    table, _ = histograms(np.random.default_rng(1), 500, 100)
    around = Surroundings(GaussianNoise(Fraction(5)))
    parts = []
    for _ in range(2):
        places = QuantilesMechanism(Fraction(1), (HALF,)).release_groups(table)
        counts = around.release(table, places, ONE_ROW)
        parts.append(CountsAround(around, np.arange(GROUPS), places, counts, 100))
    both = intersect(parts, 0, HALF, 0.95, GROUPS)
    alone = [part.bracket(0, HALF, 0.975) for part in parts]
    assert both is not None
    assert np.array_equal(
        both[0], np.maximum(alone[0][0], alone[1][0]).clip(max=np.minimum(alone[0][1], alone[1][1]))
    )
    assert intersect([parts[0].take(np.arange(5))], 0, HALF, 0.95, GROUPS) is None


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    rng = np.random.default_rng(7)
    found = sf.create(tmp_path / "lab")
    rows = pa.table(
        {
            "id": np.arange(4000),
            "age": rng.normal(50, 10, 4000).clip(0, 110).astype(np.int64),
            "day": pa.array(rng.integers(18_000, 18_365, 4000).astype("datetime64[D]")),
            "ward": rng.choice(["A", "B"], 4000),
        }
    )
    columns = {
        "age": sf.between(0, 110, step=1),
        "day": sf.between(date(2019, 1, 1), date(2020, 12, 31)),
        "ward": sf.one_of("A", "B"),
    }
    found.register(
        "visits", rows, unit=sf.Unit("id", max_rows=1), columns=columns, budget=sf.Budget(epsilon=1000)
    )
    return found


def test_quantiles_of_numbers_and_dates_have_intervals_of_their_own_type(lab: Any) -> None:
    query = lab.session().sql(
        "SELECT ward, MEDIAN(age) AS mid, MEDIAN(day) AS day, MIN(age) AS low FROM visits GROUP BY ward"
    )
    released = query.release(epsilon=20)
    ends = released.interval()
    assert ends.schema.field("mid_low").type == pa.int64()
    assert ends.schema.field("day_high").type == pa.date32()
    low, high = (ends[name].to_numpy()[:2] for name in ("mid_low", "mid_high"))
    mid = released.to_arrow()["mid"].to_numpy()[:2]
    assert ((low <= mid) & (mid <= high) & (high - low < 30)).all()
    assert ends["low_low"].to_pylist() == [None] * len(ends)
    assert str(released).startswith("ward  mid  95 % interval ")
    again = released.refine(epsilon=20)
    assert again.interval().schema == ends.schema


def test_intervals_hold_what_the_grid_of_a_quantile_loses(tmp_path: Path) -> None:
    """All rows have one value, so that its place is chosen for certain and bounds the interval alone."""
    lab = sf.create(tmp_path / "lab")
    rows = pa.table({"id": np.arange(3000), "x": np.full(3000, 100 / 3), "y": np.full(3000, 7)})
    columns = {"x": sf.between(0, 100), "y": sf.between(1, 9, step=1)}
    lab.register("t", rows, unit=sf.Unit("id", max_rows=1), columns=columns, budget=sf.Budget(1000))
    exact = {"x": 100 / 3, "x / y": 100 / 21, "x * 1e9": 1e11 / 3, "-x": -100 / 3, "y": 7, "y * y": 49}
    for asked, truth in exact.items():
        ends = lab.session().sql(f"SELECT MEDIAN({asked}) AS m FROM t").release(epsilon=100).interval()
        ((low, high),) = (row.values() for row in ends.to_pylist())
        assert low <= truth <= high, asked
        # Of numbers on a declared step nothing is lost.
        assert (low == high) == asked.startswith("y"), asked
        assert high - low <= abs(truth) * 1e-3, asked


def test_the_whole_price_is_as_before(lab: Any) -> None:
    quote = lab.session().sql("SELECT MEDIAN(age) AS mid FROM visits").quote(epsilon=1)
    assert quote.plan.cost.pure == sf.privacy.price(sf.privacy.Exponential(1)).pure


def test_an_answer_from_before_has_no_interval(lab: Any) -> None:
    """Old answers hold only the places; they are still this question's answer, without ends."""
    released = (
        lab.session().sql("SELECT ward, MEDIAN(age) AS mid FROM visits GROUP BY ward").release(epsilon=1)
    )
    kept = released._plan
    from types import SimpleNamespace

    old = SimpleNamespace(answer=json.dumps([[[50, 60]]]))
    read = Release(kept, old, receipt=released.receipt)
    assert read.to_arrow()["mid"].to_pylist() == [50, 60]
    assert read.interval()["mid_low"].to_pylist() == [None, None]


def test_the_interval_of_the_smallest_spend_is_the_whole_range(lab: Any) -> None:
    released = lab.session().sql("SELECT MEDIAN(age) AS mid FROM visits").release(epsilon=4e-12)
    interval = released.interval()
    assert (interval["mid_low"].to_pylist(), interval["mid_high"].to_pylist()) == ([0], [110])


NOTES = ("flu", "cold", "rash")


def noted_rows() -> pa.Table:
    """Two rows a person; what was noted decides the age, and one note is one person's."""
    rng = np.random.default_rng(3)
    note = np.array([*rng.choice(NOTES, 5998), "secret", "secret"])
    age = np.select([note == each for each in NOTES], [20, 50, 80], 5) + rng.integers(0, 5, 6000)
    return pa.table({"id": np.arange(6000) // 2, "age": age, "note": note})


def test_quantiles_and_modes_of_keys_that_are_discovered(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"age": sf.between(0, 110, step=1), "note": sf.text()}
    unit, budget = sf.Unit("id", max_rows=2), sf.Budget(epsilon=1000, delta=1e-2)
    lab.register("visits", noted_rows(), unit=unit, columns=columns, budget=budget)
    query = lab.session().sql(
        "SELECT note, COUNT(*) AS n, MEDIAN(age) AS mid, MAX(age) AS top, MODE(FLOOR(age / 10)) AS often "
        "FROM visits GROUP BY note"
    )
    released = query.release(epsilon=100, delta=1e-6)
    shown = released.to_arrow().to_pydict()
    assert shown["note"] == sorted(NOTES)
    assert shown["mid"] == pytest.approx([52, 22, 82], abs=1)
    assert shown["top"] == pytest.approx([54, 24, 84], abs=1)
    assert shown["often"] == [5, 2, 8]
    ends = released.interval().to_pydict()
    assert all(
        low <= mid <= high
        for low, mid, high in zip(ends["mid_low"], shown["mid"], ends["mid_high"], strict=True)
    )
    better = released.refine(epsilon=100, delta=1e-6)
    assert better.to_arrow()["mid"].to_pylist() == pytest.approx([52, 22, 82], abs=1)
    none = lab.session().sql("SELECT note, MEDIAN(age) AS mid FROM visits WHERE age > 109 GROUP BY note")
    assert none.release(epsilon=1, delta=1e-6).to_arrow().num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("discovered", [False, True], ids=["listed keys", "discovered keys"])
def test_quartiles_of_groups_are_covered_behind_the_curator(tmp_path: Path, discovered: bool) -> None:
    """100 groups of skewed costs, 30 answers of different ε: of 9,000 intervals at least 94 % hold."""
    rng, groups, rows = np.random.default_rng(3), 100, 60_000
    ward, cost = rng.integers(0, groups, rows), rng.gamma(1.5, 200, rows).round()
    names = np.array([f"w{at:03}" for at in range(groups)])
    source = pa.table({"id": np.arange(rows), "ward": names[ward], "cost": cost})
    column = sf.text() if discovered else sf.one_of(*names.tolist())
    lab, unit = sf.create(tmp_path / "lab"), sf.Unit("id", max_rows=1)
    columns = {"ward": column, "cost": sf.between(0, 5000)}
    lab.register("visits", source, unit=unit, columns=columns, budget=sf.Budget(epsilon=1000, delta=1e-4))
    asked = lab.session().sql(
        "SELECT ward, QUANTILE(cost, 0.25) AS a, MEDIAN(cost) AS b, QUANTILE(cost, 0.75) AS c "
        "FROM visits GROUP BY ward"
    )
    truth = {name: np.sort(cost[ward == at]) for at, name in enumerate(names.tolist())}
    held = []
    for at in range(30):
        spend = {"epsilon": 1 + at / 100} | ({"delta": 1e-6} if discovered else {})
        answer = asked.release(**spend)  # type: ignore[arg-type]
        found = {**answer.to_arrow().to_pydict(), **answer.interval().to_pydict()}
        for place, name in enumerate(found["ward"]):
            if name is None:
                continue
            for column_name, share in (("a", 0.25), ("b", 0.5), ("c", 0.75)):
                values = truth[name]
                below = values[int(np.ceil(share * len(values))) - 1]
                above = values[int(np.floor(share * len(values)))]
                low, high = (found[f"{column_name}_{end}"][place] for end in ("low", "high"))
                held.append(low - 0.01 <= below and above <= high + 0.01)
    assert len(held) > 8_000
    assert np.mean(held) >= 0.94
