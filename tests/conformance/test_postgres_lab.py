"""A lab over tables in PostgreSQL: what it asks for, what it keeps, and what it refuses."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from conformance import endless
from conformance.both_engines import load
from ready_replies import reply_at_once
from sfumato.cli.main import main
from sfumato.engines.postgres import PostgresEngine
from sfumato.engines.program import CellSums, Counted
from sfumato.engines.rows import ALL, Scan
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.privacy.account import price
from sfumato.privacy.events import Pure
from waiting import wait_until

VISITS = pa.table({"who": [1, 1, 2, 3, 3, 3], "cost": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "ward": list("AABBAB")})
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2, of="people"),
    "columns": {"cost": sf.between(0, 10), "ward": sf.one_of("A", "B")},
    "budget": sf.Budget(epsilon=1000),
}


@pytest.fixture
def source(postgres: str) -> str:
    name = f"visits_{secrets.token_hex(4)}"
    load(postgres, name, VISITS)
    return f"{postgres}&password=a_secret#public.{name}"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


def execute(address: str, sql: str) -> list[Any]:
    import psycopg

    with psycopg.connect(address) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_a_question_is_answered_where_the_data_lies(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    answer = lab.session().sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=500)
    assert sum(answer.to_arrow()["n"].to_pylist()) == 5
    assert not list((lab.folder / "snapshots").glob("*.duckdb"))


def test_a_module_is_trained_on_the_same_rows(lab: sf.Lab, source: str) -> None:
    """Those of a person that count, and in which of its places, are chosen by the lab's key everywhere."""
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    from sfumato.deep.tables.fit import TrainingOffer

    said = {**SAID, "budget": sf.Budget(epsilon=1000, delta=1e-5)}
    lab.register("visits", source, **said)
    lab.register("here", VISITS, **said)
    module, loss, session = torch.nn.Linear(1, 2), torch.nn.CrossEntropyLoss(), lab.session()
    found = []
    for table in ("visits", "here"):
        trainer = sf.deep.Trainer(module, loss, epsilon=9, delta=1e-6, steps=2, batch_size=2, rows=3)
        offer = TrainingOffer.make(session._payer, trainer, table, ["cost"], "ward", None, None)
        found.append(sorted(lab.engine.run(offer.plan.steps[0].program).T.tolist()))
        assert session.fit(trainer, table=table, features=["cost"], target="ward").steps_ == 2
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_ctrl_c_during_a_question_comes_through(
    lab: sf.Lab, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))

    def interrupted_soon(*_: Any) -> str:
        # The question never ends by itself, so the signal meets it whenever it comes.
        timer.start()
        return "SELECT pg_sleep(1000)"

    lab.register("visits", source, **SAID)
    monkeypatch.setattr("sfumato.engines.postgres.run.compile_program", interrupted_soon)
    try:
        with pytest.raises(KeyboardInterrupt):
            lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1)
    finally:
        timer.cancel()  # if the question fails, no later test is interrupted
    assert lab.ledger.read_spent("population:people").pure == price(Pure(1)).pure
    assert (lab.folder / "incidents.log").exists()


