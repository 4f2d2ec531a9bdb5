"""Measures what the time of a reply over HTTP tells about one unit. Prints a table; asserts nothing.

python benchmarks/server_latency.py [pairs]

The tables, the questions and the estimate are those of benchmarks/latency.py: two tables differ by one unit
with as much in it as is admitted, a third is a copy of the one without it, and max(AUC, 1 − AUC) is how often
whoever knows everything else guesses right by the time of the reply; .5 is blind guessing. Here `sfumato
serve` answers on a loopback port, and the time is that between a client's request and the end of the answer.
As there, slots are of a second at least. With 360 pairs it takes about five minutes. The interval is about
1.05 / √pairs wide to each side: ± .055 with 360 pairs, ± .03 with 1,230, which take a quarter of an hour.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import latency
import sfumato as sf
from latency import KINDS, TABLES, Timed
from server_load import find_port, running
from sfumato.errors import SealedError
from sfumato.server.people import PeopleStore

AT_ONCE = 4
# On a machine that others use, a quarter of a second is too short for half of the answers. As many places as
# are asked for at once, so that no reply waits for another's slot.
PROGRAM = f"""
import os
from sfumato.cli.main import main
from sfumato.curator.hostile import slots

slots.LADDER = slots.LADDER[1:]
os.cpu_count = lambda: {AT_ONCE}
main()
"""


def make_served_lab(folder: Path) -> str:
    """Register the tables, and return a token of a steward, who pays from the budget alone."""
    lab = latency.make_lab(folder)
    lab.close()
    people = PeopleStore(folder / "people.sqlite")
    people.add_person("grace", "steward")
    token = people.make_token("grace")
    people.close()
    return token


def ask_tables(session: Any, kind: str, number: int) -> tuple[list[float], list[bool]]:
    """Return the seconds of the replies from every table, and which of them were answers."""
    took, answered = [0.0] * len(TABLES), [False] * len(TABLES)
    for side in np.random.default_rng(number + 100).permutation(len(TABLES)):
        question = KINDS[kind](session, TABLES[side], 10 + number % 7919)
        began = time.perf_counter()
        with suppress(SealedError):
            # Each price differs a little, so no answer is one that was kept.
            question.release(epsilon=1 + (number + 100) / 10**8)
            answered[side] = True
        took[side] = time.perf_counter() - began
    return took, answered


def time_pairs(session: Any, pairs: int) -> Timed:
    """Ask each kind of all tables, in random order, with the kinds taking turns."""
    kinds = list(KINDS)
    # The first question of each kind opens files, and is not counted.
    asked = [(kind, -1 - at) for at, kind in enumerate(kinds)]
    asked += [(kinds[number % len(kinds)], number) for number in range(pairs)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda each: ask_tables(session, *each), asked))[len(kinds) :]
    seconds = {kind: np.array([each[0] for each in found[at :: len(kinds)]]) for at, kind in enumerate(kinds)}
    slots = {kind: ask(session, TABLES[0], 5).quote(epsilon=1).slot for kind, ask in KINDS.items()}
    return Timed(seconds, [sum(each[1][side] for each in found) for side in range(len(TABLES))], slots)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 360
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), find_port()
        token, url = make_served_lab(folder / "lab"), f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PROGRAM,
            "serve",
            str(folder / "lab"),
            "--port",
            str(port),
        ]
        with running(command, url, folder):
            began = time.monotonic()
            timed = time_pairs(sf.connect(url, token), pairs)
            print(f"{time.monotonic() - began:.0f} s on {os.cpu_count()} processors")
        latency.report("over HTTP", timed, pairs)


if __name__ == "__main__":
    main()
