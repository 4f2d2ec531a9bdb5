"""How fast the SQLite ledger charges, and verifies 10^5 entries. Prints a table; asserts nothing.

python benchmarks/ledger.py [entries]
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from sfumato.ledger import Account, Charge, Charged, SqliteLedger, tables
from sfumato.ledger.commitment import commitment, fresh_nonce
from sfumato.ledger.database import Database
from sfumato.ledger.entry import digest
from sfumato.ledger.files import identity
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


def must(account: Account | None) -> Account:
    assert account is not None
    return account


def fill(path: Path, pairs: int) -> None:
    """Charges and releases in one commit, through the same writers as single ones."""
    database = Database(str(path), 1, identity(str(path)))
    with database.writing() as db:
        for number in range(pairs):
            charge = question(f"filled {number}")
            paid = {name: must(must(tables.load(db, name)).after(COST)) for name in ACCOUNTS}
            entry = tables.append(db, "charge", charge.fields())
            tables.add_charge(db, entry, charge, paid)
            nonce = fresh_nonce()
            fields = {"charge": entry.seq, "commitment": commitment(nonce, "[1,2,3]")}
            released = tables.append(db, "release", fields)
            charged = Charged(entry.seq, entry.hash, charge.cost, charge.request)
            tables.add_answer(db, released, charged, nonce, "[1,2,3]")
        db.execute("COMMIT")
    database.close()


def charge_many(path: Path, who: int, count: int) -> list[float]:
    ledger = SqliteLedger.open(path)
    spans = []
    for number in range(count):
        start = time.perf_counter()
        ledger.charge(question(f"{who}: {number}"))
        spans.append(time.perf_counter() - start)
    return spans


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


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        for processes in (1, 8, 16):
            time_charges(Path(folder), processes, 1600)
        time_verify(Path(folder), entries)


if __name__ == "__main__":
    main()
