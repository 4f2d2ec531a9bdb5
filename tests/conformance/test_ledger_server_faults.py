"""A server whose disk fails, and someone who changes its tables: nothing told is lost, changes are caught."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance import servers

from sfumato.errors import LedgerError
from sfumato.ledger import Charge, Charged, PostgresLedger, Released, Reserved, Verified
from sfumato.ledger.receipts import checking, signing
from sfumato.privacy import Budget, Pure, price
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.servers import Server

HERE = Path(__file__).parent
PEOPLE, ADA = "population:patient_id", "quota:patient_id:ada"
MILLIONTH = price(Pure(Fraction(1, 10**6)))


def hash_text(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def ask(name: str, **more: Any) -> Charge:
    return Charge((PEOPLE,), MILLIONTH, hash_text(name), {"table": "visits"}, **more)


# ---- a failing disk ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Callable[[str], None]]]:
    """A server, and how to say what fails from now on."""
    servers.running()
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    folder = Path(tmp_path_factory.mktemp("faults"))
    # The server runs as another user, so its library and the file that controls it lie outside of our folder.
    with tempfile.TemporaryDirectory(prefix="faults") as public, pytest.MonkeyPatch.context() as patch:
        Path(public).chmod(0o755)
        library, control = Path(public) / "faults.so", Path(public) / "control"
        source = str(HERE / "disk_faults.c")
        build = [compiler, "-shared", "-fPIC", "-o", str(library), source, "-ldl"]
        subprocess.run(build, check=True, cwd=folder)
        patch.setenv("FAULTS", str(control))

        def arm(what: str) -> None:
            control.unlink(missing_ok=True)
            if what:
                control.write_text(what)
                control.chmod(0o644)

        server = servers.Server.make(loaded=library)
        try:
            server.start()
            yield server, arm
        finally:
            arm("")
            with suppress(subprocess.CalledProcessError):
                server.stop()
            server.remove()


def ask_until(
    done: threading.Event, address: str, schema: str, me: int, told: list[str], said: set[str]
) -> None:
    """Each receipt is told once it is held. Opened anew when in doubt."""
    while not done.is_set():
        try:
            with closing(PostgresLedger.open(address, schema=schema, timeout=5)) as ledger:
                while not done.is_set():
                    charged = ledger.charge(ask(f"{me}: {len(told)} {time.monotonic_ns()}"))
                    assert isinstance(charged, Charged)
                    told.append(charged.head)
                    told.append(ledger.release(charged, "x" * 3000).head)
        except LedgerError as refusal:
            said.add(refusal.code)
        time.sleep(0.02)


def healed(server: Server) -> None:
    """Accepting again: by itself after an error, or by hand where it gave up."""

    def is_open() -> bool:
        with suppress(LedgerError):
            PostgresLedger.open(server.address, schema="probe", timeout=PATIENCE).close()
            return True
        with suppress(subprocess.CalledProcessError):
            server.start()
        return False

    wait_until(is_open, "the server comes back")


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f"write {errno.ENOSPC}", id="full"),
        pytest.param(f"write {errno.EROFS}", id="read-only", marks=pytest.mark.slow),
        pytest.param(f"write {errno.EIO}", id="write error", marks=pytest.mark.slow),
        pytest.param(f"sync {errno.EIO}", id="sync error"),
    ],
)
def test_a_server_whose_disk_fails(
    failing: tuple[Server, Callable[[str], None]], fault: str, rounds: int
) -> None:
    server, arm = failing
    schema = f"s{hash_text(f'{fault} {rounds}')[:12]}"
    with suppress(Exception):
        PostgresLedger.create(server.address, schema="probe").close()
    with closing(PostgresLedger.create(server.address, schema=schema, timeout=PATIENCE)) as ledger:
        ledger.open_account(PEOPLE, Budget(4))
    done, told, said = threading.Event(), list[str](), set[str]()
    arguments = [(done, server.address, schema, me, told, said) for me in range(3)]
    work = [threading.Thread(target=ask_until, args=each) for each in arguments]
    for thread in work:
        thread.start()
    chance = random.Random(271828)
    try:
        for _ in range(rounds):
            wanted = len(told) + 20
            wait_until(lambda wanted=wanted: len(told) >= wanted, "charges are told")
            arm(fault)
            time.sleep(chance.uniform(0.1, 0.6))
            wait_until(lambda: said, "the disk has met the fault once")
            arm("")
            healed(server)
    finally:
        done.set()
        for thread in work:
            thread.join()
    with closing(PostgresLedger.open(server.address, schema=schema)) as ledger:
        verified, kept = ledger.verify(), {entry.hash for entry in ledger.read_entries()}
        assert set(told) <= kept
        assert ledger.read_spent(PEOPLE).pure == verified.charges * 10**6
        assert verified.releases <= verified.charges
    # SF-L106: a busy server that comes back may be silent for longer than a client waits.
    assert said <= {"SF-L104", "SF-L106", "SF-L108", "SF-C210", "SF-C223"}


# ---- someone with the tables in their hands ----------------------------------------------------------------

COLUMNS = {
    "ledger": ("version", "identity", "entries", "head"),
    "entries": ("seq", "kind", "body", "prev", "hash"),
    "answers": ("charge", "nonce", "answer"),
}


@pytest.fixture
def schema() -> str:
    return f"flips_{os.getpid()}_{time.monotonic_ns()}"


def fill(schema: str) -> PostgresLedger:
    ledger = PostgresLedger.create(servers.running().address, schema=schema, timeout=PATIENCE)
    ledger.open_account(PEOPLE, Budget(4, 1e-7))
    ledger.grant(ADA, Budget(1))
    for name in ("first", "second"):
        charged = ledger.charge(ask(name, key=f"key of {name}"))
        assert isinstance(charged, Charged)
        ledger.release(charged, f"answer to {name}\nin two lines")
    reserved = ledger.reserve(ask("run"), 9)
    assert isinstance(reserved, Reserved)
    ledger.draw(reserved, 4)
    ledger.give_back(reserved)
    return ledger


def flipped(value: Any, chance: random.Random) -> Any:
    """One bit of a text or a number is another. Texts stay texts that the server takes."""
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(20))
    place, bit = chance.randrange(len(value)), 1 << chance.randrange(6)
    other = chr(max(1, ord(value[place]) ^ bit))
    return value[:place] + other + value[place + 1 :]


def opened(schema: str, before: Verified) -> str:
    """The code of the refusal, or nothing where the ledger says what it said."""
    try:
        with closing(
            PostgresLedger.open(servers.running().address, schema=schema, timeout=PATIENCE)
        ) as ledger:
            assert ledger.verify() == before
    except LedgerError as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize("flips", [60, pytest.param(1200, marks=pytest.mark.slow)])
def test_bits_flipped_in_the_tables_are_caught_or_changed_nothing(schema: str, flips: int) -> None:
    import psycopg

    address, chance, caught = servers.running().address, random.Random(314159), 0
    with closing(fill(schema)) as ledger:
        before = ledger.verify()
    with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as db:
        db.execute(
            "SET session_replication_role = replica"
        )  # as its owner: no trigger and no key holds them up
        for _ in range(flips):
            table = chance.choice(list(COLUMNS))
            column = chance.choice(COLUMNS[table])
            rows = db.execute(f"SELECT ctid::text, {column} FROM {table}".encode()).fetchall()
            place, value = chance.choice(rows)
            if value is None or value == "":
                continue
            update = f"UPDATE {table} SET {column} = %s WHERE ctid = %s RETURNING ctid::text".encode()
            try:
                ((moved,),) = db.execute(update, (flipped(value, chance), place)).fetchall()
            except psycopg.errors.UniqueViolation:
                continue
            code = opened(schema, before)
            assert code in ("SF-L101", "SF-L103", "SF-L106") or column == "identity"
            caught += code != ""
            db.execute(update, (value, moved))
    assert caught > flips // 2
    with closing(PostgresLedger.open(address, schema=schema)) as ledger:
        assert ledger.verify() == before


def test_an_old_dump_put_back_is_told_by_a_receipt_and_by_whoever_lives(schema: str, tmp_path: Path) -> None:
    """As a steward would: the server's own tools, and then the newest receipt."""
    pytest.importorskip("cryptography", reason="signatures come with the receipts extra")
    server, key, dump = servers.running(), tmp_path / "key", tmp_path / "dump.sql"
    fill(schema).close()
    signing.SigningKey(key).create()
    copied = subprocess.run(
        [shutil.which("pg_dump", path=server.programs) or "pg_dump", "-n", schema, server.address],
        check=True,
        capture_output=True,
        text=True,
    )
    dump.write_text(copied.stdout)
    with closing(PostgresLedger.open(server.address, schema=schema, key=key, timeout=PATIENCE)) as alive:
        old = alive.sign_receipt()
        charged = alive.charge(ask("after the dump"))
        assert isinstance(charged, Charged)
        new = alive.release(charged, "42").signed
        assert new is not None
        put_back(server, schema, dump)
        with pytest.raises(LedgerError, match="SF-L112"):
            alive.charge(ask("to whoever lives"))
    with closing(PostgresLedger.open(server.address, schema=schema, key=key)) as restored:
        assert checking.check_receipt(restored, old.to_json()).signed == "signed by this ledger"
        with pytest.raises(LedgerError, match=r"SF-L132.*\n.*signed by this ledger"):
            checking.check_receipt(restored, new.to_json())
        assert isinstance(restored.charge(ask("first")), Released)


def put_back(server: Server, schema: str, dump: Path) -> None:
    psql = shutil.which("psql", path=server.programs) or "psql"
    for arguments in (["-c", f"DROP SCHEMA {schema} CASCADE"], ["-f", str(dump)]):
        command = [psql, "-v", "ON_ERROR_STOP=1", "-q", *arguments, server.address]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
