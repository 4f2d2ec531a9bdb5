"""What a hostile reader of the curator tried with success once: each is refused or answered rightly now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path

MUCH = sf.Budget(epsilon=10_000, delta=1e-6)
SURE = 500.0
"""An ε whose noise is nothing against the differences looked for."""


def lab_of(folder: Path, table: pa.Table, max_rows: int, columns: dict[str, Any]) -> Any:
    lab = sf.create(folder / "lab")
    lab.register("v", table, unit=sf.Unit("pid", max_rows=max_rows), columns=columns, budget=MUCH)
    return lab


def answer(session: Any, sql: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = session.sql(sql).release(epsilon=SURE).to_arrow().to_pydict()
    return found


@pytest.fixture
def joined(tmp_path: Path) -> Any:
    """Visits whose numbers are large, others whose numbers of the same name are small, and public regions."""
    visits = pa.table({"pid": [1, 2, 3, 4], "region": ["n", "s", "n", "s"], "x": [2**19] * 4})
    lab = lab_of(tmp_path, visits, 1, {"region": sf.one_of("n", "s"), "x": sf.between(0, 2**19, step=1)})
    others = pa.table({"pid": [1, 2, 3, 4], "x": [1, 2, 3, 4]})
    lab.register("o", others, unit=sf.Unit("pid", max_rows=1), columns={"x": sf.between(0, 4, step=1)})
    regions = pa.table({"region": ["n", "s"], "pop": [10, 20]})
    promised = {"region": sf.one_of("n", "s"), "pop": sf.between(0, 100, step=1)}
    lab.register("regions", regions, unit=sf.PUBLIC, columns=promised)
    return lab.session()


@pytest.mark.parametrize(
    "tables", ["v JOIN regions USING (region)", "regions JOIN v USING (region)"], ids=["people", "public"]
)
def test_a_join_may_start_from_either_side(joined: Any, tables: str) -> None:
    """A source's number was given twice, so that one table's bounds were taken for another's."""
    sql = f"SELECT SUM(v.x * v.x) AS s, SUM(o.x) AS o FROM {tables} JOIN o USING (pid)"
    found = answer(joined, sql)
    assert found["s"][0] == pytest.approx(4 * 2**38, rel=0.1)
    assert found["o"][0] == pytest.approx(10, abs=2)
    by_unit = f"SELECT SUM(t) AS s FROM (SELECT pid, SUM(pop) AS t FROM {tables} GROUP BY pid)"
    assert answer(joined, by_unit)["s"][0] == pytest.approx(60, abs=5)


def test_one_units_rows_after_a_join_fit_in_memory(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, pa.table({"pid": [1], "x": [1]}), 130, {"x": sf.between(0, 9, step=1)})
    joins = " ".join(f"JOIN v AS v{i} USING (pid)" for i in range(3))
    with pytest.raises(PolicyError, match="SF-Q158"):
        lab.session().sql(f"SELECT MEDIAN(a.x) AS m FROM v AS a {joins}")


