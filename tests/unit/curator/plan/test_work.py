"""What one unit can make an engine do is bounded by public facts, and too much is refused before a charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.plan import work
from sfumato.curator.plan.selections import MOST_BLOCKS
from sfumato.engines.duckdb.dialect import DuckDBDialect
from sfumato.engines.like import parse_like
from sfumato.engines.postgres.dialect import PostgresDialect
from sfumato.engines.spark.dialect import SparkDialect
from sfumato.errors import PolicyError


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.Session:
    lab = sf.create(tmp_path_factory.mktemp("work") / "lab")
    note = {"age": sf.between(0, 110, step=1), "ward": sf.one_of("A", "B"), "note": sf.text()}
    visits = pa.table({"who": ["a", "b"], "age": [30, 50], "ward": ["A", "B"], "note": ["pain", "cough"]})
    budget = sf.Budget(epsilon=1, delta=1e-6)
    lab.register("visits", visits, unit=sf.Unit("who", max_rows=10), columns=note, budget=budget)
    people = pa.table({"who": ["a", "b"], "age": [30, 50]})
    age = {"age": sf.between(0, 110, step=1)}
    lab.register("people", people, unit=sf.Unit("who", max_rows=1), columns=age)
    wards = pa.table({"ward": ["A"] * 500 + ["B"] * 3, "beds": list(range(503))})
    public = {"ward": sf.one_of("A", "B"), "beds": sf.between(0, 503, step=1)}
    lab.register("wards", wards, unit=sf.PUBLIC, columns=public)
    return lab.session()


def _refused(ask: Any) -> PolicyError:
    with pytest.raises(PolicyError) as refusal:
        ask()
    return refusal.value


def _joined(tables: int) -> str:
    return "visits a " + " ".join(f"JOIN visits t{i} ON a.who = t{i}.who" for i in range(1, tables))


# ---- holes that were there ---------------------------------------------------------------------------------


def test_a_join_that_one_unit_could_make_run_out_of_memory_is_refused(session: sf.Session) -> None:
    names = [f"t{i}" for i in range(1, 6)]
    counts = ", ".join(f"COUNT_IF({name}.note LIKE '%x%') AS n{name}" for name in names)
    where = " AND ".join(f"{name}.age = 99" for name in names)
    asked = session.sql(f"SELECT {counts} FROM {_joined(6)} WHERE {where}").bounded(groups=1, rows=2)
    before = str(session.budget)
    assert _refused(lambda: asked.release(epsilon=1e-6)).code == "SF-Q158"
    assert _refused(lambda: asked.quote(epsilon=1e-6)).code == "SF-Q158"
    assert str(session.budget) == before


def test_a_short_text_that_stands_for_thousands_of_scans_is_refused(session: sf.Session) -> None:
    layers = ["l0 AS (SELECT who, age FROM people)"]
    for i in range(1, 13):
        layers.append(
            f"l{i} AS (SELECT x.who AS who, x.age AS age FROM l{i - 1} x JOIN l{i - 1} y ON x.who = y.who)"
        )
    sql = f"WITH {', '.join(layers)} SELECT SUM(age) AS s FROM l12"
    assert len(sql) < 1_460
    assert _refused(lambda: session.sql(sql)).code == "SF-Q113"


def test_as_many_blocks_as_no_memory_holds_are_refused(session: sf.Session) -> None:
    frame = session.table("visits")
    for blocks in (MOST_BLOCKS + 1, 10**9, 10**30):
        asked = frame.subsample(sf.median("age"), blocks=blocks)
        assert _refused(lambda asked=asked: asked.quote(epsilon=0.1)).code == "SF-Q154"


def test_choices_and_parts_are_limited_where_values_are_very_many(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    unit, many = sf.Unit("who", max_rows=2), {"x": sf.between(0, 900_000, step=1)}
    lab.register(
        "t", pa.table({"who": ["a"], "x": [1]}), unit=unit, columns=many, budget=sf.Budget(epsilon=1)
    )
    frame = lab.session().table("t")
    assert _refused(lambda: frame.top("x", k=100_000).quote(epsilon=0.1)).code == "SF-Q158"
    assert _refused(lambda: frame.partition("x")).code == "SF-Q113"
    assert frame.top("x", k=4).quote(epsilon=0.1).plan.work.numbers == 900_001


def test_rows_that_a_public_table_repeats_are_counted(session: sf.Session) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits JOIN wards USING (ward)"
    assert session.sql(asked).quote(epsilon=0.1).plan.work.rows == 10 * 500
    twice = f"{asked} JOIN wards AS again ON visits.ward = again.ward"
    assert _refused(lambda: session.sql(twice).quote(epsilon=0.1)).code == "SF-Q158"


def test_a_case_that_would_fail_after_the_charge_is_refused(session: sf.Session) -> None:
    arms = " ".join(f"WHEN age = {i} THEN {i % 7}" for i in range(400))
    sql = f"SELECT SUM(CASE {arms} END) AS s FROM visits"
    assert _refused(lambda: session.sql(sql).release(epsilon=1e-6)).code == "SF-Q113"


def test_wildcards_are_limited(session: sf.Session) -> None:
    for pattern in ("%a" * 33, "_" * 33, "a" * 3000):
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE note LIKE '{pattern}'"
        assert _refused(lambda sql=sql: session.sql(sql)).code == "SF-Q159"


HARD = (
    "%a" + "_" * 28 + "b%",
    "%" + "a" * 500 + "b%",
    "%" + "a" * 200 + "_b%",
    "%" + "💥" * 200 + "b%",
    "%a_a%a_b%",
    "%a_b%c%",
)


@pytest.mark.parametrize("pattern", HARD)
def test_pieces_count_as_often_as_a_text_can_make_engines_compare_them(pattern: str) -> None:
    """A piece of m bytes is compared at 1,000 places, at most 28 bytes of it in the time of an operation."""
    size = max(len(piece.replace("_", "...").encode()) for piece in pattern.split("%"))
    assert work._count_like(pattern) >= 1000 * size // 28


def test_many_patterns_that_one_unit_could_make_slow_are_refused(session: sf.Session) -> None:
    gap = " OR ".join(f"note LIKE '%a{'_' * size}b%'" for size in range(14, 28))
    asked = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {gap} OR {gap.replace('a', 'x')}")
    assert _refused(lambda: asked.release(epsilon=1e-6)).code == "SF-Q158"


@pytest.mark.parametrize("dialect", [DuckDBDialect(), PostgresDialect(), SparkDialect()])
def test_no_engine_gets_a_regular_expression_or_a_pattern_with_a_choice_at_its_end(dialect: Any) -> None:
    for pattern in ("%a" + "_" * 30, "%aa_a%b_b%a", "a_%a%b_"):
        sql = dialect.write_like("t", parse_like(pattern))
        assert not any(word in sql for word in ("regexp", "RLIKE", "SIMILAR"))
        assert pattern.encode().hex() not in sql


def test_missing_entries_of_a_lookup_are_no_nulls_of_an_array() -> None:
    """PostgreSQL walks an array that has one from its start."""
    assert "NULL" not in PostgresDialect().write_entry((1, None, 3), "p")


def test_a_pattern_is_matched_with_listed_texts_at_once(tmp_path: Path) -> None:
    """A matcher that goes back would plan this for longer than anyone waits."""
    lab, listed = sf.create(tmp_path / "lab"), {"ward": sf.one_of("a" * 60, "b")}
    unit, budget = sf.Unit("who", max_rows=2), sf.Budget(epsilon=1)
    lab.register("t", pa.table({"who": ["a"], "ward": ["b"]}), unit=unit, columns=listed, budget=budget)
    sql = f"SELECT COUNT(*) AS n FROM t WHERE ward LIKE '{'%a' * 15}%c'"
    assert lab.session().sql(sql).quote(epsilon=0.1).plan.work.operations < 100


def test_groups_times_sums_are_limited(session: sf.Session) -> None:
    sums = ", ".join(f"SUM(v.age + {i}) AS s{i}" for i in range(120))
    keys, tables = "v.age AS a, people.age AS b, v.ward AS c", "visits AS v JOIN people USING (who)"
    asked = session.sql(f"SELECT {keys}, {sums} FROM {tables} GROUP BY 1, 2, 3")
    assert _refused(lambda: asked.quote(epsilon=0.1)).code == "SF-Q158"


def test_what_was_answered_before_there_were_limits_is_still_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = sf.create(tmp_path / "lab")
    unit, columns = sf.Unit("who", max_rows=3), {"x": sf.between(0, 9, step=1)}
    table = pa.table({"who": ["a", "b"], "x": [1, 2]})
    lab.register("t", table, unit=unit, columns=columns, budget=sf.Budget(epsilon=1))
    asked = lab.session().sql("SELECT SUM(x) AS s FROM t")
    before = asked.release(epsilon=0.1)
    monkeypatch.setattr(work, "MOST_OPERATIONS", 1)
    assert asked.release(epsilon=0.1).to_arrow() == before.to_arrow()
    assert asked.quote(epsilon=0.1).free
    assert _refused(lambda: asked.release(epsilon=0.2)).code == "SF-Q158"
    assert _refused(lambda: asked.quote(epsilon=0.2)).code == "SF-Q158"


# ---- the bound itself --------------------------------------------------------------------------------------


def test_a_join_multiplies_rows_and_a_subquery_by_unit_does_not(session: sf.Session) -> None:
    def bound(sql: str) -> work.Work:
        return session.sql(sql).quote(epsilon=0.1).plan.work

    three = bound(f"SELECT COUNT(*) AS n FROM {_joined(3)}")
    assert (three.rows, three.scans) == (1000, 3)
    inner = "(SELECT who, SUM(age) AS s FROM visits GROUP BY who)"
    once = bound(f"SELECT SUM(p.s) AS s FROM {inner} p JOIN {inner} q ON p.who = q.who")
    assert once.rows == 10
    assert once.operations < three.operations


def test_texts_that_are_tested_are_not_carried_and_keys_are(session: sf.Session) -> None:
    tested = session.sql(f"SELECT COUNT(*) AS n FROM {_joined(2)} WHERE a.note LIKE '%x%' AND t1.note = 'y'")
    assert tested.quote(epsilon=0.1).plan.work.bytes < 100 * 1000
    keyed = session.sql(f"SELECT a.note, COUNT(*) AS n FROM {_joined(2)} GROUP BY a.note")
    assert keyed.quote(epsilon=0.1, delta=1e-9).plan.work.bytes > 100 * 4000


def test_work_does_not_depend_on_rows(tmp_path: Path) -> None:
    found = []
    for rows in (2, 200):
        lab = sf.create(tmp_path / str(rows))
        table = pa.table({"who": ["a"] * rows, "note": ["x" * 1000] * rows})
        unit, columns = sf.Unit("who", max_rows=50), {"note": sf.text()}
        lab.register("visits", table, unit=unit, columns=columns, budget=sf.Budget(epsilon=1))
        sql = "SELECT COUNT(*) AS n FROM visits WHERE note LIKE '%a_b%c'"
        found.append(lab.session().sql(sql).quote(epsilon=0.1).plan.work)
    assert found[0] == found[1]


def test_what_analysts_ask_every_day_is_within_the_limits(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    table = pa.table({"who": ["a"], "cost": [1.0], "note": ["x"]})
    columns: dict[str, Any] = {"cost": sf.between(0, 5000), "note": sf.text()}
    for name, rows in (("visits", 200), ("stays", 20), ("calls", 20)):
        unit = sf.Unit("who", max_rows=rows, of="people")
        lab.register(name, table, unit=unit, columns=columns, budget=sf.Budget(epsilon=9, delta=1e-6))
    words = " OR ".join(f"LOWER(visits.note) LIKE '%{word}%'" for word in ("pain", "fever", "covid_19"))
    asked = (
        f"SELECT AVG(visits.cost) AS a, COUNT(*) AS n FROM visits JOIN stays USING (who) WHERE {words}",
        "SELECT SUM(stays.cost + calls.cost) AS s FROM stays JOIN calls USING (who)",
        "SELECT VARIANCE(cost) AS v, MEDIAN(cost) AS m FROM visits",
    )
    for sql in asked:
        lab.session().sql(sql).quote(epsilon=0.1)
