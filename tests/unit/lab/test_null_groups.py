"""Rows without a key have a group of their own: by declaration, never by the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.answer import match_kept_form
from sfumato.curator.answers.release import Release
from sfumato.curator.gate import encode_answer

ROWS = pa.table(
    {
        "who": list(range(60)),
        "ward": ["A"] * 20 + ["B"] * 10 + [None] * 30,
        "sure": ["A"] * 20 + ["B"] * 10 + [None] * 30,
        "age": [float(i) for i in range(50)] + [None] * 10,
        "note": ["x"] * 25 + [None] * 35,
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B"),
    "sure": sf.one_of("A", "B", missing="B"),
    "age": sf.between(0, 110, step=1),
    "note": sf.text(),
}
EXACT = {"epsilon": 90}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("nulls") / "lab")
    budget = sf.Budget(epsilon=10_000, delta=1e-3)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    lab.register("none", ROWS.slice(0, 20), unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    return lab.session()


def _counts(session: Any, sql: str, **spend: Any) -> dict[Any, int]:
    table = session.sql(sql).release(**(spend or EXACT)).to_arrow()
    return dict(zip(table.column(0).to_pylist(), table.column("n").to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("ward", {"A": 20, "B": 10, None: 30}),
        ("sure", {"A": 20, "B": 40}),
        ("LOWER(ward)", {"a": 20, "b": 10, None: 30}),
        ("COALESCE(ward, 'none')", {"A": 20, "B": 10, "none": 30}),
        ("CASE WHEN ward = 'A' THEN 'yes' END", {"yes": 20, None: 40}),
        ("CASE WHEN ward = 'A' THEN 'yes' ELSE 'no' END", {"yes": 20, "no": 40}),
        ("ward = 'A'", {True: 20, False: 10, None: 30}),
        ("sure = 'A'", {True: 20, False: 40}),
        ("ward IS NULL", {True: 30, False: 30}),
        ("FLOOR(age / 60)", {0: 50, None: 10}),
    ],
)
def test_a_key_that_can_be_missing_has_a_group_for_it(session: Any, key: str, counts: dict[Any, int]) -> None:
    assert _counts(session, f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k") == counts


@pytest.mark.parametrize(
    "where", ["ward IS NOT NULL", "ward IN ('A', 'B')", "NOT ward = 'A'", "LOWER(ward) = 'a'"]
)
def test_a_condition_can_rule_it_out(session: Any, where: str) -> None:
    assert None not in _counts(session, f"SELECT ward, COUNT(*) AS n FROM t WHERE {where} GROUP BY ward")


def test_it_is_measured_whatever_the_rows_are_and_shown_if_it_is_significant(session: Any) -> None:
    """In the table `none` no ward is missing, and the group is measured all the same."""
    sql = "SELECT ward, COUNT(*) AS n FROM none GROUP BY ward"
    assert _counts(session, sql) == {"A": 20, "B": 0}
    every = session.sql(sql).release(**EXACT).all_groups().to_arrow()
    assert every.to_pydict() == {"ward": ["A", "B", None], "n": [20, 0, 0]}


def test_it_is_discovered_like_other_keys(session: Any) -> None:
    spend = {"epsilon": 90, "delta": 1e-6}
    sql = "SELECT note, COUNT(*) AS n FROM t GROUP BY note"
    assert _counts(session, sql, **spend) == {"x": 25, None: 35}
    assert _counts(session, sql.replace("FROM t", "FROM none"), **spend) == {"x": 20}


def test_it_comes_last_in_either_order_and_frames_show_it(session: Any) -> None:
    sql = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward ORDER BY ward"
    assert list(_counts(session, sql)) == ["A", "B", None]
    assert list(_counts(session, f"{sql} DESC")) == ["B", "A", None]
    shown = session.table("t").group_by("ward").agg(n=sf.count(), a=sf.mean("age"), m=sf.median("age"))
    release = shown.release(**EXACT)
    assert release.to_arrow().column("ward").to_pylist() == ["A", "B", None]
    assert "null" in str(release)
    assert "null" in release.plot("n").to_json()


def test_averages_of_no_rows_are_null(session: Any) -> None:
    table = session.sql("SELECT ward, AVG(age) AS a FROM none GROUP BY ward").release(**EXACT).to_arrow()
    assert table.column("a").to_pylist()[1:] == [None]


# ---- identity ----


def test_an_answer_from_before_is_found_and_read_without_the_group(session: Any) -> None:
    plan = session.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward").plan({"epsilon": 1})
    bare = plan.without_nulls
    assert plan.request == bare.request
    assert (plan.resolved.cells, bare.resolved.cells) == (3, 2)
    assert match_kept_form(plan, encode_answer([[[20, 10]]])) is bare
    assert match_kept_form(plan, encode_answer([[[20, 10, 30]]])) is plan


def test_refining_an_answer_from_before_leaves_the_group_out(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=10_000)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=1), columns=COLUMNS, budget=budget)
    query = lab.session().sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward")
    plan = query.plan({"epsilon": 90})
    paid = query._payer.pay(plan, "a question")
    old = Release(plan, replace(paid, answer=encode_answer([[[20, 10]]])), again=query.ask_again)
    assert old.to_arrow().num_rows == 2
    assert old.refine(epsilon=90).to_arrow().to_pydict() == {"ward": ["A", "B"], "n": [20, 10]}