def test_figures_of_one_column_keep_their_own_numbers(tmp_path: Path) -> None:
    table = pa.table({"pid": [i // 2 for i in range(400)], "x": [10] * 400, "w": ["a", "b"] * 200})
    lab = lab_of(tmp_path, table, 2, {"x": sf.between(0, 16, step=1), "w": sf.one_of("a", "b")})
    session = lab.session()
    by_unit = (
        "SELECT pid, SUM(x) AS one, SUM(x * 3) AS three, MAX(w) AS w, MAX(UPPER(w)) AS u FROM v GROUP BY pid"
    )
    found = answer(session, f"SELECT SUM(one) AS one, SUM(three) AS three FROM ({by_unit})")
    assert found["one"][0] == pytest.approx(4000, rel=0.02)
    assert found["three"][0] == pytest.approx(12000, rel=0.02)
    assert answer(session, f"SELECT u, COUNT(*) AS n FROM ({by_unit}) GROUP BY u")["u"] == ["A", "B"]


def test_an_answer_is_not_refined_by_other_rows(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, pa.table({"pid": [1, 2], "x": [9, 9]}), 1, {"x": sf.between(0, 9, step=1)})
    first = lab.session().sql("SELECT SUM(x) AS s FROM v").release(epsilon=1)
    lab.advance("v", pa.table({"pid": [1], "x": [1]}))
    before = lab.ledger.read_spent("population:pid")
    with pytest.raises(PolicyError, match="SF-C135"):
        first.refine(epsilon=1)
    assert lab.ledger.read_spent("population:pid") == before


def test_the_most_frequent_is_named_by_the_list_that_it_was_chosen_from(tmp_path: Path) -> None:
    table = pa.table({"pid": list(range(100)), "w": ["A"] * 100})
    lab = lab_of(tmp_path, table, 1, {"w": sf.one_of("A", "B")})
    asked = lab.session().table("v").top("w", 1)
    lab.advance("v", table, columns={"w": sf.one_of("C", "B", "A")})
    assert asked.release(epsilon=SURE).values == ("A",)


def test_whole_parts_and_remainders_are_exact_however_far_columns_reach(tmp_path: Path) -> None:
    table = pa.table({"pid": list(range(50)), "x": [3 * 10**8 + 1] * 50, "y": [3] * 50})
    columns = {"x": sf.between(0, 2**30, step=1), "y": sf.between(1, 4, step=1)}
    session = lab_of(tmp_path, table, 1, columns).session()
    kept = "SELECT COUNT_IF({}) AS n FROM v"
    for condition in ("x % y = 1", "x // y = 100000000", "-x % y = -1", "-x // y = -100000000"):
        assert answer(session, kept.format(condition)) == {"n": [50]}, condition


def test_parts_that_share_people_say_what_they_cost_together(tmp_path: Path) -> None:
    table = pa.table({"pid": [i // 4 for i in range(40)], "w": list("ABCD") * 10})
    lab = lab_of(tmp_path, table, 4, {"w": sf.one_of(*"ABCD")})
    parts = lab.session().table("v").partition("w").agg(n=sf.count())
    assert "ε = 1, 4 times" in str(parts.quote(epsilon=1))
    assert parts.release(epsilon=1)["A"].receipt.charged == "ε = 1, 4 times"
    assert lab.ledger.read_spent("population:pid").pure == 4 * 10**12


def test_blocks_of_units_are_refused_before_they_are_charged(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, pa.table({"pid": [1, 2], "x": [1, 2]}), 2, {"x": sf.between(0, 9, step=1)})
    asked = lab.session().table("v").units().subsample(sf.median("rows"), blocks=2)
    with pytest.raises(PolicyError, match="SF-Q154"):
        asked.release(epsilon=1)


@pytest.mark.parametrize(
    ("promise", "named"), [(sf.between(0, 5000), True), (sf.between(0, 50, step=1), False)]
)
def test_a_grid_that_nobody_declared_is_named(tmp_path: Path, promise: Any, named: bool) -> None:
    lab = lab_of(tmp_path, pa.table({"pid": [1], "x": [20]}), 1, {"x": promise})
    quoted = lab.session().sql("SELECT SUM(x) AS s FROM v").quote(epsilon=1)
    assert any("Numbers count in steps" in each for each in quoted.caveats) is named


def test_a_column_that_a_left_join_may_leave_empty_is_not_the_one_it_was_joined_by(tmp_path: Path) -> None:
    """`w` is v's column and never missing; `o.w` is missing for 3 and 4."""
    kinds = {"w": sf.one_of("a", "b")}
    visits = pa.table({"pid": [1, 2, 3, 4] * 50, "w": ["a", "b", "a", "b"] * 50})
    lab = lab_of(tmp_path, visits, 50, kinds)
    others = pa.table({"pid": [1, 2], "w": ["a", "b"]})
    lab.register("o", others, unit=sf.Unit("pid", max_rows=1), columns=kinds)
    session, tables = lab.session(), "v LEFT JOIN o USING (pid, w)"
    for shown, key in [("o.w", "w"), ("w", "o.w"), ("v.w", "o.w")]:
        with pytest.raises(PolicyError, match="SF-Q108"):
            session.sql(f"SELECT {shown}, COUNT(*) AS n FROM {tables} GROUP BY {key}")
    found = answer(session, f"SELECT O.w, COUNT(*) AS n FROM {tables} GROUP BY o.w ORDER BY o.W")
    near = pytest.approx
    assert found == {"w": ["a", "b", None], "n": [near(50, abs=5), near(50, abs=5), near(100, abs=5)]}
    found = answer(session, f"SELECT w, COUNT(*) AS n FROM {tables} GROUP BY w")
    assert found == {"w": ["a", "b"], "n": [near(100, abs=5), near(100, abs=5)]}
    by_unit = f"SELECT pid, o.w AS k, COUNT(*) AS n FROM {tables} GROUP BY pid, w"
    with pytest.raises(PolicyError):
        session.sql(f"SELECT k, SUM(n) AS n FROM ({by_unit}) GROUP BY k")
