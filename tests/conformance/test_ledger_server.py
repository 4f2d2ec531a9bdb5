"""Only with a server: one that dies, a role with few rights, tables changed by hand."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.conformance import servers

from sfumato.errors import LedgerError, PolicyError, UsageError
from sfumato.ledger import Charge, Charged, PostgresLedger, Released, transaction
from sfumato.ledger.postgres.connection import open_connection
from sfumato.ledger.postgres.database import PostgresDatabase
from sfumato.privacy import Budget, Pure, price
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.servers import Server

PEOPLE = "population:patient_id"
MILLIONTH = price(Pure(Fraction(1, 10**6)))


def ask(name: str) -> Charge:
    return Charge((PEOPLE,), MILLIONTH, sha256(name.encode()).hexdigest(), {"table": "visits"})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One that may be killed: others use the shared one."""
    servers.running()
    server = servers.Server.make()
    try:
        server.start()
        yield server
    finally:
        with suppress(CalledProcessError):  # a test that failed may have left it dead
            server.stop()
        server.remove()


@pytest.fixture
def schema(server: Server, request: pytest.FixtureRequest) -> str:
    name = "s" + sha256(request.node.name.encode()).hexdigest()[:12]
    with closing(PostgresLedger.create(server.address, schema=name, timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, Budget(4))
    return name


def tamper(server: Server, schema: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(server.address, options=f"-c search_path={schema}") as db:
        for statement in statements:
            db.execute(statement.encode())


def ask_until(done: threading.Event, address: str, schema: str, me: int, told: list[str]) -> None:
    """Through every death of the server; each receipt is told once it is held. Opened anew when in doubt."""
    while not done.is_set():
        with (
            suppress(LedgerError),
            closing(PostgresLedger.open(address, schema=schema, timeout=PATIENCE)) as ledger,
        ):
            while not done.is_set():
                charged = ledger.charge(ask(f"{me}: {len(told)} {time.monotonic_ns()}"))
                assert isinstance(charged, Charged)
                told.append(charged.head)
                told.append(ledger.release(charged, "x").head)
        time.sleep(0.02)


@pytest.mark.parametrize("deaths", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_that_dies_under_load_loses_nothing_that_was_told(
    server: Server, schema: str, deaths: int
) -> None:
    chance, done, told = random.Random(577215), threading.Event(), list[str]()
    work = [
        threading.Thread(target=ask_until, args=(done, server.address, schema, me, told)) for me in range(4)
    ]
    for thread in work:
        thread.start()
    spans = []
    try:
        for _ in range(deaths):
            wanted = len(told) + chance.randint(2, 60)
            wait_until(lambda wanted=wanted: len(told) >= wanted, "charges are told")
            server.kill()
            start = time.monotonic()
            server.start()
            PostgresLedger.open(server.address, schema=schema).close()
            spans.append(time.monotonic() - start)
    finally:
        done.set()
        for thread in work:
            thread.join()
    print(f"recovered in {max(spans):.1f} s at most")
    with closing(PostgresLedger.open(server.address, schema=schema)) as ledger:
        verified, kept = ledger.verify(), {entry.hash for entry in ledger.read_entries()}
        assert set(told) <= kept
        assert ledger.read_spent(PEOPLE).pure == verified.charges * 10**6


def test_entries_can_only_be_added(server: Server, schema: str) -> None:
    import psycopg

    for statement in ("UPDATE entries SET kind = 'grant'", "DELETE FROM entries", "TRUNCATE entries CASCADE"):
        with pytest.raises(psycopg.errors.RaiseException, match="never changed"):
            tamper(server, schema, statement)


def test_a_writer_may_charge_and_nothing_more(server: Server) -> None:
    import psycopg

    tamper(server, "public", "CREATE ROLE clerk LOGIN")
    PostgresLedger.create(server.address, schema="clerks", writer="clerk").close()
    address = server.address.replace("user=postgres", "user=clerk")
    with closing(PostgresLedger.open(address, schema="clerks", timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        charged = ledger.charge(ask("q"))
        assert isinstance(charged, Charged)
        ledger.release(charged, "42")
        assert ledger.verify().entries == 3
    for statement in (
        "ALTER TABLE entries DISABLE TRIGGER entries_stay",
        "UPDATE entries SET kind = 'grant'",
        "DELETE FROM answers",
        "UPDATE answers SET answer = '43'",
        "UPDATE ledger SET version = 6",
        "UPDATE ledger SET identity = 'x'",
        "DROP TABLE entries",
    ):
        with (
            psycopg.connect(address, options="-c search_path=clerks") as db,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            db.execute(statement.encode())


@pytest.mark.parametrize(
    ("code", "statement"),
    [
        ("SF-L103", "ALTER TABLE entries DISABLE TRIGGER entries_stay"),
        ("SF-L103", "DROP TRIGGER entries_stay ON entries"),
        ("SF-L103", "UPDATE ledger SET version = 1"),
        ("SF-L103", "UPDATE ledger SET version = 6"),
        ("SF-L103", "ALTER TABLE answers ADD note TEXT"),
        ("SF-L101", "UPDATE ledger SET entries = 2"),
        ("SF-L101", "UPDATE ledger SET head = repeat('0', 64)"),
        ("SF-L101", "UPDATE answers SET answer = 'another'"),
        ("SF-L101", "DELETE FROM answers"),
        ("SF-L101", "UPDATE answers SET charge = 1"),
    ],
)
def test_changes_by_hand_are_caught(server: Server, schema: str, code: str, statement: str) -> None:
    with closing(PostgresLedger.open(server.address, schema=schema)) as ledger:
        charged = ledger.charge(ask("q"))
        assert isinstance(charged, Charged)
        ledger.release(charged, "42")
        tamper(server, schema, statement)
        with pytest.raises(LedgerError, match=code):
            ledger.verify()
        with pytest.raises(LedgerError, match=code):
            ledger.charge(ask("r"))
    with pytest.raises(LedgerError, match=code):
        PostgresLedger.open(server.address, schema=schema)


def test_an_entry_changed_with_the_trigger_off_breaks_the_chain(server: Server, schema: str) -> None:
    tamper(
        server,
        schema,
        "ALTER TABLE entries DISABLE TRIGGER entries_stay",
        """UPDATE entries SET body = replace(body, '"epsilon":"4"', '"epsilon":"9"')""",
        "ALTER TABLE entries ENABLE TRIGGER entries_stay",
    )
    with pytest.raises(LedgerError, match="SF-L101"):
        PostgresLedger.open(server.address, schema=schema)


def test_a_schema_is_made_once_and_only_opened_where_it_is(server: Server, schema: str) -> None:
    with pytest.raises(UsageError, match="SF-L304"):
        PostgresLedger.create(server.address, schema=schema)
    with pytest.raises(LedgerError, match="SF-L103"):
        PostgresLedger.open(server.address, schema="nowhere")
    for name in ("a b", "x; DROP", "Upper", ""):
        with pytest.raises(UsageError, match="SF-L302"):
            PostgresLedger.open(server.address, schema=name)


def test_a_server_that_is_away_is_told(server: Server, schema: str) -> None:
    with closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as ledger:
        server.kill()
        try:
            with pytest.raises(LedgerError, match="SF-L106"):
                ledger.charge(ask("away"))
        finally:
            server.start()
        with suppress(LedgerError):
            ledger.charge(ask("the connection was lost"))
        assert isinstance(ledger.charge(ask("back")), Charged)


def test_an_address_may_have_options_of_its_own(server: Server, schema: str) -> None:
    more = "options='-c jit=on -c work_mem=1MB' client_encoding=latin1"
    address = f"{server.address} {more}"
    with closing(PostgresLedger.open(address, schema=schema, timeout=PATIENCE)) as ledger:
        assert isinstance(ledger.charge(ask(more)), Charged)
    with closing(open_connection(address, schema, 10).raw) as raw:
        shown = [raw.execute(f"SHOW {name}").fetchone()[0] for name in ("jit", "client_encoding", "work_mem")]
    assert shown == ["off", "UTF8", "1MB"]  # what the ledger depends on stays


def test_a_lost_server_is_told_by_the_error_alone(
    server: Server, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    import psycopg

    def lose(raw: Any) -> None:
        with closing(raw), pytest.raises(psycopg.Error), raw.pipeline():
            raw.execute("SELECT pg_terminate_backend(pg_backend_pid())").fetchall()

    lose(open_connection(server.address, schema, 10).raw)
    assert not caplog.records
    lose(psycopg.connect(server.address))
    assert caplog.records  # others' pipelines are theirs


def test_receipts_need_a_key(server: Server, schema: str) -> None:
    with closing(PostgresLedger.open(server.address, schema=schema)) as ledger:
        with pytest.raises(UsageError, match="SF-L115"):
            ledger.sign_receipt()
        assert ledger.find_entry(ledger.verify().head) == 1


def test_what_is_remembered_is_made_sure_of(server: Server, schema: str) -> None:
    """Two who write in turns, each with a memory of how things were, are as one."""
    with (
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as one,
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as other,
    ):
        for number in range(6):
            assert isinstance(one.charge(keyed(f"alone {number}")), Charged)
        theirs = other.charge(keyed("theirs"))
        assert isinstance(theirs, Charged)
        other.release(theirs, "42")
        replayed = one.charge(keyed("theirs"))
        assert isinstance(replayed, Released)
        assert replayed.answer == "42"
        for number in range(3):
            assert isinstance(one.charge(keyed(f"alone again {number}")), Charged)
        used = Charge((PEOPLE,), MILLIONTH, "0" * 64, {}, key="theirs")
        with pytest.raises(PolicyError, match="SF-L204"):
            one.charge(used)
        mine = one.charge(keyed("mine"))
        assert isinstance(mine, Charged)
        one.release(mine, "43")
        with pytest.raises(LedgerError, match="SF-L109"):
            one.release(mine, "44")
        assert one.charge(keyed("mine")) == other.charge(keyed("mine"))
        assert one.read_spent(PEOPLE) == other.read_spent(PEOPLE) == MILLIONTH * 11
        assert other.verify().charges == 11


def keyed(name: str) -> Charge:
    return replace(ask(name), key=name)


def losing(send: Callable[[], Any]) -> Any:
    """The server does what it is told, and is gone before it says so."""
    import psycopg

    sent = send()
    if sent.rowcount:
        raise psycopg.OperationalError("gone")
    return sent


@pytest.mark.parametrize("trips", [1, 2])
def test_a_commit_whose_word_was_lost_is_looked_up(server: Server, schema: str, trips: int) -> None:
    """It counts once, whether it took one trip or two, since someone else had written."""
    with (
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as ledger,
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as other,
    ):
        writer = ledger if trips == 1 else other
        for number in range(3):
            writer.charge(ask(f"before {number}"))
        database = cast(PostgresDatabase, ledger._database)
        written = database._count_written
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                database, "_count_written", lambda send, all_: written(lambda: losing(send), all_)
            )
            charged = ledger.charge(keyed("lost"))
        assert isinstance(charged, Charged)
        ledger.release(charged, "42")
        assert ledger.verify().charges == 4
        assert ledger.read_spent(PEOPLE) == other.read_spent(PEOPLE) == MILLIONTH * 4


def test_another_s_charge_that_says_the_same_is_not_taken_for_one_s_own(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same question after the same entry on the same day: else one charge would have two answers."""
    import psycopg

    monkeypatch.setattr(transaction, "read_date", lambda: "2026-01-01")
    with (
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as ledger,
        closing(PostgresLedger.open(server.address, schema=schema, timeout=PATIENCE)) as other,
    ):
        database = cast(PostgresDatabase, ledger._database)
        written = database._count_written

        def never_sent(send: Callable[[], Any]) -> Any:
            other.charge(ask("the same"))
            raise psycopg.OperationalError("gone")

        with monkeypatch.context() as patched:
            patched.setattr(
                database, "_count_written", lambda send, all_: written(lambda: never_sent(send), all_)
            )
            with pytest.raises(LedgerError, match="SF-L106"):
                ledger.charge(ask("the same"))
        assert ledger.verify().charges == 1
