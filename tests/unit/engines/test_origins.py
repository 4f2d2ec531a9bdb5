"""Which columns of SQL over an answer hold noise, and of which an interval can be known."""

from __future__ import annotations

import pytest

from sfumato.engines.duckdb.origins import KNOWN, NOISY, Origin, trace_select

COLUMNS = {"ward": KNOWN, "year": KNOWN, "n": NOISY, "s": NOISY, "m": Origin(True, "it is a median")}
SMOOTH = [
    "SELECT ward, n, s / n AS a, ROUND(-n * 2, 1) AS b, COALESCE(n, 0) AS c, LN(n) + EXP(s) AS d FROM answer",
    "SELECT ward, SUM(n) AS a, AVG(s) AS b, COUNT(*) AS c FROM answer GROUP BY ward",
    "SELECT ward, SUM(n) FILTER (WHERE year = 3) AS a FROM answer GROUP BY 1",
    "SELECT ward, CASE WHEN year > 3 THEN n ELSE 0 END AS a FROM answer WHERE ward <> 'A'",
    "SELECT ward, SUM(n) OVER (ORDER BY year) AS a, LAG(n) OVER (ORDER BY ward) AS b FROM answer",
    "WITH w AS (SELECT ward, SUM(n) AS n FROM answer GROUP BY 1) SELECT ward, n - AVG(n) OVER () AS a FROM w",
    "SELECT x.ward, x.n - y.n AS a FROM answer AS x JOIN answer AS y USING (ward, year)",
    "SELECT ward, n * 2 AS a, a + 1 AS b FROM answer",
    "SELECT ward, n / (SELECT SUM(n) FROM answer) AS a FROM answer ORDER BY year LIMIT 3",
]


@pytest.mark.parametrize("text", SMOOTH)
def test_sums_and_smooth_functions_can_have_intervals(text: str) -> None:
    traced = trace_select(text, COLUMNS)
    assert traced is not None
    named = dict(zip(traced.names, traced.origins, strict=True))
    assert named["ward"] == KNOWN
    assert all(each.reason is None for each in named.values())
    assert all(named[name].noisy for name in named if name in "abcdn")
    assert not traced.chosen


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("MAX(n)", "MAX of noisy numbers is biased"),
        ("ARG_MAX(ward, n)", "biased"),
        ("MEDIAN(n)", "biased"),
        ("STDDEV(n)", "biased"),
        ("CORR(n, s)", "biased"),
        ("COUNT(DISTINCT n)", "biased"),
        ("SUM(ABS(n))", "biased"),
        ("SUM(GREATEST(n, s))", "biased"),
        ("SUM(CASE WHEN n > 3 THEN 1 END)", "comparisons"),
        ("COUNT(*) FILTER (WHERE n > 3)", "comparisons"),
        ("SUM(m)", "it is a median"),
        ("SUM(n > 3)", "biased"),
    ],
)
def test_other_aggregates_have_none(shown: str, reason: str) -> None:
    traced = trace_select(f"SELECT {shown} AS x FROM answer", COLUMNS)
    assert traced is not None
    assert reason in str(traced.origins[0].reason)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(n) AS x FROM answer WHERE n > 3",
        "SELECT COUNT(*) AS x FROM answer WHERE n > 3",
        "SELECT SUM(n) AS x FROM (SELECT n FROM answer ORDER BY n LIMIT 3)",
        "SELECT AVG(t) AS x FROM (SELECT SUM(n) AS t FROM answer GROUP BY ward HAVING SUM(n) > 3)",
        "SELECT SUM(n) AS x FROM (SELECT n FROM answer QUALIFY ROW_NUMBER() OVER (ORDER BY n) = 1)",
        "SELECT SUM(a.n) AS x FROM answer AS a JOIN answer AS b ON a.n < b.n",
        "SELECT SUM(n) OVER () AS x FROM answer WHERE n > 3",
        "SELECT COUNT(*) AS x FROM (SELECT DISTINCT n FROM answer)",
        "SELECT (SELECT SUM(n) FROM answer WHERE n > 3) AS x FROM answer",
        "SELECT COUNT(*) AS x FROM answer GROUP BY n > 3",
    ],
)
def test_what_is_computed_from_rows_that_noise_chose_has_none(text: str) -> None:
    traced = trace_select(text, COLUMNS)
    assert traced is not None
    assert "noise decides" in str(traced.origins[0].reason)


