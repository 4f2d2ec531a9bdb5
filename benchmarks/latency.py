"""Measures what the time of a reply tells about one unit. Prints a table; asserts nothing.

python benchmarks/latency.py [pairs]

Two tables differ by one unit, which has as much in it as is admitted; a third is a copy of the one without
it. Heavy questions of ten kinds are asked of all, one after the other in random order. Within each kind
replies are ranked by their time, and the chance that the reply with the unit is the slower one of a random
pair is estimated over all kinds together: max(AUC, 1 − AUC) is how often whoever knows everything else
guesses right, and .5 is blind guessing. The interval of 99 % is a bootstrap over pairs. The two equal tables
are compared in the same way: what that shows is chance and the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.curator.hostile import slots
from sfumato.curator.hostile.host import WorkerHost
from sfumato.curator.hostile.reading import SlotReader
from sfumato.errors import SealedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.lab.session import Session

BUDGET = sf.Budget(epsilon=10**6, delta=1e-3)
UNITS, MAX_ROWS = 4000, 80
RESAMPLES = 4000
PAIRS_AT_ONCE = 4
TABLES = ("present", "absent", "copy")
COMPARED = {"one has the unit": (0, 1), "control: equal tables": (2, 1)}
LONG = "ab" * 490
COLUMNS = {
    "age": sf.between(0, 120),
    "cost": sf.between(0, 10_000),
    "ward": sf.one_of("A", "B", "C", "D"),
    "note": sf.text(),
}
TWICE = "{t} AS a JOIN {t} AS b ON a.who = b.who"
KINDS: dict[str, Callable[[Session, str, int], Any]] = {
    "join twice": lambda s, t, k: s.sql(
        f"SELECT COUNT(*) AS n FROM {TWICE.format(t=t)} WHERE a.age = 99 AND b.cost > {k}"
    ),
    "joined numbers": lambda s, t, k: s.sql(
        "SELECT SUM(a.cost * b.cost + a.age * b.age) AS n, VARIANCE(a.cost - b.cost) AS v "
        f"FROM {TWICE.format(t=t)} WHERE a.age = 99 AND b.cost > {k}"
    ),
    "bounded join": lambda s, t, k: s.sql(
        f"SELECT a.ward, SUM(b.cost) AS c FROM {TWICE.format(t=t)} "
        f"WHERE a.age = 99 AND b.cost > {k} GROUP BY a.ward"
    ).bounded(groups=2, rows=20),
    "texts": lambda s, t, k: s.sql(f"SELECT COUNT(*) AS n FROM {t} WHERE note LIKE '%a%b%a%b%{k}%'"),
    "joined texts": lambda s, t, k: s.sql(
        f"SELECT COUNT(*) AS n FROM {TWICE.format(t=t)} WHERE a.age = 99 AND b.note LIKE '%ab%{k}%'"
    ),
    "quantiles": lambda s, t, k: s.sql(
        f"SELECT ward, MEDIAN(cost) AS m FROM {t} WHERE cost > {k} GROUP BY ward"
    ),
    "people": lambda s, t, k: s.sql(
        f"SELECT ward, COUNT(DISTINCT who) AS n FROM {t} WHERE cost > {k} GROUP BY ward"
    ),
    "blocks": lambda s, t, k: s.table(t).where(f"cost > {k}").subsample(sf.median("cost"), blocks=20),
    "distance": lambda s, t, k: s.table(t).where(f"cost > {k}").distance("COUNT(*) >= 100"),
    "moments": lambda s, t, k: s.sql(
        f"SELECT ward, CORR(age, cost) AS r, VARIANCE(cost) AS v FROM {t} WHERE cost > {k} GROUP BY ward"
    ),
}


@dataclass(frozen=True)
class Timed:
    """Seconds of the replies from every table, kind by kind, and how many of each table's were answers."""

    seconds: dict[str, NDArray[np.float64]]
    answered: list[int]
    slots: dict[str, float | None]


