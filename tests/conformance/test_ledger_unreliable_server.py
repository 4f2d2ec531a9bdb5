"""Servers that are silent, or that would forget what they confirm: both are named, and nothing is charged."""

from __future__ import annotations

import socket
import tempfile
import threading
from contextlib import closing, suppress
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.conformance import servers

from sfumato.errors import LedgerError
from sfumato.ledger import Charge, Charged, PostgresLedger
from sfumato.ledger.postgres import connection
from sfumato.ledger.postgres.durability import require_durable_server
from sfumato.privacy import Budget, Pure, price
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.servers import Server

PEOPLE = "population:patient_id"


def ask(name: str) -> Charge:
    return Charge((PEOPLE,), price(Pure(Fraction(1, 10))), sha256(name.encode()).hexdigest(), {})


class Relay:
    """Passes bytes between a client and a server, until it swallows what the server says."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.is_silent = False
        self._target = f"{server.folder}/.s.PGSQL.5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/.s.PGSQL.5432")
        self._listener.listen()
        self.address = f"host={folder} user=postgres dbname=postgres"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                for source, sink, says in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=(source, sink, says), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, says: bool) -> None:
        with suppress(OSError), sink:
            while heard := source.recv(65536):
                if not (says and self.is_silent):
                    sink.sendall(heard)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Server:
    return servers.adjustable()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The name of a socket has at most some hundred characters."""
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        yield Path(folder)


def tell(server: Server, *statements: str) -> None:
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


def lose_patience(ledger: PostgresLedger) -> None:
    """Let an open ledger wait for 0.3 s from now on: a busy server may take longer while it is opened."""
    database = cast(Any, ledger._database)
    ledger._timeout = database._timeout = 0.2
    with database.lend_connection() as db:
        db.raw.patience = 0.3


def test_a_charge_ends_when_the_server_stays_silent(
    server: Server, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine acknowledges every packet, so the network's own timeouts see nothing."""
    with closing(Relay(short_folder, server)) as relay:
        ledger = PostgresLedger.create(relay.address, schema="silent")
        ledger.open_account(PEOPLE, Budget(1))
        still_open = PostgresLedger.open(relay.address, schema="silent")
        monkeypatch.setattr(connection, "GRACE", 0.1)
        for each in (ledger, still_open):
            lose_patience(each)
        relay.is_silent = True
        # Only now: a busy machine may leave a server silent for as long before.
        for each in (ledger, still_open):
            database = cast(Any, each._database)
            database._timeout = database._connection.raw.patience = 0.2
        with pytest.raises(LedgerError, match="SF-L106"):
            ledger.read_spent(PEOPLE)
        relay.close()  # nobody knows, and there is nobody to ask
        ledger = still_open
        with pytest.raises(LedgerError, match="SF-L108"):
            ledger.charge(ask("never answered"))
    with closing(PostgresLedger.open(server.address, schema="silent")) as ledger:
        assert isinstance(ledger.charge(ask("answered")), Charged)


def test_every_connection_asks_the_network_for_signs_of_life(server: Server) -> None:
    with (
        closing(PostgresLedger.create(server.address, schema="alive", timeout=9)) as ledger,
        ledger._database.lend_connection() as db,
    ):
        found = cast(Any, db).raw.info.get_parameters()
    wanted = {"keepalives_idle": "9", "tcp_user_timeout": "9000", "connect_timeout": "9"}
    assert wanted.items() <= found.items()


@pytest.mark.parametrize("table", ["entries", "answers", "ledger"])
def test_unlogged_tables_are_refused(server: Server, table: str) -> None:
    schema = f"unlogged_{table}"
    with closing(PostgresLedger.create(server.address, schema=schema)) as ledger:
        ledger.open_account(PEOPLE, Budget(1))
    tell(server, f"ALTER TABLE {schema}.{table} SET UNLOGGED")
    with pytest.raises(LedgerError, match="SF-C211"):
        PostgresLedger.open(server.address, schema=schema)
    tell(server, f"ALTER TABLE {schema}.{table} SET LOGGED")
    PostgresLedger.open(server.address, schema=schema).close()


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_forgets_is_refused(server: Server, setting: str) -> None:
    PostgresLedger.create(server.address, schema=f"forgets_{setting}").close()
    try:
        tell(server, f"ALTER SYSTEM SET {setting} = off", "SELECT pg_reload_conf()")
        wait_for(server, setting, "off")
        with pytest.raises(LedgerError, match=f"SF-C211[^~]*{setting} = off"):
            PostgresLedger.open(server.address, schema=f"forgets_{setting}")
    finally:
        tell(server, f"ALTER SYSTEM SET {setting} = on", "SELECT pg_reload_conf()")
        wait_for(server, setting, "on")
    PostgresLedger.open(server.address, schema=f"forgets_{setting}").close()


def wait_for(server: Server, setting: str, value: str) -> None:
    import psycopg

    def is_set() -> bool:
        with psycopg.connect(server.address) as db:
            return db.execute(f"SHOW {setting}".encode()).fetchone() == (value,)

    wait_until(is_set, f"{setting} = {value}")


def test_settings_of_a_role_do_not_make_commits_forgetful(server: Server) -> None:
    """Ours come with the connection and win; without them, the connection is refused."""
    tell(
        server,
        "CREATE ROLE hasty LOGIN SUPERUSER",
        "ALTER ROLE hasty SET synchronous_commit = off",
        "ALTER ROLE hasty SET client_min_messages = error",
        "ALTER DATABASE postgres SET synchronous_commit = local",
    )
    address = server.address.replace("user=postgres", "user=hasty")
    try:
        with closing(PostgresLedger.create(address, schema="hasty")) as ledger:
            ledger.open_account(PEOPLE, Budget(1))
            with ledger._database.lend_connection() as db:
                assert db.execute("SHOW synchronous_commit").fetchone() == ("on",)
                db.execute("SET synchronous_commit = off")
                with pytest.raises(LedgerError, match="SF-C211"):
                    require_durable_server(cast(Any, db))
    finally:
        # Tests of standbys may use this server later, and would wait for ever for a commit that waits.
        tell(server, "ALTER DATABASE postgres RESET synchronous_commit")
