"""The door for SQL, through real psql, psycopg and pandas: what is free, what it costs, and who gets in."""

from __future__ import annotations

import shutil
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
import sqlalchemy
from psycopg import errors

from feed_clinic import ADAS, BY_WARD
from sfumato.lab.feeds.listing import find_published_feed
from sfumato.server.settings import ServerSettings
from sql_door import OpenDoor, open_another, open_door, read_frame
from waiting import PATIENCE

COUNT = "SELECT COUNT(*) AS n FROM visits WHERE cost < 50"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    with open_door(tmp_path_factory.mktemp("door") / "clinic") as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(clinic: OpenDoor) -> Iterator[sqlalchemy.Engine]:
    address = f"postgresql+psycopg://ada:{clinic.tokens['ada']}@127.0.0.1:{clinic.door.port}/clinic"
    made = sqlalchemy.create_engine(address)
    yield made
    made.dispose()


def need_psql() -> None:
    if shutil.which("psql") is None:
        pytest.skip("PSQL IS MISSING: install postgresql-client")


# ---- psql --------------------------------------------------------------------------------------------------


def test_psql_lists_describes_and_reads_what_was_released(clinic: OpenDoor) -> None:
    need_psql()
    before = clinic.lab.verify()
    done = clinic.psql(
        r"\dt", r"\d by_ward", r"\d live.visits", r"\dn", r"\l", r"\du", "SELECT ward, n FROM by_ward"
    )
    assert done.stderr == ""
    for line in (
        "published|by_ward|table|ada",
        "released|costly|table|ada",
        "n_low|double precision|||",
        "cost|double precision|||",
        "live|ada",
    ):
        assert line in done.stdout.splitlines()
    n = find_published_feed(clinic.lab, "by_ward").to_arrow()["n"].to_pylist()
    assert f"A|{n[0]}" in done.stdout.splitlines()
    assert clinic.lab.verify() == before


def test_psql_asks_at_a_price_and_is_given_the_same_again(clinic: OpenDoor) -> None:
    need_psql()
    before = clinic.lab.verify()
    refused = clinic.psql(COUNT)
    assert "SF-F131" in refused.stderr
    assert "/*+ epsilon=0.1 */" in refused.stderr
    assert clinic.lab.verify() == before
    answered = clinic.psql(f"/*+ epsilon=0.25 */ {COUNT}")
    assert answered.stderr == ""
    after = clinic.lab.verify()
    assert after.charges == before.charges + 1
    for again in (clinic.psql(COUNT), clinic.psql(f"/*+ epsilon=1/4 */ {COUNT};"), clinic.psql(f"{COUNT} ;")):
        assert again.stdout == answered.stdout
    priced = clinic.psql(COUNT, PGOPTIONS="-c sfumato.epsilon=0.25")
    assert priced.stdout == answered.stdout
    assert "SF-F131" in clinic.psql(COUNT, name="bob").stderr  # what ada paid for is not bob's to see
    assert clinic.lab.verify() == after


# ---- psycopg and pandas ------------------------------------------------------------------------------------


def test_prepared_statements_with_values_in_text_and_binary(clinic: OpenDoor) -> None:
    with clinic.connect() as connection:
        rows = connection.execute("SELECT n FROM by_ward WHERE ward = %s AND n > %s", ["A", -1000])
        assert len(rows.fetchall()) == 1
        for binary in (False, True):
            found = connection.execute("SELECT * FROM published_2 ORDER BY day", binary=binary).fetchall()
            assert found[0][0] == date(2026, 1, 1)
            assert [type(cell) for cell in found[0]] == [date, int, float, float]
        days = connection.execute("SELECT n FROM published_2 WHERE day >= %s", [date(2026, 1, 3)]).fetchall()
        assert len(days) == 1
        columns = connection.execute("SELECT 1, count(*), n > 0 AS some FROM by_ward GROUP BY n").description
        assert [each.name for each in columns or ()] == ["?column?", "count", "some"]


