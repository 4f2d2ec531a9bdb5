"""What the ledger says of a question names all of it: two expressions give two texts."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.curator.question.description import describe_aggregate

DESCRIBED = [
    (sf.count(), "count()"),
    (sf.count("age"), "count(age)"),
    (sf.mean("age >= 65"), "mean(age >= 65)"),
    (sf.sum("cost * 2"), "sum(multiply(cost, 2))"),
    (
        sf.mean("CASE WHEN age = 37 AND ward = 'O''Hara' THEN cost ELSE 0 END"),
        "mean(CASE WHEN (age = 37) AND (ward = 'O''Hara') THEN cost ELSE 0 END)",
    ),
    (sf.mean("CASE WHEN age = 38 THEN cost ELSE 0 END"), "mean(CASE WHEN age = 38 THEN cost ELSE 0 END)"),
    (sf.mean("note LIKE '%pain%' OR note IS NULL"), "mean((note LIKE '%pain%') OR (note IS NULL))"),
    (sf.median("cost"), "quantile(cost, 1/2)"),
    (sf.quantile("cost", 0.9), "quantile(cost, 9/10)"),
    (sf.correlation("age", "cost"), "correlation(age, cost)"),
]


@pytest.mark.parametrize(("aggregate", "text"), DESCRIBED)
def test_an_aggregate_is_described_whole(aggregate: object, text: str) -> None:
    assert describe_aggregate(aggregate) == text
