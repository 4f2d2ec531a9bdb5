"""Ledgers of older versions are brought forward in one transaction, and newer ones are left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance import servers
from tests.conformance.stores import KINDS

from sfumato.errors import LedgerError, PolicyError
from sfumato.ledger import Charge, Ledger, PostgresLedger, Released, Reserved, SqliteLedger, tables
from sfumato.privacy import Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
PEOPLE, ADA = "population:patient_id", "quota:patient_id:ada"
HEADS = {
    1: (7, "089ebe806dd6f2d6ba3174d77686d3e85609a56a56a52fb06ef22f8440c86f03", 3 * 10**11),
    2: (10, "1d67c6247b5cbde9227fff9840f4c9bfe8d14b05269f8b3ed612824f26a204e0", 34 * 10**10),
}
"""How many entries older versions wrote, the hash of the last, and what they had spent."""

_numbers = count()


def hash_text(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def old_sqlite(folder: Path, version: int) -> tuple[Callable[[], Ledger], Callable[[str], None]]:
    path = folder / "ledger.sqlite"

    def change(sql: str) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.executescript(sql)

    change((HERE / f"version{version}" / "sqlite.sql").read_text(encoding="utf-8"))
    return lambda: SqliteLedger.open(path), change


def old_postgres(folder: Path, version: int) -> tuple[Callable[[], Ledger], Callable[[str], None]]:
    import psycopg

    address, schema = servers.running().address, f"old_{os.getpid()}_{next(_numbers)}"

    def change(sql: str) -> None:
        with psycopg.connect(address, options=f"-c search_path={schema}") as db:
            db.execute(sql.encode())

    change(f"CREATE SCHEMA {schema}")
    change((HERE / f"version{version}" / "postgres.sql").read_text(encoding="utf-8"))
    return lambda: PostgresLedger.open(address, schema=schema), change


Old = tuple["Callable[[], Ledger]", "Callable[[str], None]"]


@pytest.fixture(params=HEADS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=KINDS)
def old(request: pytest.FixtureRequest, tmp_path: Path, version: int) -> Old:
    return {"sqlite": old_sqlite, "postgres": old_postgres}[request.param](tmp_path, version)


def ask(name: str) -> Charge:
    return Charge((PEOPLE, ADA), price(Pure(Fraction(1, 10))), hash_text(name), {"table": "visits"})


def test_an_old_ledger_goes_on_where_it_was(old: Old, version: int) -> None:
    open_it, _ = old
    with closing(open_it()) as ledger:
        verified = ledger.verify()
        assert (verified.entries, verified.head, ledger.read_spent(PEOPLE).pure) == HEADS[version]
        kept = ledger.find_release(hash_text("first"))
        assert kept is not None
        assert kept.answer == "answer to first\nin two lines"
        assert isinstance(ledger.charge(ask("second")), Released)
        reserved = ledger.reserve(ask("run"), 5)
        assert isinstance(reserved, Reserved)
        ledger.draw(reserved, 2)
        ledger.give_back(reserved)
        identity = ledger.read_identity()
    with closing(open_it()) as ledger:
        entries, head, _ = HEADS[version]
        assert ledger.verify().entries == entries + 3
        assert ledger.read_identity() == identity != ""
        assert list(ledger.read_entries())[entries - 1].hash == head
        with pytest.raises(PolicyError, match="SF-L204"):
            ledger.charge(replace(ask("another"), key="key of first"))


def test_two_ledgers_have_two_identities(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    found = []
    for name in "ab":
        with closing(old_sqlite(tmp_path / name, 1)[0]()) as ledger:
            found.append(ledger.read_identity())
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE accounts SET spent = replace(spent, '40000000000', '0')",
        "UPDATE charges SET key = 'another' WHERE seq = 3",
        "UPDATE answers SET answer = 'another'",
        "UPDATE reservations SET drawn = 3",
        "CREATE TABLE notes (x TEXT)",
    ],
)
def test_an_old_ledger_that_was_changed_stays_as_it_is(old: Old, version: int, change: str) -> None:
    """It is verified before it is brought forward for good."""
    open_it, alter = old
    if version == 1:
        change = change.replace("UPDATE reservations SET drawn = 3", "CREATE TABLE reservations (x TEXT)")
        change = change.replace("'40000000000'", "'300000000000'")
    alter(change)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"SF-L10[23]"):
            open_it()
    with pytest.raises(Exception, match="head"):
        alter("UPDATE ledger SET head = 'x'")


def test_a_newer_ledger_is_refused_by_that_name(old: Old) -> None:
    open_it, alter = old
    alter("UPDATE ledger SET version = 9")
    with pytest.raises(LedgerError, match=r"SF-L103  This ledger was made by a newer version"):
        open_it()


def test_version_3_knows_fewer_kinds_of_entries_and_has_to_notice(tmp_path: Path) -> None:
    """It would call the chain broken, and tell people to restore an older copy."""
    open_it, alter = old_postgres(tmp_path, 2)
    open_it().close()
    for _ in range(2):
        alter("DO $$ BEGIN ASSERT (SELECT version FROM ledger) = 5; END $$; UPDATE ledger SET version = 3")
        with closing(open_it()) as ledger:
            assert ledger.verify().head == HEADS[2][1]


def test_death_before_the_end_leaves_the_old_ledger(old: Old, version: int) -> None:
    open_it, _ = old
    pid = os.fork()
    if pid == 0:
        tables.check_tables = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,return-value]
        open_it()
        os._exit(255)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with closing(open_it()) as ledger:
        assert ledger.verify().head == HEADS[version][1]


def test_a_writer_does_not_bring_it_forward_and_has_its_rights_when_the_owner_does(
    tmp_path: Path, version: int
) -> None:
    open_it, alter = old_postgres(tmp_path, version)
    role, schema = f"clerk_{os.getpid()}_{version}", f"old_{os.getpid()}_{next(_numbers) - 1}"
    alter(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
    alter(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    alter(f"GRANT INSERT ON entries, accounts, charges, answers TO {role}")
    alter(f"GRANT UPDATE (terms, spent) ON accounts TO {role}; GRANT UPDATE ON ledger TO {role}")
    address = servers.running().address.replace("user=postgres", f"user={role}")
    with pytest.raises(LedgerError, match="SF-L120"):
        PostgresLedger.open(address, schema=schema)
    open_it().close()
    with closing(PostgresLedger.open(address, schema=schema)) as ledger:
        reserved = ledger.reserve(ask("run"), 5)
        assert isinstance(reserved, Reserved)
        assert ledger.draw(reserved, 2) == 2
    import psycopg

    with (
        psycopg.connect(address, options=f"-c search_path={schema}") as db,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        db.execute("UPDATE ledger SET version = 1")


def test_a_process_of_an_older_version_cannot_go_on_beside(old: Old) -> None:
    """What it would decide by is gone, so it cannot decide."""
    open_it, alter = old
    open_it().close()
    with pytest.raises(Exception, match="accounts"):
        alter("SELECT spent FROM accounts")