def test_copy_in_every_form(clinic: OpenDoor) -> None:
    with clinic.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT ward, n FROM by_ward) TO STDOUT") as copy:
            text = list(copy.rows())
        with cursor.copy('COPY published.by_ward (ward, n) TO STDOUT (FORMAT "binary")') as copy:
            copy.set_types(["text", "int8"])
            binary = list(copy.rows())
        with cursor.copy("COPY by_ward TO STDOUT WITH (FORMAT csv)") as copy:
            assert b"".join(copy).startswith(b"A,")
    assert [(ward, str(n)) for ward, n in binary] == text
    assert len(text) == 4


def test_transactions_fail_and_recover_as_tools_expect(clinic: OpenDoor) -> None:
    with psycopg.connect(clinic.address()) as connection:
        with pytest.raises(errors.FeatureNotSupported, match="SF-F133"):
            connection.execute("SELECT nosuch FROM by_ward")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        with connection.transaction():
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.info.transaction_status.name == "IDLE"


def test_pandas_reads_tables_and_questions(clinic: OpenDoor, engine: sqlalchemy.Engine) -> None:
    expected = find_published_feed(clinic.lab, "by_ward").to_arrow()
    frame = pd.read_sql_table("by_ward", engine, schema="published")
    assert frame["n"].tolist() == expected["n"].to_pylist()
    assert frame.columns.tolist() == expected.column_names
    again = pd.read_sql("SELECT ward, n FROM released.costly WHERE n > %(n)s", engine, params={"n": -999})
    assert again["ward"].tolist()[0] == "A"
    assert sqlalchemy.inspect(engine).get_table_names("published") == ["by_ward", "published_2"]
    kept = pd.read_sql(ADAS, engine)  # answered to ada before, so it needs no price
    assert kept["n"].tolist() == clinic.lab.session("ada").feeds()[0].to_arrow()["n"].to_pylist()


def test_released_tables_can_be_joined_grouped_and_ordered(clinic: OpenDoor) -> None:
    with clinic.connect() as connection:
        joined = connection.execute(
            "WITH c AS (SELECT ward, n FROM released.costly) "
            "SELECT b.ward, b.n - c.n AS cheap, RANK() OVER (ORDER BY b.n DESC) AS place "
            "FROM published.by_ward AS b JOIN c ON b.ward = c.ward WHERE b.ward ILIKE 'a%' LIMIT 5"
        ).fetchall()
        assert len(joined) == 1
        grouped = connection.execute(
            "SELECT date_trunc('month', day), sum(n), count(*) FROM published_2 "
            "WHERE day IS NOT NULL GROUP BY 1"
        ).fetchall()
        assert grouped[0][2] == 3
        nulls = connection.execute("SELECT ward FROM by_ward ORDER BY ward").fetchall()
        assert nulls[-1] == (None,)  # as PostgreSQL orders them


def test_what_is_released_meanwhile_appears(clinic: OpenDoor) -> None:
    with clinic.connect("grace") as connection:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'released'"
        before = connection.execute(tables).fetchall()
        clinic.lab.session().feed("fresh", BY_WARD, epsilon=0.5)
        assert connection.execute(tables).fetchall() == sorted([*before, ("fresh",)])
        assert connection.execute("SELECT count(*) FROM released.fresh").fetchone() == (4,)


def test_explain_says_the_price(clinic: OpenDoor) -> None:
    before = clinic.lab.verify()
    with clinic.connect() as connection:
        connection.execute("SET sfumato.epsilon = '0.5'")
        assert connection.execute("SHOW sfumato.epsilon").fetchone() == ("1/2",)
        plan = connection.execute("EXPLAIN SELECT COUNT(*) AS n FROM visits WHERE cost > 7").fetchall()
        assert any("ε = 0.5" in line for (line,) in plan)
        connection.execute("RESET sfumato.epsilon")
        with pytest.raises(errors.InvalidParameterValue, match="SF-F131"):
            connection.execute("EXPLAIN SELECT COUNT(*) AS n FROM visits WHERE cost > 7")
    assert clinic.lab.verify() == before