def test_aggregates_over_a_chosen_answer_have_none() -> None:
    traced = trace_select("SELECT SUM(n) AS x FROM answer", COLUMNS, chosen=True)
    assert traced is not None
    assert traced.origins[0].reason
    rows = trace_select("SELECT ward, n FROM answer", COLUMNS, chosen=True)
    assert rows is not None
    assert (rows.chosen, rows.origins) == (True, (KNOWN, NOISY))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT ward, n FROM answer ORDER BY n LIMIT 3", "SELECT ward, n FROM answer ORDER BY n"),
        ("SELECT ward, n FROM answer WHERE n > 3", "SELECT ward, n FROM answer"),
        (
            "SELECT ward, SUM(n) AS n FROM answer GROUP BY ward HAVING SUM(n) > 3",
            "SELECT ward, SUM(n) AS n FROM answer GROUP BY ward",
        ),
        (
            "SELECT ward, n FROM answer QUALIFY RANK() OVER (ORDER BY n) < 3",
            "SELECT ward, n FROM answer",
        ),
        (
            "SELECT ward, s / n AS x FROM answer LIMIT 3",
            "SELECT ward, s / CASE WHEN n > 0 THEN n END AS x FROM answer LIMIT 3",
        ),
    ],
)
def test_draws_are_of_all_rows(text: str, whole: str) -> None:
    traced = trace_select(text, COLUMNS)
    assert traced is not None
    assert traced.text == whole
    assert traced.chosen == (" / " not in text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM other",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT x FROM r",
        "SELECT * EXCLUDE (n) FROM answer",
        "PIVOT answer ON ward USING SUM(n)",
        "SELECT COLUMNS('n') FROM answer",
        "SELECT n FROM answer TABLESAMPLE 10%",
        "SELECT LIST_TRANSFORM([n], x -> x + 1) AS l FROM answer",
        "SELECT 1; SELECT 2",
        "SELEC",
        "",
        "x" * 30_000,
    ],
)
def test_what_is_not_followed_is_not_guessed(text: str) -> None:
    assert trace_select(text, COLUMNS) is None


def test_stars_are_the_columns_of_the_answer() -> None:
    traced = trace_select("SELECT * FROM answer", COLUMNS)
    assert traced is not None
    assert dict(zip(traced.names, traced.origins, strict=True)) == COLUMNS


@pytest.mark.parametrize(
    ("shown", "counts"),
    [
        ("n", False),
        ("SUM(n)", False),
        ("SUM(n) / SUM(s) + 1", False),
        ("SUM(SUM(n)) OVER ()", False),
        ("COUNT(*)", True),
        ("AVG(n)", True),
        ("SUM(1)", True),
        ("SUM(n) / COUNT(*)", True),
        ("ROUND(AVG(n) * 2)", True),
        ("COUNT(*) OVER ()", True),
        ("n - LAG(n) OVER (ORDER BY ward)", True),
        ("(SELECT AVG(n) FROM answer)", True),
        ("CASE WHEN ward = 'A' THEN 1 ELSE AVG(n) END", True),
    ],
)
def test_numbers_that_depend_on_how_many_groups_there_are_are_marked(shown: str, counts: bool) -> None:
    traced = trace_select(f"SELECT {shown} AS x FROM answer", COLUMNS)
    assert traced is not None
    assert traced.origins[0].counts == counts
