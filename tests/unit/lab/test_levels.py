"""ROLLUP, CUBE and GROUPING SETS: levels that are priced together and agree with each other."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.levels import put_together
from sfumato.curator.answers.release import Release
from sfumato.curator.plan.together.pool import StrategyItem
from sfumato.errors import SfumatoError

DRAW = np.random.default_rng(5)
ROWS = pa.table(
    {
        "who": np.arange(400) // 2,
        "ward": DRAW.choice(["A", "B", "C"], 400),
        "sex": DRAW.choice(["f", "m"], 400),
        "year": DRAW.integers(2020, 2024, 400),
        "cost": DRAW.integers(0, 9, 400).astype(float),
        "note": ["pain"] * 400,
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C", missing="A"),
    "sex": sf.one_of("f", "m"),
    "year": sf.between(2020, 2023, step=1, missing=2020),
    "cost": sf.between(0, 9, step=1),
    "note": sf.text(),
}
LEVELS = [
    "ROLLUP (ward, sex)",
    "CUBE (ward, sex)",
    "ward, ROLLUP (year)",
    "GROUPING SETS ((ward), (year), ())",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("levels") / "lab")
    budget = sf.Budget(epsilon=100_000, delta=1e-3)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=budget)
    return lab.session()


def _keys(levels: str) -> list[str]:
    return [name for name in ("ward", "sex", "year") if name in levels]


@pytest.mark.parametrize("levels", LEVELS)
def test_each_level_is_that_of_plain_duckdb(session: Any, levels: str) -> None:
    t = ROWS  # noqa: F841  DuckDB finds it by its name
    keys = _keys(levels)
    marks = ", ".join(f"GROUPING({key}) AS g_{key}" for key in keys)
    sql = f"""SELECT {", ".join(keys)}, {marks}, COUNT(*) AS n, SUM(cost) AS s, COUNT(DISTINCT who) AS p
              FROM t
              GROUP BY {levels}"""
    answer = session.sql(sql).release(epsilon=4000).to_arrow().to_pylist()
    found = [tuple(row.values()) for row in answer if row["n"]]
    assert sorted(found, key=str) == sorted(duckdb.sql(sql).fetchall(), key=str)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize(
    "spend", [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-6}], ids=["pure", "gaussian"]
)
def test_noisy_levels_add_up(session: Any, levels: str, spend: dict[str, Any]) -> None:
    keys = _keys(levels)
    marks = ", ".join(f"GROUPING({key}) AS g_{key}" for key in keys)
    sql = f"SELECT {', '.join(keys)}, {marks}, COUNT(*) AS n, SUM(cost) AS s FROM t GROUP BY {levels}"
    rows = session.sql(sql).release(**spend).all_groups().to_arrow().to_pylist()
    by_level: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in rows:
        by_level.setdefault(tuple(row[f"g_{key}"] for key in keys), []).append(row)
    total = {
        level: (sum(row["n"] for row in of), sum(row["s"] for row in of)) for level, of in by_level.items()
    }
    assert len(total) > 1
    assert len(set(total.values())) == 1
    assert all(isinstance(row["n"], int) for row in rows)


def test_the_quote_names_every_level(session: Any) -> None:
    quote = str(session.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ROLLUP (ward)").quote(epsilon=1))
    assert "shared by  2 levels of 1 sum" in quote
    assert "n by ward  ±" in quote
    assert "n in all   ±" in quote


def test_putting_together_is_least_squares() -> None:
    """Beside a solver of the normal equations, up to the rounding to whole numbers."""
    sizes, levels = [3, 4], [(0, 1), (0,), (1,), ()]
    variances = [4.0, 1.0, 9.0, 0.5]
    draw = np.random.default_rng(3)
    table = draw.integers(100, 10_000, sizes).astype(float)
    exact = [table, table.sum(axis=1), table.sum(axis=0), np.array(table.sum())]
    noisy = [
        each + draw.normal(0, 1e3 * v**0.5, each.shape) for each, v in zip(exact, variances, strict=True)
    ]
    cells = np.eye(12).reshape(12, 3, 4)
    sums = [cells.reshape(12, -1), cells.sum(axis=2), cells.sum(axis=1), cells.sum(axis=(1, 2))[:, None]]
    design = np.concatenate([each.T / v**0.5 for each, v in zip(sums, variances, strict=True)])
    wanted = np.concatenate([each.reshape(-1) / v**0.5 for each, v in zip(noisy, variances, strict=True)])
    best = np.linalg.lstsq(design, wanted, rcond=None)[0].reshape(3, 4)
    found = put_together(sizes, levels, noisy, variances)
    assert np.abs(found[0] - best).max() <= 1
    assert np.abs(found[1] - best.sum(axis=1)).max() <= 1
    assert np.array_equal(found[1], found[0].sum(axis=1))
    assert np.array_equal(found[2], found[0].sum(axis=0))
    assert found[3] == found[0].sum()


def test_intervals_cover(session: Any) -> None:
    """At 80 and 95 %, over answers with Laplace and Gaussian noise; a false alarm is rarer than 1e-6."""
    sizes, levels = [3, 4], [(0, 1), (0,), ()]
    draw = np.random.default_rng(8)
    for confidence in (0.8, 0.95):
        for kind in ("laplace", "normal"):
            quantile = {"laplace": -np.log(1 - confidence), "normal": {0.8: 1.2816, 0.95: 1.96}[confidence]}[
                kind
            ]
            inside = np.zeros(3)
            for _ in range(400):
                noise = [getattr(draw, kind)(0, 100, [sizes[key] for key in level]) for level in levels]
                variance = 2 * 100.0**2 if kind == "laplace" else 100.0**2
                off = put_together(sizes, levels, noise, [variance] * 3)
                inside += [(np.abs(each) <= 100 * quantile + 1).mean() for each in off]
            assert (inside / 400 >= confidence - 0.1 * (1 - confidence) - 0.02).all(), (confidence, kind)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note, COUNT(*) AS n FROM t GROUP BY ROLLUP (note)",
        "SELECT ward, GROUPING(sex) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (ward)",
        "SELECT ward, GROUPING(ward) AS g, COUNT(*) AS n FROM t GROUP BY ward",
    ],
)
def test_what_has_no_levels_is_refused(session: Any, sql: str) -> None:
    with pytest.raises(SfumatoError):
        session.sql(sql)


@pytest.mark.parametrize("spend", [{"epsilon": 0.7}, {"rho": 0.07}])
def test_answers_from_before_levels_were_measured_together_are_found(
    session: Any, spend: dict[str, Any]
) -> None:
    """Each level had an even part of the spend then; the request is the same, and so are its numbers."""
    query = session.sql(
        "SELECT ward, sex, COUNT(*) AS n, MEDIAN(cost) AS c FROM t GROUP BY ROLLUP (ward, sex)"
    )
    plan = query.plan(spend)
    before = plan.with_strategy(None)
    assert plan.pooled_steps
    assert not before.pooled_steps
    assert before.request == plan.request
    first = Release(before, session._payer.pay(before, "before"))
    again = query.release(**spend)
    assert again.receipt.replayed
    assert again.to_arrow() == first.to_arrow()
    assert again.interval() == first.interval()


def test_an_answer_is_read_with_the_parts_it_was_measured_with(session: Any) -> None:
    """Whichever strategy would be planned now."""
    query = session.sql("SELECT ward, sex, SUM(cost) AS s FROM t GROUP BY CUBE (ward, sex)")
    plan = query.plan({"epsilon": 0.6})
    parts = {(): Fraction(1, 4), (0, 1): Fraction(3, 4)}
    items = tuple(StrategyItem(keys, plan.pool.names[0], part) for keys, part in parts.items())
    other = plan.with_strategy(items)
    assert other.strategy == items != plan.strategy
    first = Release(other, session._payer.pay(other, "another strategy"))
    again = query.release(epsilon=0.6)
    assert again.receipt.replayed
    assert again.to_arrow() == first.to_arrow()
    assert again.interval() == first.interval()