def test_a_question_with_values_of_parameters(clinic: OpenDoor) -> None:
    text = "SELECT COUNT(*) AS n FROM live.visits WHERE ward = %s AND cost >= %s"
    before = clinic.lab.verify()
    with clinic.connect() as connection:
        first = connection.execute(f"/*+ epsilon=0.25 */ {text}", ["A", 100]).fetchall()
        assert connection.execute(f"/*+ epsilon=0.25 */ {text}", ["A", 100]).fetchall() == first
        assert connection.execute(text, ["A", 100]).fetchall() == first
        with pytest.raises(errors.ConfigurationLimitExceeded, match="SF-B101"):
            connection.execute(f"/*+ epsilon=100 */ {text}", ["A", 100])
    assert clinic.lab.verify().charges == before.charges + 1


# ---- refreshes ---------------------------------------------------------------------------------------------


def refresh(clinic: OpenDoor, times: int) -> None:
    before = clinic.lab.verify()
    texts = ("SELECT * FROM by_ward", "TABLE released.costly", ADAS, BY_WARD)
    found: dict[str, Any] = {}
    with clinic.connect() as connection:
        for place in range(times):
            text = texts[place % len(texts)]
            rows = connection.execute(text).fetchall()
            assert found.setdefault(text, rows) == rows
    assert clinic.lab.verify() == before


def test_fifty_refreshes_cost_nothing(clinic: OpenDoor) -> None:
    refresh(clinic, 50)


@pytest.mark.slow
def test_a_thousand_refreshes_cost_nothing(clinic: OpenDoor) -> None:
    refresh(clinic, 1000)


# ---- who gets in -------------------------------------------------------------------------------------------


def test_wrong_names_and_tokens_are_told_apart_by_nobody(clinic: OpenDoor) -> None:
    said = set()
    expired = clinic.people.make_token("ada", seconds=1e-9)
    page = clinic.people.make_token("ada", purpose="page")
    wrong = [
        ("ada", clinic.tokens["bob"]),
        ("nobody", "x"),
        ("ada", expired),
        ("ada", page),
        ("ada", "sfu_x"),
    ]
    for name, token in wrong:
        with pytest.raises(psycopg.OperationalError) as refusal:
            psycopg.connect(clinic.address(name, password=token))
        said.add(str(refusal.value).partition("FATAL")[2])
    assert len(said) == 1
    assert "SF-W101" in said.pop()
    with pytest.raises(psycopg.OperationalError, match="SF-W103"):
        psycopg.connect(clinic.address("kurt"))


def test_each_sees_their_own(clinic: OpenDoor) -> None:
    with clinic.connect("bob") as connection:
        with pytest.raises(errors.UndefinedTable, match="SF-F135"):
            connection.execute("SELECT * FROM released.costly")
        assert connection.execute("SELECT count(*) FROM by_ward").fetchone() == (4,)
        names = connection.execute("SELECT relname FROM pg_class").fetchall()
        assert ("costly",) not in names
        with pytest.raises(errors.InvalidParameterValue, match="SF-F131"):
            connection.execute(ADAS)


def test_who_lost_their_quota_is_refused(tmp_path: Path) -> None:
    with open_door(tmp_path / "clinic") as opened, opened.connect() as connection:
        assert connection.execute("SELECT count(*) FROM released.costly").fetchone() == (4,)
        opened.lab.revoke("ada")
        with pytest.raises(errors.InsufficientPrivilege, match="SF-B103"):
            connection.execute("SELECT count(*) FROM released.costly")


