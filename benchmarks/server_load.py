"""Loads a server on a loopback port, and checks its ledger against what every client was told.

python benchmarks/server_load.py [--clients 50] [--seconds 60] [--workers 4] [--pace 0.25] [--no-kills]

Clients are sessions of `sf.connect`, each of an analyst of its own, who thinks for a second between requests:
quotes, new questions, and questions that were answered before. Beside every quote the same client asks a bare
FastAPI handler that counts rows in DuckDB, with as many processes. Then the same again while one server
process is killed by SIGKILL every five seconds, and clients send what was lost again.

What must hold is asserted: no answer but the right one or the constant sentences, no key charged twice, and
totals of every account to the last unit. Times depend on the machine, and are printed with its load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.lab.remote.connection import Connection
from sfumato.server.people import PeopleStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, UNITS = 20_000, 5_000
EPSILON = Fraction(1, 1000)
THINK = 1.0
KILLS = 5.0
SHARES = (("quote", 0.70), ("release", 0.05), ("replay", 0.25))
SAID = {
    "SF-X901": "charged, not answered",
    "SF-L107": "charged, not answered yet",
}
"""Constant sentences after a charge. Without kills there must be none."""
BARE = """
import duckdb
from fastapi import FastAPI

app = FastAPI()
lab = duckdb.connect()
lab.execute("CREATE TABLE visits AS SELECT * FROM read_parquet('{rows}')")


@app.get("/count")
def count(least: int) -> dict:
    asked = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE cost >= ? GROUP BY ward"
    return {{"rows": lab.cursor().execute(asked, [least]).fetchall()}}
"""


@dataclass
class Seen:
    """What one client did and was told."""

    quotes: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    answered: dict[str, Any] = field(default_factory=dict)
    """Answers by the key they were asked under."""
    said: dict[str, str] = field(default_factory=dict)
    """Codes of the constant sentences, by key."""
    replays: int = 0
    wrong: list[str] = field(default_factory=list)


def make_rows() -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "patient_id": rng.integers(0, UNITS, ROWS),
            "cost": rng.integers(0, 5_000, ROWS),
            "ward": rng.choice(["A", "B", "C"], ROWS),
        }
    )


def make_lab(folder: Path, clients: int, pace: float) -> tuple[sf.Lab, list[str]]:
    """Return a lab and a token for each client."""
    lab = sf.create(folder)
    columns = {"cost": sf.between(0, 5_000, step=1), "ward": sf.one_of("A", "B", "C")}
    unit = sf.Unit("patient_id", max_rows=20)
    lab.register("visits", make_rows(), unit=unit, columns=columns, budget=sf.Budget(epsilon=10**6))
    lab.set_pace("visits", seconds=pace)
    people = PeopleStore(folder / "people.sqlite")
    names = [f"client{number}" for number in range(clients)]
    for name in names:
        lab.grant(name, epsilon=1000)
        people.add_person(name, "analyst")
    tokens = [people.make_token(name) for name in names]
    people.close()
    return lab, tokens


# ---- servers -----------------------------------------------------------------------------------------------


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(command: list[str], url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a server's process once it answers."""
    with (folder / "server.log").open("ab") as log:
        paths = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
        environment = {**os.environ, "PYTHONPATH": paths}
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
        )
    try:
        until = time.monotonic() + 120
        while not answers(url):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((folder / "server.log").read_text()[-3000:])
            time.sleep(0.2)
        yield process
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a server that was started here, with its processes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url: str) -> bool:
    try:
        return Connection.open(url, "none", patience=0, timeout=5).get("/healthz").status == 200
    except SfumatoError as problem:
        return problem.code != "SF-W160"