def make_lab(folder: Path) -> sf.Lab:
    """Register all tables in one lab, so that ledger, workers and folder are the same for them."""
    rng = np.random.default_rng(3)
    who = np.concatenate([np.repeat(0, MAX_ROWS), np.sort(rng.integers(1, UNITS, 3 * UNITS))])
    mine = who == 0
    visits = pa.table(
        {
            "who": who,
            "age": np.where(mine, 99, rng.integers(0, 95, who.size)),
            "cost": np.where(mine, 9_999, rng.integers(0, 9_000, who.size)),
            "ward": np.where(mine, "D", rng.choice(["A", "B", "C"], who.size)),
            "note": [LONG if each else "seen, well" for each in mine],
        }
    )
    lab = sf.create(folder)
    unit = sf.Unit("who", max_rows=MAX_ROWS)
    others = visits.filter(pa.array(~mine))
    for name, kept in zip(TABLES, (visits, others, others), strict=True):
        lab.register(name, kept, unit=unit, columns=COLUMNS, budget=BUDGET)
        lab.set_pace(name, seconds=0.04)
    # As many places as are asked for at once, so that no reply waits for another's slot.
    host = WorkerHost(lab.folder, lab._schema, places=PAIRS_AT_ONCE)
    host.start()
    vars(lab)["_slots"] = SlotReader(host, lab.engine)
    return lab


def time_pairs(lab: sf.Lab, pairs: int, *, hostile: bool) -> Timed:
    """Ask each kind of all tables, in random order, with the kinds taking turns."""
    session = lab.session(hostile=hostile)
    kinds, first = list(KINDS), 0 if hostile else 10**6
    for kind in kinds:  # the first question of each kind opens files and is not counted
        ask_tables(session, kind, first - 1 - kinds.index(kind))
    asked = [(kinds[number % len(kinds)], first + number) for number in range(pairs)]
    # A hostile session sleeps most of the time, so several pairs are asked at once.
    with ThreadPoolExecutor(PAIRS_AT_ONCE if hostile else 1) as pool:
        found = list(pool.map(lambda each: ask_tables(session, *each), asked))
    seconds = {kind: np.array([each[0] for each in found[at :: len(kinds)]]) for at, kind in enumerate(kinds)}
    slots = {kind: ask(session, TABLES[0], 5).quote(epsilon=1).slot for kind, ask in KINDS.items()}
    return Timed(seconds, [sum(each[1][side] for each in found) for side in range(len(TABLES))], slots)


def ask_tables(session: Session, kind: str, number: int) -> tuple[list[float], list[bool]]:
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


def pooled_auc(seconds: dict[str, NDArray[np.float64]]) -> float:
    """Return the chance that the first reply of a pair is the slower one, ranked within each kind."""
    wins = total = 0.0
    for pairs in seconds.values():
        first, second = pairs[:, 0, None], pairs[None, :, 1]
        wins += float((first > second).sum() + (first == second).sum() / 2)
        total += len(pairs) ** 2
    return wins / total


def bootstrap(seconds: dict[str, NDArray[np.float64]], confidence: float) -> tuple[float, float]:
    """Return an interval for the chance, over pairs drawn again within each kind."""
    rng = np.random.default_rng(11)
    drawn = [
        pooled_auc({kind: pairs[rng.integers(0, len(pairs), len(pairs))] for kind, pairs in seconds.items()})
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def report(name: str, timed: Timed, pairs: int) -> None:
    answered = ", ".join(f"{count} {name}" for count, name in zip(timed.answered, TABLES, strict=True))
    print(f"{name}, {pairs} pairs, load {os.getloadavg()[0]:.1f}, answered: {answered}")
    for compared, sides in COMPARED.items():
        seconds = {kind: each[:, sides] for kind, each in timed.seconds.items()}
        chance = pooled_auc(seconds)
        low, high = bootstrap(seconds, 0.99)
        if chance < 0.5:
            chance, low, high = 1 - chance, 1 - high, 1 - low
        print(f"  {compared}: max(AUC, 1 - AUC) = {chance:.3f}, 99 % interval {low:.3f} to {high:.3f}")
    for kind, each in timed.seconds.items():
        middle = "".join(f"{seconds * 1000:9.1f}" for seconds in np.median(each, axis=0))
        slot = timed.slots[kind]
        late = (
            "" if slot is None else f"  slot {slot:g} s, {(each > 1.5 * slot).sum()} replies in a later one"
        )
        print(f"  {kind:<14} {middle} ms{late}")


def main() -> None:
    # On a machine that others use, a quarter of a second is too short for half of the answers.
    slots.LADDER = slots.LADDER[1:]
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        lab = make_lab(Path(folder) / "lab")
        for name, hostile in (("ordinary session", False), ("hostile session", True)):
            report(name, time_pairs(lab, pairs, hostile=hostile), pairs)
        lab.close()


if __name__ == "__main__":
    main()