def test_a_drop_ends_questions_that_read_the_table(
    lab: sf.Lab, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(postgres, name := f"big_{secrets.token_hex(4)}", endless.TABLE)
    lab.register("big", f"{postgres}#public.{name}", **endless.SAID, budget=sf.Budget(epsilon=100))
    # Comparing nested loops is what makes it endless, and one process of the server does it.
    reading = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%JOIN%_rows%'"

    def wait_until_read() -> None:
        active = f"{reading} AND pid <> pg_backend_pid()"
        wait_until(lambda: execute(postgres, active) != [(0,)], "the server reads")

    endless.check_drop_ends_questions(lab, "big", monkeypatch, wait_until_read)
    assert execute(postgres, f"{reading} AND pid <> pg_backend_pid()") == [(0,)]


def test_a_hostile_session_reads_in_a_worker(
    lab: sf.Lab, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.register("visits", source, **SAID)
    monkeypatch.setattr("sfumato.curator.payer.read_steps", None)
    reply_at_once(lab)
    question = lab.session(hostile=True).sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    answer = question.release(epsilon=500)
    lab.close()
    assert sum(answer.to_arrow()["n"].to_pylist()) == 5


def test_the_password_is_in_one_file_that_only_the_owner_reads(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    holding = [path for path in lab.folder.rglob("*") if path.is_file() and b"a_secret" in path.read_bytes()]
    assert [path.name for path in holding] == ["databases.json"]
    assert holding[0].stat().st_mode & 0o777 == 0o600


def test_a_lab_opened_again_knows_where_its_tables_are(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    program = CellSums(Scan(lab.table("visits").snapshot_name), ALL, (), (Counted(),))
    assert sf.open(lab.folder).engine.run(program).tolist() == [[5]]


def test_what_is_dropped_or_replaced_is_gone(lab: sf.Lab, source: str, postgres: str) -> None:
    def tables() -> int:
        schema = lab.engine._schema
        counted = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'"
        return int(execute(postgres, counted)[0][0])

    lab.register("visits", source, **SAID)
    assert tables() == 3
    lab.advance("visits", source, max_rows=1)
    assert tables() == 3
    lab.drop("visits")
    assert tables() == 0
    assert b"a_secret" not in (lab.folder / "databases.json").read_bytes()


def test_tables_of_different_places_are_not_joined(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    lab.register("stays", VISITS, **SAID)
    with pytest.raises(PolicyError, match="SF-Q140"):
        lab.session().sql("SELECT COUNT(*) AS n FROM visits JOIN stays USING (who)").quote(epsilon=1)


def test_tables_of_one_database_are_joined(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    lab.register("stays", source, **SAID)
    asked = lab.session().sql("SELECT COUNT(*) AS n FROM visits JOIN stays USING (who)")
    assert asked.release(epsilon=500).to_arrow()["n"].to_pylist() == [9]


def test_missing_rights_are_named_with_the_sql_that_grants_them(
    lab: sf.Lab, source: str, postgres: str
) -> None:
    role = f"reader_{secrets.token_hex(4)}"
    execute(postgres, f"CREATE ROLE {role} LOGIN")
    theirs = source.replace("postgres@", f"{role}@")
    with pytest.raises(PolicyError, match="SF-C210") as refused:
        lab.register("visits", theirs, **SAID)
    assert "GRANT SELECT" in refused.value.facts["try"]
    assert "CREATE SCHEMA" in refused.value.facts["try"]
    execute(postgres, refused.value.facts["try"])
    lab.register("visits", theirs, **SAID)
    assert lab.table("visits").snapshot == 1


def _refusal(lab: sf.Lab, source: str, said: dict[str, Any] = SAID) -> SfumatoError:
    with pytest.raises(SfumatoError) as refused:
        lab.register("visits", source, **said)
    assert "a_secret" not in str(refused.value)
    return refused.value


def test_what_cannot_be_registered_is_refused_and_leaves_nothing(lab: sf.Lab, source: str) -> None:
    database, _, _ = source.partition("#")
    missing = "postgresql://nobody:a_secret@/nowhere?host=/nowhere#public.visits"
    assert _refusal(lab, database).code == "SF-C201"
    assert _refusal(lab, f"{database}#public.no_table").code == "SF-C202"
    assert _refusal(lab, missing).code == "SF-C209"
    other = SAID | {"columns": {"no_column": sf.between(0, 1)}}
    assert _refusal(lab, source, other).code == "SF-C205"
    assert not lab.tables()
    lab.register("visits", VISITS, **SAID)


def test_types_without_a_text_of_their_own_are_refused(lab: sf.Lab, postgres: str) -> None:
    name = f"odd_{secrets.token_hex(4)}"
    execute(postgres, f"CREATE TABLE {name} (who INTEGER, x INTERVAL, y INTEGER[], z DATE)")
    for column, code in (("x", "SF-C205"), ("y", "SF-C205"), ("z", "SF-C205")):
        said = SAID | {"columns": {column: sf.between(0, 1)}}
        assert _refusal(lab, f"{postgres}#public.{name}", said).code == code


def test_decimals_and_dates_that_only_postgresql_has_never_fail(lab: sf.Lab, postgres: str) -> None:
    name = f"edges_{secrets.token_hex(4)}"
    execute(postgres, f"CREATE TABLE {name} (who TEXT, x NUMERIC, day DATE, at TIMESTAMPTZ)")
    execute(
        postgres,
        f"INSERT INTO {name} VALUES ('a', 'NaN', 'infinity', '-infinity'), "
        f"('b', 'Infinity', '0044-03-15 BC', '0044-03-15 BC'), "
        f"('c', '1e-5000', '5874897-12-31', '294276-12-31'), ('d', '-1e5000', NULL, NULL)",
    )
    columns = {
        "x": sf.between(0, 10, step=1),
        "day": sf.text(),
        "at": sf.between(datetime(2000, 1, 1), datetime(2001, 1, 1)),
    }
    unit, budget = sf.Unit("who", max_rows=1), sf.Budget(9)
    lab.register("edges", f"{postgres}#{name}", unit=unit, columns=columns, budget=budget)
    schema = lab.engine._schema
    found = execute(
        postgres,
        f"SELECT c0, c1, c2 FROM {schema}.{_rows(postgres, schema)}",
    )
    assert sorted(found, key=repr) == sorted(
        [
            (None, "infinity", None),
            (10, "0044-03-15 (BC)", None),
            (0, "5874897-12-31", None),
            (0, None, None),
        ],
        key=repr,
    )


def _rows(address: str, schema: str) -> str:
    tables = execute(address, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
    return next(name for (name,) in tables if name.endswith("_rows"))


def test_answering_cannot_write(lab: sf.Lab, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    from sfumato.engines.postgres import run

    lab.register("visits", source, **SAID)
    program = CellSums(Scan(lab.table("visits").snapshot_name), ALL, (), (Counted(),))
    engine = lab.engine._engine(source.partition("#")[0])
    assert isinstance(engine, PostgresEngine)
    monkeypatch.setattr(run, "compile_program", lambda *_: f"CREATE TABLE {engine.schema}.more (x INTEGER)")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        engine.run(program)


def test_another_source_is_told_from_an_address(lab: sf.Lab) -> None:
    with pytest.raises(UsageError, match="SF-C201"):
        lab.register("visits", "mysql://somewhere#t", **SAID)


def test_a_view_that_fails_on_a_row_does_not_show_it(lab: sf.Lab, postgres: str) -> None:
    name = f"view_{secrets.token_hex(4)}"
    rows = "(VALUES ('1'), ('p42x')) AS t (w)"
    execute(postgres, f"CREATE VIEW {name} AS SELECT 1 AS who, CAST(w AS INTEGER) AS cost FROM {rows}")
    refusal = _refusal(lab, f"{postgres}#{name}", SAID | {"columns": {"cost": sf.between(0, 1)}})
    assert refusal.code == "SF-C204"
    assert "p42x" not in str(refusal)
    assert refusal.__suppress_context__


def test_the_shell_takes_an_address(lab: sf.Lab, source: str) -> None:
    told = ["table", "add", "visits", source, "--lab", str(lab.folder), "--unit", "who", "--max-rows", "2"]
    told += ["--between", "cost", "0", "10", "--epsilon", "4"]
    assert CliRunner().invoke(main, told, catch_exceptions=False).exit_code == 0
    assert lab.table("visits").home.startswith("postgres:")


def test_a_database_in_another_encoding_is_refused(lab: sf.Lab, postgres: str) -> None:
    import psycopg

    name = f"ascii_{secrets.token_hex(4)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    address = postgres.replace("/postgres?", f"/{name}?")
    assert _refusal(lab, f"{address}#visits").code == "SF-C211"


def test_without_the_library_its_name_is_said(
    lab: sf.Lab, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert _refusal(lab, source).code == "SF-N113"


def test_a_graph_is_refused(lab: sf.Lab, source: str) -> None:
    said = {"unit": sf.Node("who", "ward", max_degree=3), "budget": sf.Budget(9)}
    assert _refusal(lab, source, said).code == "SF-C213"


def test_an_unreachable_database_holds_nothing_else_up(lab: sf.Lab, source: str) -> None:
    lab.register("visits", source, **SAID)
    file = lab.folder / "databases.json"
    good = file.read_text()
    file.write_text(good.replace("host=", "host=/nowhere"))
    lab.drop("visits")
    lab.register("stays", VISITS, **SAID)
    file.write_text(good)
    lab.drop("stays")
    assert file.read_text() == "{}"