# ---- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["revoked", "another role"])
def test_an_open_connection_ends_with_its_token(clinic: OpenDoor, change: str) -> None:
    clinic.people.add_person("finn", "steward")
    clinic.tokens["finn"] = clinic.people.make_token("finn")
    with clinic.connect("finn") as connection:
        connection.execute("SELECT 1")
        if change == "revoked":
            clinic.people.revoke_token(clinic.people.list_tokens("finn")[0].id)
        else:
            clinic.people.add_person("finn", "analyst")
        with pytest.raises(psycopg.OperationalError, match="SF-W101"):
            connection.execute("SELECT 1")


def test_connections_and_messages_are_limited(clinic: OpenDoor) -> None:
    with (
        clinic.open_another(most_connections=2, most_message_bytes=5000) as opened,
        opened.log_in() as first,
        opened.log_in(),
    ):
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(opened.address(sslmode="disable"))
        first.sendall(b"Q" + (6000).to_bytes(4, "big"))
        tag, body = read_frame(first)
        assert (tag, b"08P01" in body) == (b"E", True)
        assert read_frame(first) == (b"", b"")


def test_statements_are_counted_as_requests_are(clinic: OpenDoor) -> None:
    """Whoever sends too many is refused for a while, and stays connected; others are not kept from asking."""
    few = ServerSettings(requests_per_second=1e-6, request_burst=3)
    with open_another(clinic.lab, clinic.people, clinic.tokens, few) as opened, opened.connect() as ada:
        for _ in range(3):
            ada.execute("SELECT 1")
        for ask in ("SELECT 1", "SELECT * FROM released.none"):
            with pytest.raises(errors.ConfigurationLimitExceeded, match="SF-W108"):
                ada.execute(ask)
        with pytest.raises(errors.ConfigurationLimitExceeded, match="SF-W108"):
            ada.execute("SELECT %s::int", [1], prepare=True)
        assert not ada.closed
        with opened.connect("bob") as bob:
            bob.execute("SELECT 1; SELECT 2")
            with pytest.raises(errors.ConfigurationLimitExceeded, match="SF-W108"):
                bob.execute("SELECT 1; SELECT 2")  # each of them counts


def test_equal_questions_at_once_are_one_charge(clinic: OpenDoor) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE cost < 60"
    before = clinic.lab.verify().charges

    def ask(_: int) -> Any:
        with clinic.connect() as connection:
            connection.execute("SET sfumato.epsilon = '0.25'")
            return connection.execute(asked).fetchall()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(4)))
    assert answers == answers[:1] * 4
    assert clinic.lab.verify().charges == before + 1


def test_a_silent_connection_ends(clinic: OpenDoor) -> None:
    with clinic.open_another(idle_seconds=0.05) as opened, opened.log_in() as silent:
        assert read_frame(silent) == (b"", b"")
    with clinic.open_another(login_seconds=0.05) as opened, opened.open_socket() as silent:
        assert read_frame(silent) == (b"", b"")


def test_who_says_something_again_and_again_holds_no_place(clinic: OpenDoor) -> None:
    wants_tls = struct.pack(">ii", 8, 80877103)
    with clinic.open_another(login_seconds=0.5) as opened, opened.open_socket() as talking:
        begun, is_closed = time.monotonic(), False
        while not is_closed and time.monotonic() < begun + PATIENCE:
            try:
                talking.sendall(wants_tls)
                is_closed = not talking.recv(1)
            except ConnectionError:
                is_closed = True
            time.sleep(0.05)
        assert is_closed


def test_a_select_can_be_cancelled(clinic: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e"
    with clinic.connect() as connection:
        connection.execute("SELECT 1")
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        with pytest.raises(errors.QueryCanceled, match="SF-F136"):
            connection.execute(heavy)
        timer.join()
        monkeypatch.setattr("sfumato.server.sql.desk.SECONDS", 0.5)
        with pytest.raises(errors.QueryCanceled, match="SF-F136"):
            connection.execute(heavy)
        monkeypatch.undo()
        assert connection.execute("SELECT count(*) FROM by_ward").fetchone() == (4,)