def list_workers(server: int) -> list[int]:
    """Return the processes of a server that handle requests: those that it spawned from its own program."""
    found = []
    for each in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        try:
            command = Path(f"/proc/{each}/cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        found += [int(each)] if "spawn_main" in command else []
    return found


# ---- clients -----------------------------------------------------------------------------------------------


def run_client(number: int, url: str, bare_url: str, token: str, until: float, phase: str) -> Seen:
    seen, chance = Seen(), random.Random(f"{phase} {number}")
    session = sf.connect(url, token, patience=60)
    bare = Connection.open(bare_url, "none", patience=0)
    time.sleep(chance.random() * THINK)
    made = 0
    while time.monotonic() < until:
        kind = chance.choices([name for name, _ in SHARES], [share for _, share in SHARES])[0]
        if kind == "replay" and not seen.answered:
            kind = "quote"
        try:
            if kind == "quote":
                time_quote(session, bare, chance.randrange(5_000), seen)
            elif kind == "release":
                made += 1
                release_new(session, f"{phase} {number} {made}", 100 * number + made, seen)
            else:
                release_again(session, chance.choice(list(seen.answered)), seen)
        except SfumatoError as problem:
            seen.wrong.append(f"{kind}: {problem}")
        time.sleep(THINK * chance.uniform(0.5, 1.5))
    return seen


def question(session: Any, least: int) -> Any:
    return session.sql(
        f"SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE cost >= {least} GROUP BY ward"
    )


def time_quote(session: Any, bare: Connection, least: int, seen: Seen) -> None:
    began = time.perf_counter()
    question(session, least).quote(epsilon=EPSILON)
    between = time.perf_counter()
    bare.get("/count", least=least)
    seen.quotes.append(between - began)
    seen.bare.append(time.perf_counter() - between)


def release_new(session: Any, key: str, least: int, seen: Seen) -> None:
    """Ask something that nobody asked: an ε of its own makes each a new question."""
    try:
        seen.answered[key] = (least, question(session, least).release(epsilon=EPSILON, key=key))
    except SfumatoError as problem:
        if problem.code not in SAID:
            raise
        seen.said[key] = problem.code


def release_again(session: Any, key: str, seen: Seen) -> None:
    least, first = seen.answered[key]
    again = question(session, least).release(epsilon=EPSILON, key=key)
    seen.replays += 1
    if again.to_arrow() != first.to_arrow() or not again.receipt.replayed:
        seen.wrong.append(f"a replay of {key} differs")


def run_phase(
    phase: str, arguments: Any, urls: tuple[str, str], tokens: list[str], server: int
) -> list[Seen]:
    """Let all clients ask for so many seconds; kill a server process now and then, if that is the phase."""
    until = time.monotonic() + arguments.seconds
    seen: list[Any] = [None] * len(tokens)

    def client(number: int) -> None:
        try:
            seen[number] = run_client(number, *urls, tokens[number], until, phase)
        except Exception as problem:  # shown with the others
            seen[number] = Seen(wrong=[repr(problem)])

    threads = [threading.Thread(target=client, args=(each,)) for each in range(len(tokens))]
    for each in threads:
        each.start()
    kills = 0
    while phase == "kills" and time.monotonic() + KILLS < until:
        time.sleep(KILLS)
        workers = list_workers(server)
        if workers:
            os.kill(random.choice(workers), signal.SIGKILL)
            kills += 1
    for each in threads:
        each.join()
    if phase == "kills":
        print(f"killed {kills} server processes")
    return seen


# ---- what must hold ----------------------------------------------------------------------------------------


def check_ledger(lab: sf.Lab, seen: list[Seen], strict: bool) -> Counter[str]:
    """Assert that the ledger says what the clients were told, and return the counts."""
    wrong = [each for client in seen for each in client.wrong]
    assert not wrong, "\n".join(wrong[:5])
    answered = {key: each for client in seen for key, each in client.answered.items()}
    said = {key: code for client in seen for key, code in client.said.items()}
    charges: Counter[str] = Counter()
    payers: Counter[str] = Counter()
    for entry in lab.ledger.read_entries():
        if entry.kind == "charge":
            body = json.loads(entry.body)
            charges[body["key"]] += 1
            payers.update(body["accounts"])
    asked = answered.keys() | said.keys()
    assert set(charges) >= set(answered), "an answer without a charge"
    assert {key for key in charges if key in asked} | (set(charges) - asked) == set(charges)
    assert not [key for key, count in charges.items() if count > 1], "a key was charged twice"
    if strict:
        assert not said, said
        assert set(charges) == set(answered), (len(charges), len(answered))
    each = int(EPSILON * 10**12)
    for account, count in payers.items():
        spent = lab.ledger.read_spent(account).pure
        assert spent == count * each, (account, spent, count)
    verified = lab.verify()
    assert verified.charges == sum(charges.values())
    assert verified.releases >= len(answered)
    return Counter(
        answered=len(answered),
        charged=len(charges),
        replays=sum(client.replays for client in seen),
        quotes=sum(len(client.quotes) for client in seen),
        **{SAID[code]: count for code, count in Counter(said.values()).items()},
    )


def show_times(seen: list[Seen]) -> None:
    quotes, bare = (
        sorted(each for client in seen for each in getattr(client, name)) for name in ("quotes", "bare")
    )
    for name, times in (("quote", quotes), ("bare handler", bare)):
        p50, p95 = statistics.median(times), times[int(0.95 * len(times))]
        print(f"  {name:<13} p50 {1000 * p50:6.1f} ms   p95 {1000 * p95:6.1f} ms   of {len(times)}")
    ratio = statistics.median(quotes) / statistics.median(bare)
    print(f"  ratio of medians {ratio:.2f}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pace", type=float, default=0.25, help="1 where others use the machine too")
    parser.add_argument("--no-kills", action="store_true")
    arguments = parser.parse_args()
    program = [sys.executable, "-W", "ignore", "-c", "from sfumato.cli.main import main; main()"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parquet.write_table(make_rows(), folder / "visits.parquet")
        (folder / "bare.py").write_text(BARE.format(rows=folder / "visits.parquet"))
        ports = find_port(), find_port()
        url, bare_url = (f"http://127.0.0.1:{port}" for port in ports)
        bare = [sys.executable, "-m", "uvicorn", "bare:app", "--port", str(ports[1]), "--log-level", "error"]
        bare += ["--workers", str(arguments.workers)]
        for phase in ("steady",) if arguments.no_kills else ("steady", "kills"):
            lab, tokens = make_lab(folder / phase, arguments.clients, arguments.pace)
            serve = [*program, "serve", str(lab.folder), "--port", str(ports[0])]
            serve += ["--workers", str(arguments.workers)]
            with running(bare, bare_url, folder), running(serve, url, folder) as server:
                seen = run_phase(phase, arguments, (url, bare_url), tokens, server.pid)
            print(f"{phase}:")
            show_times(seen)
            counts = check_ledger(lab, seen, strict=phase == "steady")
            print("  " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
            lab.close()


if __name__ == "__main__":
    main()
