"""Every SQL example of the pages for analysts is answered as plain DuckDB answers it, apart from noise."""

from __future__ import annotations

import random
import re
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from docs import test_snippets
from exact_answers import without_noise
from plain_answers import compare_answers

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parents[1]

WATCH = (
    f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(TESTS / 'docs')!r}]; "
    "import watched_pages; watched_pages.watch()"
)
PAGES = {
    "README.md": 3,
    "docs/questions.md": 15,
    "docs/first-hour-analyst.md": 8,
    "docs/first-hour-steward.md": 2,
}
"""Pages, and how many questions of each are compared at least."""


@pytest.mark.parametrize("page", PAGES)
def test_questions_on_a_page(tmp_path: Path, page: str) -> None:
    code = test_snippets.script((ROOT / page).read_text(encoding="utf-8"))
    code = f"{WATCH}{code}\nwatched_pages.require_questions({PAGES[page]})\n"
    done = test_snippets.run(test_snippets.with_patience(code), tmp_path)
    assert done.returncode == 0, f"lines are those of {page}\n{done.stderr}"


# ---- docs/sql.md -------------------------------------------------------------------------------------------


def _examples() -> tuple[list[str], list[str]]:
    """The questions of the page that are answered, and the functions of a row."""
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(.+)` \| yes \|", page, flags=re.MULTILINE)
    whole = [each.replace("\\|", "|") for each in found]
    # SELECT DISTINCT, like SHOW and DESCRIBE, says what is declared and reads no row.
    facts = re.compile(r"(SHOW|DESCRIBE|SELECT DISTINCT)\b")
    asked = [each for each in whole if not facts.match(each)]
    questions = [each for each in asked if re.match(r"(SELECT|WITH)\b", each)]
    return questions, [each for each in asked if each not in questions]


QUESTIONS, FUNCTIONS = _examples()


def make_visits() -> pa.Table:
    """Visits of people who have at most one on a day; amounts in cents, some values missing."""
    draw = random.Random(5)
    rows = []
    for person in range(150):
        days = draw.sample(range(366), draw.randint(1, 5))
        for day in days:
            moment = datetime(2024, 1, 1) + timedelta(
                days=draw.randint(0, 365), seconds=draw.randint(0, 86399)
            )
            rows.append(
                {
                    "patient_id": person,
                    "age": draw.randint(0, 110),
                    "cost": draw.randint(1, 10_000) / 100,
                    "ward": draw.choice(["A", "A", "B", None]),
                    "ok": draw.choice([True, False]),
                    "day": date(2024, 1, 1) + timedelta(days=day),
                    "seen": min(moment, datetime(2024, 12, 31)),
                    "note": draw.choice(["fever", "cough", "PAINS", "late", "", None]),
                }
            )
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.Session:
    lab = sf.create(tmp_path_factory.mktemp("sql") / "lab")
    columns = {
        "age": sf.between(0, 110, step=1),
        "cost": sf.between(0, 100),
        "ward": sf.one_of("A", "B"),
        "ok": sf.one_of(False, True),
        "day": sf.between(date(2024, 1, 1), date(2024, 12, 31)),
        "seen": sf.between(datetime(2024, 1, 1), datetime(2024, 12, 31)),
        "note": sf.text(),
    }
    unit, budget = sf.Unit("patient_id", max_rows=5), sf.Budget(epsilon=10**6, delta=1e-3)
    lab.register("visits", make_visits(), unit=unit, columns=columns, budget=budget)
    public = {"ward": sf.one_of("A", "B"), "beds": sf.between(0, 100, step=1)}
    lab.register("wards", _WARDS, unit=sf.PUBLIC, columns=public)
    return lab.session()


_WARDS = pa.table({"ward": ["A", "B"], "beds": [10, 30]})


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in {"visits": make_visits(), "wards": _WARDS}.items():
        connection.register("source", table)
        connection.execute(f"CREATE TABLE {name} AS FROM source")
        connection.unregister("source")
    connection.execute("ALTER TABLE visits ALTER cost TYPE DECIMAL(9, 2)")
    return connection


def _compare(session: sf.Session, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    with without_noise():
        answer = session.sql(sql).release(epsilon=10, delta=1e-6).to_arrow()
    compare_answers(sql, answer, plain, relative=1e-6, step=0.01)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_questions_of_the_sql_page(session: sf.Session, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    _compare(session, plain, sql)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_the_sql_page(
    session: sf.Session, plain: duckdb.DuckDBPyConnection, function: str
) -> None:
    (kind,) = plain.execute(f"SELECT ANY_VALUE(TYPEOF({function})) FROM visits").fetchone() or ("",)
    if kind in ("VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"):
        _compare(session, plain, f"SELECT {function} AS k, COUNT(*) AS n FROM visits GROUP BY k")
    else:
        _compare(session, plain, f"SELECT SUM({function}) AS s, COUNT({function}) AS n FROM visits")
