"""How fast the SQLite ledger charges, and verifies 10^5 entries. Prints a table; asserts nothing.

python benchmarks/ledger.py [entries]

The folder for temporary files should lie on a disk: in memory there is nothing to wait for. With an address
in SFUMATO_BENCH_POSTGRES the ledger in PostgreSQL is timed too, in a schema of its own that stays there.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

from sfumato.ledger import Charge, Charged, PostgresLedger, SqliteLedger, tables
from sfumato.ledger.commitment import commitment, fresh_nonce
from sfumato.ledger.database import Database
from sfumato.ledger.entry import digest
from sfumato.ledger.files import identity
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Budget, Pure, price

ACCOUNTS = ("population:patient_id", "quota:patient_id:ada")
COST = price(Pure(Fraction(1, 10**9)))


def question(name: str) -> Charge:
    about = {"table": "visits", "analyst": "ada", "event": {"event": "pure", "epsilon": "1/1000000000"}}
    return Charge(ACCOUNTS, COST, digest(name), about, key=name)


def begin(path: Path) -> SqliteLedger:
    ledger = SqliteLedger.create(path)
    ledger.open_account(ACCOUNTS[0], Budget(4, 1e-7))
    ledger.grant(ACCOUNTS[1], Budget(1, 1e-8))
    return ledger


def fill(path: Path, pairs: int) -> None:
    """Charges and releases in one commit, through the same writers as single ones."""
    database = Database(str(path), 1, identity(str(path)))
    with database.writing() as db:
        transaction = Transaction(tables.check(db))
        for number in range(pairs):
            answer_one(transaction, question(f"filled {number}"))
        database.commit(db, transaction.pending(), lambda: None)
    database.close()


def answer_one(transaction: Transaction, charge: Charge) -> None:
    charged = transaction.charge(charge)
    assert isinstance(charged, Charged)
    nonce = fresh_nonce()
    transaction.release(charged, commitment(nonce, "[1,2,3]"), nonce, "[1,2,3]")


def charge_many(path: Path, who: int, count: int) -> list[float]:
    ledger = SqliteLedger.open(path)
    spans = []
    for number in range(count):
        start = time.perf_counter()
        ledger.charge(question(f"{who}: {number}"))
        spans.append(time.perf_counter() - start)
    return spans


def raw_rate(folder: Path, count: int) -> float:
    """What the disk allows: one page appended and synced, again and again."""
    file, page = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.urandom(4096)
    start = time.perf_counter()
    for _ in range(count):
        os.write(file, page)
        os.fsync(file)
    rate = count / (time.perf_counter() - start)
    os.close(file)
    return rate


def single_rate(ledger: SqliteLedger, count: int) -> float:
    me, start = time.time_ns(), time.perf_counter()
    for number in range(count):
        ledger.charge(question(f"{me}: {number}"))
    return count / (time.perf_counter() - start)


def grouped_rate(ledger: SqliteLedger, threads: int, each: int) -> float:
    """Threads of one process on one ledger."""
    me = time.time_ns()

    def work(thread: int) -> None:
        for number in range(each):
            ledger.charge(question(f"{me}: {thread}: {number}"))

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return threads * each / (time.perf_counter() - start)


def time_disk(folder: Path, rounds: int = 9) -> None:
    """The disk alone, single charges and grouped ones in turns, since other work on the machine varies.

    The ledger stays open, as a server's does. So the rounds are of its steady state, in which SQLite writes
    over an old log and brings it home at times, and not of a log that grows from nothing.
    """
    ledger = begin(folder / "disk.sqlite")
    single_rate(ledger, 200)
    runs = [
        (raw_rate(folder, 200), single_rate(ledger, 200), grouped_rate(ledger, 64, 16)) for _ in range(rounds)
    ]
    raw, single, grouped = (statistics.median(column) for column in zip(*runs, strict=True))
    share = statistics.median(one / disk for disk, one, _ in runs)
    times = statistics.median(many / one for _, one, many in runs)
    print(f"fsync   of one page   {raw:8,.0f}/s")
    print(f"charge   1 thread     {single:8,.0f}/s   {share:.2f} of the disk")
    print(f"charge  64 threads    {grouped:8,.0f}/s   {times:.1f} times a single one")


def time_charges(folder: Path, processes: int, count: int) -> None:
    path = folder / f"{processes}.sqlite"
    begin(path).close()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(digest, ["warm up"] * processes)
        start = time.perf_counter()
        each = count // processes
        runs = pool.starmap(charge_many, [(path, who, each) for who in range(processes)])
        spans = sorted(span for run in runs for span in run)
        rate = len(spans) / (time.perf_counter() - start)
    p50, p99 = (1000 * spans[int(len(spans) * share)] for share in (0.5, 0.99))
    print(f"charge  {processes:2} processes  {rate:8,.0f}/s   p50 {p50:.1f} ms   p99 {p99:.1f} ms")


def time_verify(folder: Path, entries: int) -> None:
    path = folder / "long.sqlite"
    ledger = begin(path)
    fill(path, entries // 2)
    start = time.perf_counter()
    verified = ledger.verify()
    span = time.perf_counter() - start
    print(f"verify  {verified.entries:,} entries in {span:.2f} s   {verified.entries / span:,.0f}/s")


POPULATIONS = tuple(f"population:{number}" for number in range(8))


def time_postgres(address: str, seconds: float = 4) -> None:
    """Eight threads, one for each population, against eight connections that insert and update a row each."""
    import psycopg

    schema = f"bench_{time.time_ns()}"
    ledger = PostgresLedger.create(address, schema=schema)
    for name in POPULATIONS:
        ledger.open_account(name, Budget(4))
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"CREATE TABLE {schema}.bare (id INT PRIMARY KEY, total BIGINT)".encode())
        db.execute(f"CREATE TABLE {schema}.log (id INT, body TEXT)".encode())
        for number in range(8):
            db.execute(f"INSERT INTO {schema}.bare VALUES ({number}, 0)".encode())

    def bare(me: int, until: float) -> int:
        done = 0
        with psycopg.connect(address) as db:
            while time.perf_counter() < until:
                db.execute(f"UPDATE {schema}.bare SET total = total + 1 WHERE id = %s".encode(), (me,))
                db.execute(f"INSERT INTO {schema}.log VALUES (%s, %s)".encode(), (me, "x" * 500))
                db.commit()
                done += 1
        return done

    def ours(me: int, until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            name = f"{me}: {done}"
            ledger.charge(
                Charge((POPULATIONS[me],), COST, digest(f"{until} {name}"), {}, key=f"{until} {name}")
            )
            done += 1
        return done

    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for kind, work in (("bare", bare), ("ours", ours)) * 3:
        until = time.perf_counter() + seconds
        with ThreadPoolExecutor(8) as pool:
            rates[kind].append(sum(pool.map(work, range(8), [until] * 8)) / seconds)
    alone, charged = statistics.median(rates["bare"]), statistics.median(rates["ours"])
    print(f"PostgreSQL, 8 clients, two statements a commit  {alone:8,.0f}/s")
    print(
        f"PostgreSQL, 8 threads, a charge each            {charged:8,.0f}/s   {charged / alone:.2f} of that"
    )
    ledger.close()


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        time_disk(Path(folder))
        for processes in (1, 8, 16):
            time_charges(Path(folder), processes, 800)
        time_verify(Path(folder), entries)
    if address := os.environ.get("SFUMATO_BENCH_POSTGRES"):
        time_postgres(address)


if __name__ == "__main__":
    main()
