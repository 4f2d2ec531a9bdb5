"""Measures how fast the SQLite ledger charges, and verifies 10^5 entries. Prints a table; asserts nothing.

python benchmarks/ledger.py [entries]

The folder for temporary files should be on a disk, since in memory there is nothing to wait for. If
SFUMATO_BENCH_POSTGRES names a database, the ledger in PostgreSQL is measured too, in a new schema that stays.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.ledger import Charge, Charged, PostgresLedger, SqliteLedger, tables
from sfumato.ledger.chain import hash_text
from sfumato.ledger.receipts.commitment import commit_to_answer, draw_nonce
from sfumato.ledger.sqlite.database import SqliteDatabase
from sfumato.ledger.sqlite.files import identify_file
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Budget, Pure, price

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ACCOUNTS = ("population:patient_id", "quota:patient_id:ada")
COST = price(Pure(Fraction(1, 10**9)))


def question(name: str) -> Charge:
    about = {"table": "visits", "analyst": "ada", "event": {"event": "pure", "epsilon": "1/1000000000"}}
    return Charge(ACCOUNTS, COST, hash_text(name), about, key=name)


def begin(path: Path) -> SqliteLedger:
    ledger = SqliteLedger.create(path)
    ledger.open_account(ACCOUNTS[0], Budget(4, 1e-7))
    ledger.grant(ACCOUNTS[1], Budget(1, 1e-8))
    return ledger


def fill(path: Path, pairs: int) -> None:
    """Write many charges and releases in one commit, with the code that writes single ones."""
    database = SqliteDatabase(str(path), 1, identify_file(str(path)))

    def write(db: Any) -> None:
        transaction = Transaction(database.begin(db, lambda: tables.check_tables(db)))
        for number in range(pairs):
            answer_one(transaction, question(f"filled {number}"))
        database.commit(db, transaction, lambda: None)

    database.write(write)
    database.close()


def answer_one(transaction: Transaction, charge: Charge) -> None:
    charged = transaction.charge(charge)
    assert isinstance(charged, Charged)
    nonce = draw_nonce()
    transaction.release(charged, commit_to_answer(nonce, "[1,2,3]"), nonce, "[1,2,3]")


def charge_many(path: Path, who: int, count: int) -> list[float]:
    ledger = SqliteLedger.open(path)
    spans = []
    for number in range(count):
        start = time.perf_counter()
        ledger.charge(question(f"{who}: {number}"))
        spans.append(time.perf_counter() - start)
    return spans


def raw_rate(folder: Path, count: int) -> float:
    """Return how often a second the disk can append one page and sync it."""
    file, page = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.urandom(4096)
    start = time.perf_counter()
    for _ in range(count):
        os.write(file, page)
        os.fsync(file)
    rate = count / (time.perf_counter() - start)
    os.close(file)
    return rate


def rewriting_rate(folder: Path, count: int) -> float:
    """Return how often a second the disk can overwrite one page and sync it, as SQLite does in an old log."""
    file, page = os.open(folder / "old", os.O_WRONLY | os.O_CREAT), os.urandom(4096)
    os.pwrite(file, bytes(4096 * count), 0)
    os.fsync(file)
    start = time.perf_counter()
    for number in range(count):
        os.pwrite(file, page, 4096 * number)
        os.fdatasync(file)
    rate = count / (time.perf_counter() - start)
    os.close(file)
    return rate


def single_rate(ledger: SqliteLedger, count: int) -> float:
    me = time.time_ns()
    asked = [question(f"{me}: {number}") for number in range(count)]
    start = time.perf_counter()
    for charge in asked:
        ledger.charge(charge)
    return count / (time.perf_counter() - start)


def grouped_rate(ledger: SqliteLedger, threads: int, each: int) -> float:
    """Return the charges per second of several threads on one ledger."""
    me = time.time_ns()
    asked = [[question(f"{me}: {thread}: {number}") for number in range(each)] for thread in range(threads)]

    def work(mine: list[Charge]) -> None:
        for charge in mine:
            ledger.charge(charge)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, asked))
    return threads * each / (time.perf_counter() - start)


def time_disk(folder: Path, rounds: int = 15) -> None:
    """Measure the disk alone, single charges and grouped ones in alternation, since other load varies.

    The ledger stays open, as a server's does. So this is its steady state, in which SQLite overwrites an old
    log and copies it into the main file at times, and not a log that grows from nothing.
    """
    ledger = begin(folder / "disk.sqlite")
    single_rate(ledger, 1000)
    runs = [
        (
            rewriting_rate(folder, 100),
            raw_rate(folder, 100),
            single_rate(ledger, 100),
            grouped_rate(ledger, 64, 16),
        )
        for _ in range(rounds)
    ]
    rewriting, raw, single, grouped = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"fdatasync over a page {rewriting:8,.0f}/s")
    print(f"fsync   of one page   {raw:8,.0f}/s")
    print(f"charge   1 thread     {single:8,.0f}/s   {ratio(run[1:3] for run in runs)} of the disk")
    print(f"charge  64 threads    {grouped:8,.0f}/s   {ratio(run[2:] for run in runs)} times a single one")


def ratio(pairs: Iterable[tuple[float, ...]]) -> str:
    """Return the ratio of the second to the first in each round: the median, the least and the largest."""
    found = sorted(second / first for first, second in pairs)
    return f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})"


def time_charges(folder: Path, processes: int, count: int) -> None:
    path = folder / f"{processes}.sqlite"
    begin(path).close()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(hash_text, ["warm up"] * processes)
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
    spans = []
    for _ in range(3):
        start, used = time.perf_counter(), time.process_time()
        verified = ledger.verify()
        spans.append((time.perf_counter() - start, time.process_time() - used))
    wall, processor = min(spans)
    print(f"verify  {verified.entries:,} entries in {wall:.2f} s   {processor:.2f} s of processor time")


@dataclass(frozen=True)
class OneFile:
    """Compares charges in a file with as many connections that insert one row of the same size and commit."""

    folder: Path

    def prepare(self) -> SqliteLedger:
        with closing(sqlite3.connect(self.folder / "bare.sqlite")) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, kind, body, prev, hash)")
        return begin(self.folder / "ours.sqlite")

    def bare(self, me: int, begin: float, end: float) -> int:
        row = ("charge", "x" * 700, "0" * 64, "1" * 64)
        with closing(sqlite3.connect(self.folder / "bare.sqlite", 60, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = FULL")
            insert = "INSERT INTO bare (kind, body, prev, hash) VALUES (?, ?, ?, ?)"
            return repeated(lambda _: db.execute(insert, row), begin, end)

    def ours(self, ledger: SqliteLedger, me: int, begin: float, end: float) -> int:
        return repeated(lambda name: ledger.charge(question(f"{me} {end} {name}")), begin, end)

    def alone(self, me: int, begin: float, end: float) -> int:
        """Charge in a process of its own, which has opened the ledger before."""
        return self.ours(opened_file(self.folder / "ours.sqlite"), me, begin, end)


@cache
def opened_file(path: Path) -> SqliteLedger:
    return SqliteLedger.open(path)


def time_file(folder: Path, rounds: int = 5) -> None:
    file = OneFile(folder)
    with closing(file.prepare()) as ledger:
        for count in (1, 8, 32):
            with ThreadPoolExecutor(count) as threads:
                works = (file.bare, partial(file.ours, ledger))
                runs = [tuple(rate(threads.map, work, count) for work in works) for _ in range(rounds)]
            report_file(f"{count:2} threads", runs)
    for count in (8, 32):
        with multiprocessing.get_context("spawn").Pool(count) as pool:

            def run(work: Callable[..., int], *given: Iterable[Any], pool: Any = pool) -> Iterable[int]:
                done: Iterable[int] = pool.starmap(work, zip(*given, strict=False), 1)
                return done

            rate(run, file.alone, count)  # opens it
            works = (file.bare, file.alone)
            runs = [tuple(rate(run, work, count) for work in works) for _ in range(rounds)]
        report_file(f"{count:2} processes", runs)


def report_file(what: str, runs: list[tuple[float, ...]]) -> None:
    bare, ours = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"SQLite, {what:12}  insert and commit {bare:8,.0f}/s")
    print(f"SQLite, {what:12}  a charge each     {ours:8,.0f}/s   {ratio(runs)} of that")


def time_open(folder: Path, entries: int) -> None:
    """Open a long ledger in this process, with the checkpoint that was made when it was closed."""
    path = folder / "opened.sqlite"
    begin(path).close()
    fill(path, entries // 2)
    with closing(SqliteLedger.open(path)) as ledger:
        ledger.charge(question("so that the mark begins anew"))
        ledger.charge(question("after that"))
    spans = []
    for _ in range(5):
        start, used = time.perf_counter(), time.process_time()
        with closing(SqliteLedger.open(path)):
            spans.append((time.perf_counter() - start, time.process_time() - used))
    wall, processor = min(spans)
    print(f"open    {entries:,} entries in {wall:.2f} s   {processor:.2f} s of processor time")


POPULATIONS = tuple(f"population:{number}" for number in range(32))


@dataclass(frozen=True)
class Server:
    """Compares charges to many populations with as many connections that update one row and insert one."""

    address: str
    schema: str

    def prepare(self) -> PostgresLedger:
        import psycopg

        ledger = PostgresLedger.create(self.address, schema=self.schema)
        for name in POPULATIONS:
            ledger.open_account(name, Budget(4))
        with psycopg.connect(self.address, autocommit=True) as db:
            db.execute(f"CREATE TABLE totals_{self.schema} (id INT PRIMARY KEY, total BIGINT)".encode())
            db.execute(f"CREATE TABLE log_{self.schema} (id INT, body TEXT)".encode())
            for number in range(len(POPULATIONS)):
                db.execute(f"INSERT INTO totals_{self.schema} VALUES ({number}, 0)".encode())
        return ledger

    def bare(self, me: int, begin: float, end: float) -> int:
        import psycopg

        update = f"UPDATE totals_{self.schema} SET total = total + 1 WHERE id = %s".encode()
        insert = f"INSERT INTO log_{self.schema} VALUES (%s, %s)".encode()
        with psycopg.connect(self.address) as db:

            def once(_: str) -> None:
                db.execute(update, (me,))
                db.execute(insert, (me, "x" * 500))
                db.commit()

            return repeated(once, begin, end)

    def ours(self, ledger: PostgresLedger, me: int, begin: float, end: float) -> int:
        def once(name: str) -> None:
            name = f"{me} {end} {name}"
            ledger.charge(Charge((POPULATIONS[me],), COST, hash_text(name), {}, key=name))

        return repeated(once, begin, end)

    def alone(self, me: int, begin: float, end: float) -> int:
        """Charge in a process of its own, which has opened the ledger before."""
        return self.ours(opened(self.address, self.schema), me, begin, end)


@cache
def opened(address: str, schema: str) -> PostgresLedger:
    return PostgresLedger.open(address, schema=schema)


def repeated(work: Callable[[str], None], begin: float, end: float) -> int:
    done = 0
    time.sleep(max(0.0, begin - time.time()))
    while time.time() < end:
        work(str(done))
        done += 1
    return done


def time_postgres(address: str, rounds: int = 5) -> None:
    server = Server(address, f"bench_{time.time_ns()}")
    ledger = server.prepare()
    with ThreadPoolExecutor(8) as threads:
        works = (server.bare, partial(server.ours, ledger))
        report("threads", [tuple(rate(threads.map, work) for work in works) for _ in range(rounds)])
    ledger.close()
    for processes in (8, 32):
        time_processes(address, processes, rounds)


def time_processes(address: str, processes: int, rounds: int) -> None:
    server = Server(address, f"bench_{time.time_ns()}")
    server.prepare().close()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:

        def run(work: Callable[..., int], *given: Iterable[Any]) -> Iterable[int]:
            return pool.starmap(work, zip(*given, strict=False), 1)

        rate(run, server.alone, processes)  # opens it
        works = server.bare, server.alone
        runs = [tuple(rate(run, work, processes) for work in works) for _ in range(rounds)]
        report("processes", runs, processes)


def rate(
    run: Callable[..., Iterable[int]], work: Callable[..., int], workers: int = 8, seconds: float = 2
) -> float:
    begin = time.time() + 0.5
    return sum(run(work, range(workers), [begin] * workers, [begin + seconds] * workers)) / seconds


def report(what: str, runs: list[tuple[float, ...]], workers: int = 8) -> None:
    bare, ours = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"PostgreSQL, {workers:2} {what:9}  two statements a commit {bare:8,.0f}/s")
    print(f"PostgreSQL, {workers:2} {what:9}  a charge each           {ours:8,.0f}/s   {ratio(runs)} of that")


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        time_disk(Path(folder))
        for processes in (1, 8, 16):
            time_charges(Path(folder), processes, 800)
        time_file(Path(folder))
        time_verify(Path(folder), entries)
        time_open(Path(folder), entries)
    if address := os.environ.get("SFUMATO_BENCH_POSTGRES"):
        time_postgres(address)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
