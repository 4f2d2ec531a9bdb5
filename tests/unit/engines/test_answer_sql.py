"""SQL over an answer runs in a process that has the answer and nothing else: no file, network or setting."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from sfumato.engines.duckdb import answer_sql, answer_worker
from sfumato.engines.duckdb.answer_sql import Refusal, refuse_over_answer, run_over_answer
from waiting import wait_until

ANSWER = pa.table({"ward": ["A", "B", None], "n": [4, 7, 1], "m": [0.5, None, 2.0]})


def _run(text: str) -> pa.Table | Refusal:
    (found,) = run_over_answer([text], [ANSWER])
    return found


def test_results_have_the_types_of_answers() -> None:
    texts = [
        "SELECT SUM(n) AS s, AVG(n) AS a, 1.5 AS d, 1::TINYINT AS t, COUNT(*) AS k, 1::REAL AS f FROM answer",
        "SELECT * FROM answer ORDER BY n",
        "FROM answer SELECT ward WHERE n > 3;",
    ]
    one, other, last = run_over_answer(texts, [ANSWER])
    assert isinstance(one, pa.Table)
    assert [str(each) for each in one.schema.types] == [
        "int64",
        "double",
        "double",
        "int64",
        "int64",
        "double",
    ]
    assert one.to_pylist()[0] == {"s": 12, "a": 4.0, "d": 1.5, "t": 1, "k": 3, "f": 1.0}
    assert isinstance(other, pa.Table)
    assert other.to_pydict()["ward"] == [None, "A", "B"]
    assert isinstance(last, pa.Table)
    assert last.to_pydict() == {"ward": ["A", "B"]}


def test_numbers_beyond_64_bits_are_doubles() -> None:
    found = _run("SELECT 18446744073709551615::UBIGINT AS u, 2::HUGEINT ** 70 AS h")
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == [{"u": 2.0**64, "h": 2.0**70}]


def test_nothing_else_can_be_reached() -> None:
    """One process runs all of them, each by itself."""
    texts = [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM ANSWER_TABLE",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('COPY answer TO ''/tmp/x.csv''')",
        "COPY answer TO '/tmp/sfumato_answer.csv'",
        "ATTACH '/tmp/sfumato_answer.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA enable_external_access = true",
        "RESET lock_configuration",
        "CREATE TABLE more AS SELECT 1",
        "DROP TABLE answer",
        "DELETE FROM answer",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "CALL pragma_version()",
        "SELEC",
        "",
    ]
    found = run_over_answer([*texts, "SELECT COUNT(*) AS k FROM answer"], [ANSWER])
    for text, each in zip(texts, found, strict=False):
        assert isinstance(each, Refusal), text
        assert each.kind != "Ended", text
        assert "SF-Q162" in str(refuse_over_answer(each))
    last = found[-1]
    assert isinstance(last, pa.Table)
    assert last.to_pydict() == {"k": [3]}


def test_settings_name_no_place_of_the_machine() -> None:
    found = _run(
        "SELECT name, value FROM duckdb_settings() WHERE value LIKE '%/home%' OR value LIKE '%/root%'"
    )
    assert isinstance(found, pa.Table)
    assert found.num_rows == 0
    paths = _run("SELECT value FROM duckdb_settings() WHERE name = 'allowed_paths'")
    assert isinstance(paths, pa.Table)
    assert "work" not in str(paths.to_pylist())
    variables = _run("SELECT * FROM pragma_user_agent()")
    assert "sfumato" not in str(variables)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT LENGTH(REPEAT('x', 3000000000)) AS n",
        "SELECT LIST(range) AS n FROM range(500000000)",
        "SELECT LEN(range(2000000000)) AS n",
        "SELECT * FROM range(3000000)",
    ],
)
def test_memory_and_rows_have_limits(text: str) -> None:
    found = _run(text)
    assert isinstance(found, Refusal)
    refused = str(refuse_over_answer(found))
    assert "memory" in refused or "too large" in refused


def test_time_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_sql, "SECONDS", 0.2)
    endless = (
        "SELECT COUNT(*) AS n FROM range(1000000) AS a, range(1000000) AS b WHERE a.range * b.range % 7 = 3"
    )
    found, after = run_over_answer([endless, "SELECT 1 AS n"], [ANSWER])
    assert isinstance(found, Refusal)
    assert found.kind == "InterruptException"
    assert "too long" in str(refuse_over_answer(found))
    # The process continues, though a busy machine may need more than a fifth of a second for SELECT 1 too.
    assert isinstance(after, pa.Table) or after.kind == "InterruptException"


class FakeConnection:
    """Counts how often it is interrupted."""

    interrupted = 0

    def interrupt(self) -> None:
        self.interrupted += 1


def test_a_limit_ends_its_own_block_alone_and_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each text may end late, and a few of them would fill the process's address space."""
    started, start = list[threading.Thread](), threading.Thread.start

    def note(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    connection = FakeConnection()
    limit = answer_worker.TimeLimit(connection, 0.001)
    for _ in range(3):
        with limit:
            wanted = connection.interrupted + 2  # the first may come before the SELECT has begun
            wait_until(lambda wanted=wanted: connection.interrupted >= wanted, "it is interrupted")
        before = connection.interrupted
        time.sleep(2 * answer_worker._AGAIN)
        assert connection.interrupted == before
    assert len(started) == 1


def test_draws_are_a_second_table() -> None:
    draws = pa.table({"draw": [0, 1], "n": [1.0, 2.0]})
    one, other = run_over_answer(
        ["SELECT COUNT(*) AS k FROM answer", "SELECT SUM(n) AS s FROM draws"], [ANSWER, draws]
    )
    assert isinstance(one, pa.Table)
    assert isinstance(other, pa.Table)
    assert (one.to_pydict(), other.to_pydict()) == ({"k": [3]}, {"s": [3.0]})
