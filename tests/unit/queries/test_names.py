"""Columns that were given no name get one: what was typed, as plain engines name them."""

from __future__ import annotations

import pytest

from sfumato.queries.sql import parse_question

NAMES = {
    "SELECT COUNT(*), AVG(cost), MEDIAN(cost) FROM visits": ["count", "avg_cost", "median_cost"],
    "SELECT SUM(cost * 2) FROM visits": ["sum(cost * 2)"],
    "SELECT COUNT(*) / 2 FROM visits": ["count(*) / 2"],
    "SELECT ROUND(AVG(cost), 1) FROM visits": ["round(avg(cost), 1)"],
    "SELECT CAST(AVG(cost) + 1 AS DOUBLE) FROM visits": ["CAST(avg(cost) + 1 AS DOUBLE)"],
    "SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () FROM visits GROUP BY ward": [
        "ward",
        "count(*) / sum(count(*)) OVER ()",
    ],
    "SELECT FLOOR(age / 10), COUNT(*) FROM visits GROUP BY 1": ["floor(age / 10)", "count"],
    "SELECT COUNT(*) FILTER (WHERE ward = 'Über') FROM visits": ["count(*) FILTER(WHERE ward = 'Über')"],
    'SELECT SUM("cost * 2") FROM (SELECT cost * 2 FROM visits)': ["sum_cost * 2"],
}


@pytest.mark.parametrize("sql", NAMES)
def test_a_column_without_a_name_has_the_text_that_was_typed(sql: str) -> None:
    assert list(parse_question(sql).names) == NAMES[sql]


def test_a_long_text_is_cut() -> None:
    (name,) = parse_question(f"SELECT SUM(cost + {'1 + ' * 50} 1) FROM visits").names
    assert len(name) == 80
