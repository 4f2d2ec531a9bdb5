"""A server whose synchronous standby is away: what no standby holds is not durable, whatever the server says.

PostgreSQL ends a cancelled wait for a standby with a warning and calls the commit done. If such a charge were
believed, its answer would leave, and after the standby's promotion the budget could be spent again.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from fractions import Fraction
from hashlib import sha256
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.conformance import servers

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger import Charge, Charged, PostgresLedger
from sfumato.privacy import Budget, Pure, price
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.servers import Server

PEOPLE = "population:patient_id"
TENTH = price(Pure(Fraction(1, 10)))
_WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def ask(name: str) -> Charge:
    return Charge((PEOPLE,), TENTH, sha256(name.encode()).hexdigest(), {})


def name_standbys(server: Server, names: str) -> None:
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as db:
        db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'".encode())
        db.execute("SELECT pg_reload_conf()")

        def is_set() -> bool:
            with psycopg.connect(server.address) as other:
                return other.execute("SHOW synchronous_standby_names").fetchone() == (names,)

        wait_until(is_set, "new sessions read the new setting")
        if names == "away":
            wait_until(lambda: has_to_wait(server, db), "commits wait for a standby")


def has_to_wait(server: Server, db: Any) -> bool:
    """Whether commits wait for a standby: the checkpointer decides that, and may be late to hear of it."""
    import psycopg

    options = "-c synchronous_commit=on"
    with psycopg.connect(server.address, autocommit=True, options=options) as probe:
        pid = probe.info.backend_pid
        commit = threading.Thread(
            target=probe.execute, args=("SELECT pg_logical_emit_message(true, 'test', 'probe')",)
        )
        commit.start()
        waits = False
        while commit.is_alive() and not waits:
            waits = db.execute(f"SELECT 1 {_WAITING} AND pid = {pid}".encode()).fetchone() is not None
        if waits:
            db.execute(f"SELECT pg_cancel_backend({pid})".encode())
        commit.join()
    return waits


@contextmanager
def waits_ended(server: Server, how: str) -> Iterator[None]:
    """End every wait for a standby once, in one way, for as long as the block runs.

    A session on a busy machine may take long to notice that its wait was ended. A second signal would then
    end its next statement instead.
    """
    done, ended = threading.Event(), set[tuple[int, str]]()

    def work() -> None:
        import psycopg

        with psycopg.connect(server.address, autocommit=True) as db:
            while not done.wait(0.02):
                for wait in db.execute(f"SELECT pid, query_start::TEXT {_WAITING}".encode()).fetchall():
                    if wait not in ended:
                        ended.add(wait)
                        db.execute(f"SELECT {how}({wait[0]})".encode())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def set_timeout(ledger: PostgresLedger, seconds: float) -> None:
    """Change for how long an open ledger looks whether a commit is durable. Opening it may take longer."""
    ledger._timeout = cast(Any, ledger._database)._timeout = seconds


@pytest.fixture
def server() -> Server:
    return servers.adjustable()


@pytest.mark.parametrize(("how", "others"), [("pg_cancel_backend", False), ("pg_terminate_backend", True)])
def test_a_commit_that_no_standby_confirmed_is_no_charge(server: Server, how: str, others: bool) -> None:
    schema = f"s_{how}_{others}".lower()
    with closing(PostgresLedger.create(server.address, schema=schema)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
        set_timeout(ledger, 0.2)
        ledger._is_only_writer = not others
        name_standbys(server, "away")
        try:
            with waits_ended(server, how), pytest.raises(LedgerError, match="SF-L108"):
                ledger.charge(ask("unconfirmed"))
            # Nobody else builds on it either: not even by opening the ledger.
            with waits_ended(server, how), pytest.raises(LedgerError):
                PostgresLedger.open(server.address, schema=schema, timeout=0.2)
        finally:
            name_standbys(server, "")
    with closing(PostgresLedger.open(server.address, schema=schema)) as ledger:
        assert ledger.read_spent(PEOPLE) == TENTH
        assert isinstance(ledger.charge(ask("confirmed")), Charged)


def test_a_kept_answer_leaves_once_it_is_confirmed(server: Server) -> None:
    """The answer of another process is visible before it is durable."""
    with (
        closing(PostgresLedger.create(server.address, schema="kept")) as one,
        closing(PostgresLedger.open(server.address, schema="kept")) as other,
    ):
        one.open_account(PEOPLE, Budget(1))
        charged = one.charge(ask("q"))
        assert isinstance(charged, Charged)
        set_timeout(one, 0.2)
        set_timeout(other, 0.2)
        name_standbys(server, "away")
        try:
            with waits_ended(server, "pg_cancel_backend"):
                with pytest.raises(LedgerError, match="SF-L108"):
                    one.release(charged, "42")
                for use in (lambda: other.charge(ask("q")), lambda: other.find_release(ask("q").request)):
                    with pytest.raises(LedgerError, match="SF-L106"):
                        use()
        finally:
            name_standbys(server, "")
        set_timeout(other, PATIENCE)
        found = other.find_release(ask("q").request)
        assert found is not None
        assert found.answer == "42"


def charge_now(ledger: PostgresLedger, name: str) -> str:
    charged = ledger.charge(ask(name))
    assert isinstance(charged, Charged)
    return charged.head


def restart_soon(server: Server) -> threading.Thread:
    """A restart ends every wait for a standby too, and tells nobody."""

    def work() -> None:
        time.sleep(0.2)
        server.stop()
        server.start()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def ask_while_away(server: Server, how: str, answered: list[str]) -> None:
    """Ask many times with no standby there, while someone ends every wait for it."""
    for number in range(3):
        with (
            suppress(LedgerError),
            closing(PostgresLedger.open(server.address, timeout=0.5)) as ledger,
        ):
            if how == "restart":
                restart = restart_soon(server)
                try:
                    answered.append(charge_now(ledger, f"away {number}"))
                finally:
                    restart.join()
            else:
                with waits_ended(server, how):
                    answered.append(charge_now(ledger, f"away {number}"))


@contextmanager
def pair() -> Iterator[tuple[Server, Server]]:
    """A server with a ledger, and its synchronous standby."""
    servers.running()
    with ExitStack() as stack:
        server = servers.Server.make()
        stack.callback(end_server, server)
        server.start()
        with closing(PostgresLedger.create(server.address)) as ledger:
            ledger.open_account(PEOPLE, Budget(1))
        standby = server.make_standby("second")
        stack.callback(end_server, standby)
        standby.start()
        name_standbys(server, "away")
        name_standbys(server, "second")
        yield server, standby


def end_server(server: Server) -> None:
    """Stop a server, if it runs, and remove its folder."""
    with suppress(CalledProcessError):
        server.stop()
    server.remove()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_promoted_standby_holds_every_charge_that_was_answered(seed: int) -> None:
    """Else the promoted ledger would pay for them a second time."""
    how, answered = ("restart", "pg_cancel_backend", "pg_terminate_backend")[seed % 3], list[str]()
    with pair() as (server, standby):
        with closing(PostgresLedger.open(server.address)) as ledger:
            for number in range(1 + seed % 4):
                answered.append(charge_now(ledger, f"in step {number}"))
        standby.stop()
        # A restart ends the wait of whoever opens the ledger too.
        ask_while_away(server, how, answered)
        server.stop()
        standby.start()
        standby.run("pg_ctl", "-D", str(standby.folder / "data"), "-w", "promote")
        name_standbys(standby, "")
        with closing(PostgresLedger.open(standby.address)) as ledger:
            assert set(answered) <= {entry.hash for entry in ledger.read_entries()}
            with suppress(BudgetError):
                for number in range(11):
                    answered.append(charge_now(ledger, f"promoted {number}"))
    print(f"{how}: {len(answered)} answers")
    assert len(answered) <= 10
