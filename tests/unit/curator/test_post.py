"""After the noise: arithmetic, nulls, which groups are shown, in which order, and what the intervals hold."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.catalog import declared
from sfumato.curator.plan import Plan, plan
from sfumato.curator.post import interval, places, steady, values
from sfumato.curator.spend import Pure, Rounded, Spend
from sfumato.engines.program import Present, Rows, Value, Weight
from sfumato.queries.sql import question

RUNS = 10_000
FALSE_ALARM = 1e-6  # of each coverage test: about 4.9 standard errors
ONE = Pure(Fraction(1))

TABLE = declared(
    "t",
    sf.Unit("who", max_rows=3),
    {"x": sf.between(-10, 30, step=1), "flag": sf.one_of(0, 1), "ward": sf.one_of("C", "A", "B", "D")},
)
CELLS = {Rows: [40, 10, 0, 10], Value: [80, -30, 7, 60], Weight: [4, 1, -2, 5], Present: [40, 9, -1, 10]}


def _plan(sql: str, spend: Spend = ONE) -> Plan:
    return plan(TABLE, question(sql), spend)


def _noisy(priced: Plan) -> Any:
    return np.array([CELLS[type(term)] for term in priced.program.terms], dtype=object)


def _computed(expression: str) -> list[float | None]:
    priced = _plan(f"SELECT {expression} AS a FROM t GROUP BY ward")
    got = values(priced, priced.question.figures["a"], _noisy(priced)).tolist()
    return [None if math.isnan(number) else number for number in got]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("COUNT(*) + 1", [41, 11, 1, 11]),
        ("2 - COUNT(*)", [-38, -8, 2, -8]),
        ("-SUM(x)", [-80, 30, -7, -60]),
        ("COUNT(*) / 4", [10, 2.5, 0, 2.5]),
        ("COUNT(*) / -4", [-10, -2.5, 0, -2.5]),
        ("SUM(x) / COUNT(*)", [2, -3, None, 6]),
        ("100.0 * SUM(flag) / COUNT(*)", [10, 10, None, 50]),
        ("1 / SUM(flag)", [0.25, 1, None, 0.2]),
        ("COUNT(x) * COUNT(*)", [1600, 90, 0, 100]),
        ("(SUM(x) / COUNT(*)) + 1", [3, -2, None, 7]),
        ("(2 + 3) * COUNT(*)", [200, 50, 0, 50]),
        ("COUNT(*) / (SUM(x) - 80)", [None, None, None, None]),
    ],
)
def test_arithmetic_and_its_nulls(expression: str, expected: list[float | None]) -> None:
    assert _computed(expression) == expected


def test_numbers_beyond_doubles_are_null() -> None:
    assert _computed("*".join(["(1e30 * COUNT(*))"] * 11))[0] is None


# ---- groups ----


def _shown(clauses: str) -> str:
    """The wards shown, in order. Declared order is C, A, B, D, and COUNT(*) is 40, 10, 0, 10."""
    shown = "ward AS w, COUNT(*) AS n, SUM(x) AS s, SUM(x) / COUNT(*) AS per"
    priced = _plan(f"SELECT {shown} FROM t GROUP BY ward {clauses}")
    return "".join("CABD"[at] for at in places(priced, _noisy(priced), {"ward": list("CABD")}))


@pytest.mark.parametrize(
    ("clauses", "wards"),
    [
        ("", "CABD"),
        ("ORDER BY w", "ABCD"),
        ("ORDER BY WARD DESC", "DCBA"),
        ("ORDER BY 1", "ABCD"),
        ("ORDER BY n", "BADC"),
        ("ORDER BY n DESC", "CADB"),
        ("ORDER BY COUNT(*) DESC, w DESC", "CDAB"),
        ("ORDER BY 2, 3 DESC", "BDAC"),
        ("ORDER BY per", "ACDB"),
        ("ORDER BY per DESC NULLS LAST", "DCAB"),
        ("ORDER BY s - 2 * n", "ACBD"),
        ("LIMIT 2", "CA"),
        ("ORDER BY n DESC LIMIT 1 OFFSET 1", "A"),
        ("OFFSET 9", ""),
        ("HAVING n >= 10", "CAD"),
        ("HAVING COUNT(*) = 10 AND SUM(flag) > 1", "D"),
        ("HAVING per > 0", "CD"),
        ("HAVING NOT per > 0", "A"),
        ("HAVING per > 0 OR n = 0", "CBD"),
        ("HAVING NOT (per > 0 AND n > 0)", "AB"),
        ("HAVING 10 <> n", "CB"),
        ("HAVING n < s ORDER BY s LIMIT 2", "BD"),
    ],
)
def test_which_groups_are_shown(clauses: str, wards: str) -> None:
    assert _shown(clauses) == wards


# ---- price and identity ----

PLAIN = "SELECT ward, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY ward"
FREE = [
    f"{PLAIN} ORDER BY n DESC LIMIT 3 OFFSET 1",
    f"{PLAIN} HAVING n > 3 AND NOT SUM(x) < 4 ORDER BY s / n",
    "SELECT ward AS w, SUM(x) / COUNT(*) AS per FROM t GROUP BY w",
    "SELECT ward AS w, 100.0 * SUM(x) / COUNT(*) + 3 AS per FROM t GROUP BY 1 ORDER BY 2",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING SUM(x) > 3",
    "SELECT COUNT(*) AS n FROM t GROUP BY ward ORDER BY SUM(x)",
]


@pytest.mark.parametrize("sql", FREE)
def test_what_is_done_after_the_noise_changes_neither_price_nor_request(sql: str) -> None:
    assert _plan(sql).request == _plan(PLAIN).request
    assert _plan(sql).event == _plan(PLAIN).event


def test_luck_is_named_where_noise_chooses() -> None:
    named = [any("luck" in text for text in _plan(sql).bias) for sql in [PLAIN, *FREE]]
    assert named == [False, True, True, False, False, True, False]


# ---- intervals ----


def _coverage(expression: str, spend: Spend, confidence: float) -> float:
    """How often the interval of a number holds it, when noise is added to known integers."""
    priced = _plan(f"SELECT {expression} AS a FROM t", spend)
    figure = priced.question.figures["a"]
    exact = {Rows: 400, Value: 3000, Weight: 130, Present: 390}
    truths = [exact[type(term)] for term in priced.program.terms]
    truth = values(priced, figure, np.array([[each] for each in truths], dtype=object))[0]
    noisy = [each.noise.release(np.full(RUNS, at)) for each, at in zip(priced.measured, truths, strict=True)]
    low, high = interval(priced, figure, np.array(noisy, dtype=object), confidence)
    return float(np.mean(((low <= truth) & (truth <= high)) | np.isnan(low)))


@pytest.mark.parametrize(
    "spend", [Pure(Fraction(1, 10)), Pure(Fraction(2)), Rounded(Fraction(3), "Gaussian")], ids=str
)
@pytest.mark.parametrize(
    "expression",
    [
        "COUNT(*) / 7",
        "SUM(x) / COUNT(*)",
        "100.0 * SUM(flag) / COUNT(*)",
        "SUM(x) - 3 * COUNT(*)",
        "SUM(x) * COUNT(x)",
        "AVG(x) * COUNT(*)",
        "(SUM(x) - COUNT(*)) / (COUNT(x) + COUNT(*))",
    ],
)
def test_coverage_is_at_least_the_confidence(expression: str, spend: Spend) -> None:
    slack = 4.9 * math.sqrt(0.95 * 0.05 / RUNS)
    assert _coverage(expression, spend, 0.95) >= 0.95 - slack


def test_intervals_of_one_aggregate_lose_nothing() -> None:
    slack = 4.9 * math.sqrt(0.95 * 0.05 / RUNS)
    assert _coverage("COUNT(*) / 7", Pure(Fraction(1, 10)), 0.95) <= 0.95 + slack + 0.03


def test_nothing_is_known_where_a_divisor_may_be_zero() -> None:
    priced = _plan("SELECT SUM(x) / COUNT(*) AS a FROM t GROUP BY ward", Pure(Fraction(1, 10)))
    low, high = interval(priced, priced.question.figures["a"], _noisy(priced), 0.95)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("COUNT(*) + 2 * SUM(x)", True),
        ("(COUNT(*) - 3) / 7", True),
        ("AVG(x) + 1", False),
        ("SUM(x) / COUNT(*)", False),
        ("COUNT(*) * COUNT(*)", False),
    ],
)
def test_widths_known_beforehand(expression: str, expected: bool) -> None:
    assert steady(_plan(f"SELECT {expression} AS a FROM t").question.figures["a"]) is expected
