"""clip="auto": ends that are chosen privately as the first part of a release."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from exact_answers import without_noise
from sfumato.errors import SfumatoError
from sfumato.lab.bounds.clipping import _round_to_zero

SIZE = 8_000
START, END = date(2023, 1, 1), date(2023, 12, 31)
STAY = "SELECT AVG(DATE_DIFF('day', came, left_on)) AS stay FROM t"
OFFER = 'clip="auto"'


def make_stays() -> pa.Table:
    """Stays of two weeks on average, two for each person."""
    rng = np.random.default_rng(0)
    came = [START + timedelta(days=int(each)) for each in rng.integers(0, 250, SIZE)]
    left = [day + timedelta(days=int(each)) for day, each in zip(came, rng.gamma(2, 7, SIZE), strict=True)]
    columns = {
        "who": np.arange(SIZE) // 2,
        "came": pa.array(came),
        "left_on": pa.array(left),
        "ward": rng.choice(["A", "B"], SIZE),
        "cost": rng.gamma(2, 5, SIZE),
    }
    return pa.table(columns)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    """A lab in which stays may last a year by declaration."""
    days = sf.between(START, END, missing=START)
    columns = {"came": days, "left_on": days, "ward": sf.one_of("A", "B"), "cost": sf.between(-5000, 5000)}
    lab = sf.create(tmp_path / "lab")
    unit, budget = sf.Unit("who", max_rows=5), sf.Budget(10, 1e-6)
    lab.register("t", make_stays(), unit=unit, columns=columns, budget=budget)
    return lab


def refuse(call: Callable[[], Any]) -> str:
    with pytest.raises(SfumatoError) as refused:
        call()
    return str(refused.value.code)


def list_charges(lab: sf.Lab) -> int:
    return lab.ledger.verify().charges


def width(release: Any, name: str) -> float:
    interval = release.interval().to_pydict()
    return float(interval[f"{name}_high"][0] - interval[f"{name}_low"][0])


@pytest.mark.parametrize("spend", [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-8}], ids=["pure", "both"])
def test_a_clip_is_part_of_a_release(lab: sf.Lab, spend: Any) -> None:
    """The answer has less than half the error, for the price that was quoted, in two charges."""
    query, account = lab.session().sql(STAY), "population:who"
    wide = query.release(**spend)
    before, charges = lab.ledger.read_spent(account), list_charges(lab)
    quote = query.quote(**spend, clip="auto")
    assert (list_charges(lab), lab.ledger.read_spent(account)) == (charges, before)
    assert "chosen privately, for ε = 0.05 of the price. Errors assume −50 to 50" in str(quote)
    assert str(quote).startswith(f"Quote: {query.quote(epsilon=0.7).plan.spend}"[:7] + "ε = 0.5")
    release = query.release(**spend, clip="auto")
    assert list_charges(lab) == charges + 2
    spent, quoted = lab.ledger.read_spent(account), before + quote.plan.cost
    assert (spent.pure, spent.side) == (quoted.pure, quoted.side)
    # Whole numbers of noise between other ends cost a millionth more or less at Rényi orders.
    assert spent.renyi == pytest.approx(quoted.renyi, rel=1e-6)
    assert width(release, "stay") < width(wide, "stay") / 2
    (said,) = (each for each in release.caveats if "clipped" in each)
    assert said.startswith("Values of stay are clipped to 0 to ")
    assert "chosen privately (ε = 0.05, ledger entry " in said
    # Asked again it is free, and so is its quote, which now has the error of the chosen ends.
    again = query.release(**spend, clip="auto")
    assert again.receipt.replayed
    assert again.to_arrow() == release.to_arrow() == query.find_answer(**spend, clip="auto").to_arrow()  # type: ignore[union-attr]
    assert query.quote(**spend, clip="auto").free
    assert list_charges(lab) == charges + 2


def test_a_retry_with_the_same_key_is_charged_once(lab: sf.Lab) -> None:
    query = lab.session().sql(STAY)
    first = query.release(epsilon=0.5, clip="auto", key="one")
    assert query.release(epsilon=0.5, clip="auto", key="one").to_arrow() == first.to_arrow()
    assert list_charges(lab) == 2


@pytest.mark.parametrize(
    ("sql", "most", "exact"),
    [
        (STAY, 200, None),
        ("SELECT SUM(GREATEST(left_on - came, 0)) AS x, COUNT(*) AS n FROM t", 200, None),
        (
            "SELECT ward, AVG(cost) AS x FROM t GROUP BY ward HAVING AVG(cost) > 1 ORDER BY AVG(cost)",
            200,
            None,
        ),
        ("SELECT STDDEV(cost * cost) AS x FROM t WHERE ward = 'A'", 20_000, None),
        ("SELECT AVG(x) AS x FROM (SELECT who, SUM(cost) AS x FROM t GROUP BY who)", 500, None),
        ("SELECT AVG(0 * (left_on - came)) AS x FROM t", 1, 0),
    ],
)
def test_ends_lie_around_the_values(lab: sf.Lab, sql: str, most: int, exact: Any) -> None:
    """Without noise the clipped answer is that of plain DuckDB, because few values are lost."""
    query, plain = lab.session().sql(sql), duckdb.connect()
    plain.register("t", make_stays())
    expected = plain.sql(sql).to_arrow_table().to_pydict()
    with without_noise():
        release = query.release(epsilon=1, clip="auto")
        clipped = release.to_arrow().to_pydict()
    (said,) = (each for each in release.caveats if "are clipped" in each)
    low, high = (
        said.split(" clipped to ")[1].split(", chosen")[0].replace("−", "-").replace(",", "").split(" to ")
    )
    assert -most <= float(low) <= 0 < float(high) <= most
    column = next(iter(set(expected) - {"ward", "n"}))
    assert clipped[column] == pytest.approx([float(each) for each in expected[column]], rel=0.02)
    assert exact is None or clipped[column] == [exact]


def test_both_parts_can_be_paid_for_or_nothing_is_charged(lab: sf.Lab) -> None:
    query = lab.session().sql(STAY)
    assert refuse(lambda: query.release(epsilon=11, clip="auto")) == "SF-B105"
    assert not query.quote(epsilon=11, clip="auto").admitted
    assert list_charges(lab) == 0


@pytest.mark.parametrize(
    ("sql", "spend"),
    [
        (STAY, {"epsilon": 1, "clip": "yes"}),
        (STAY, {"epsilon": 1, "clip": 5}),
        (STAY, {"rho": 0.1, "clip": "auto"}),
        (STAY, {"error": {"stay": 3}, "clip": "auto"}),
        ("SELECT COUNT(*) AS n FROM t", {"epsilon": 1, "clip": "auto"}),
        ("SELECT MEDIAN(left_on - came) AS n FROM t", {"epsilon": 1, "clip": "auto"}),
        ("SELECT AVG(left_on - came) AS x, AVG(cost) AS y FROM t", {"epsilon": 1, "clip": "auto"}),
    ],
)
def test_what_cannot_be_clipped_is_refused_at_no_charge(lab: sf.Lab, sql: str, spend: Any) -> None:
    query = lab.session().sql(sql)
    for call in (query.quote, query.release, query.find_answer):
        assert refuse(lambda call=call: call(**spend)) == "SF-Q210"  # type: ignore[misc]
    assert list_charges(lab) == 0


def test_only_single_questions_are_clipped(lab: sf.Lab) -> None:
    together = lab.session().ask_together([STAY, "SELECT COUNT(*) AS n FROM t"])
    assert refuse(lambda: together.release(epsilon=1, clip="auto")) == "SF-Q210"
    assert list_charges(lab) == 0


def test_where_noise_hides_all_values_the_bounds_stay(lab: sf.Lab) -> None:
    query = lab.session().sql(STAY)
    release = query.release(epsilon=0.001, clip="auto")
    assert any(each.startswith("Values are not clipped: noise hides them") for each in release.caveats)
    assert release.interval().to_pydict()["stay_low"] == [-364]


@pytest.mark.parametrize(
    ("sql", "spend", "offered"),
    [
        (STAY, {"epsilon": 1}, True),
        (STAY, {"epsilon": 1, "delta": 1e-7}, True),
        (STAY, {"epsilon": 1, "given": {"n": 5000}}, True),
        # At this ε, noise would hide the values of 500 rows.
        (STAY, {"epsilon": 0.1, "given": {"n": 500}}, False),
        # Neither is paid for in a way that it can be clipped with.
        (STAY, {"rho": 0.1}, False),
        (STAY, {"error": {"stay": 5}, "given": {"n": 5000}}, False),
        ("SELECT AVG(left_on - came) AS x, AVG(came - left_on) AS y FROM t", {"epsilon": 1}, False),
        # Its bounds were declared.
        ("SELECT AVG(cost) AS x FROM t", {"epsilon": 1}, False),
        # Most of the error is that of another number.
        ("SELECT SUM(LEAST(left_on - came, 40)) + 500 * COUNT(*) AS x FROM t", {"epsilon": 1}, False),
    ],
)
def test_it_is_offered_where_the_expected_error_is_smaller(
    lab: sf.Lab, sql: str, spend: Any, offered: bool
) -> None:
    quote = lab.session().sql(sql).quote(**spend)
    assert (OFFER in str(quote)) is offered
    if offered:
        clipped = lab.session().sql(sql).quote(**spend, clip="auto")
        before, after = quote.error()["stay"], clipped.error()["stay"]
        assert (before is None and after is None) or after < before  # type: ignore[operator]


@pytest.mark.parametrize(
    ("ends", "rounded"),
    [((1, 200), (0, 200)), ((-200, -20), (-200, 0)), ((50, 200), (50, 200)), ((-1, 200), (-1, 200))],
)
def test_an_end_near_zero_is_zero(ends: tuple[int, int], rounded: tuple[int, int]) -> None:
    assert _round_to_zero(*map(Fraction, ends)) == rounded
