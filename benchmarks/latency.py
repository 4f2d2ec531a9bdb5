"""Measures what the time of a reply tells about one unit. Prints a table; asserts nothing.

python benchmarks/latency.py [pairs]

Two labs differ by one unit, which has as much in it as is admitted. Heavy questions of ten kinds are asked of
both, one after the other in random order. Within each kind replies are ranked by their time, and the chance
that the reply with the unit is the slower one of a random pair is estimated over all kinds together:
max(AUC, 1 − AUC) is how often whoever knows everything else guesses right, and .5 is blind guessing. The
interval of 99 % is a bootstrap over pairs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.errors import SealedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.lab.session import Session

BUDGET = sf.Budget(epsilon=10**6, delta=1e-3)
UNITS, MAX_ROWS = 4000, 80
RESAMPLES = 4000
LONG = "ab" * 490
COLUMNS = {
    "age": sf.between(0, 120),
    "cost": sf.between(0, 10_000),
    "ward": sf.one_of("A", "B", "C", "D"),
    "note": sf.text(),
}
TWICE = "visits AS a JOIN visits AS b ON a.who = b.who"
KINDS: dict[str, Callable[[Session, int], Any]] = {
    "join twice": lambda s, k: s.sql(f"SELECT COUNT(*) AS n FROM {TWICE} WHERE a.age = 99 AND b.cost > {k}"),
    "joined numbers": lambda s, k: s.sql(
        "SELECT SUM(a.cost * b.cost + a.age * b.age) AS n, VARIANCE(a.cost - b.cost) AS v "
        f"FROM {TWICE} WHERE a.age = 99 AND b.cost > {k}"
    ),
    "bounded join": lambda s, k: s.sql(
        f"SELECT a.ward, SUM(b.cost) AS c FROM {TWICE} WHERE a.age = 99 AND b.cost > {k} GROUP BY a.ward"
    ).bounded(groups=2, rows=20),
    "texts": lambda s, k: s.sql(f"SELECT COUNT(*) AS n FROM visits WHERE note LIKE '%a%b%a%b%{k}%'"),
    "joined texts": lambda s, k: s.sql(
        f"SELECT COUNT(*) AS n FROM {TWICE} WHERE a.age = 99 AND b.note LIKE '%ab%{k}%'"
    ),
    "quantiles": lambda s, k: s.sql(
        f"SELECT ward, MEDIAN(cost) AS m FROM visits WHERE cost > {k} GROUP BY ward"
    ),
    "people": lambda s, k: s.sql(
        f"SELECT ward, COUNT(DISTINCT who) AS n FROM visits WHERE cost > {k} GROUP BY ward"
    ),
    "blocks": lambda s, k: s.table("visits").where(f"cost > {k}").subsample(sf.median("cost"), blocks=20),
    "distance": lambda s, k: s.table("visits").where(f"cost > {k}").distance("COUNT(*) >= 100"),
    "moments": lambda s, k: s.sql(
        f"SELECT ward, CORR(age, cost) AS r, VARIANCE(cost) AS v FROM visits WHERE cost > {k} GROUP BY ward"
    ),
}


@dataclass(frozen=True)
class Timed:
    """Seconds of both replies of every pair, kind by kind, and how many replies were answers."""

    seconds: dict[str, NDArray[np.float64]]
    answered: int
    slots: dict[str, float | None]


def make_lab(folder: Path, *, target: bool) -> sf.Lab:
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
    kept = visits if target else visits.filter(pa.array(~mine))
    lab = sf.create(folder)
    lab.register("visits", kept, unit=sf.Unit("who", max_rows=MAX_ROWS), columns=COLUMNS, budget=BUDGET)
    lab.set_pace("visits", seconds=0.008)
    return lab


def time_pairs(labs: Sequence[sf.Lab], pairs: int, *, hostile: bool) -> Timed:
    """Ask each kind of both labs, in random order within the pair, with the kinds taking turns."""
    sessions = [lab.session(hostile=hostile) for lab in labs]
    rng, answered = np.random.default_rng(7), 0
    seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    first = 0 if hostile else 10**6
    for number in range(-len(KINDS), pairs):  # the first round of all kinds is not counted
        kind = list(KINDS)[number % len(KINDS)]
        took = [0.0, 0.0]
        for side in rng.permutation(2):
            question = KINDS[kind](sessions[side], 10 + (first + number) % 7919)
            began = time.perf_counter()
            answered += _is_answered(question, number + first)
            took[side] = time.perf_counter() - began
        if number >= 0:
            seconds[kind].append((took[0], took[1]))
    slots = {kind: ask(sessions[0], 5).quote(epsilon=1).slot for kind, ask in KINDS.items()}
    return Timed({kind: np.array(each) for kind, each in seconds.items()}, answered, slots)


def _is_answered(question: Any, number: int) -> bool:
    try:
        # Each price differs a little, so no answer is one that was kept.
        question.release(epsilon=1 + (number + 100) / 10**8)
    except SealedError:
        return False
    return True


def pooled_auc(seconds: dict[str, NDArray[np.float64]]) -> float:
    """Return the chance that the reply with the unit is the slower one, ranked within each kind."""
    wins = total = 0.0
    for pairs in seconds.values():
        with_unit, without = pairs[:, 0, None], pairs[None, :, 1]
        wins += float((with_unit > without).sum() + (with_unit == without).sum() / 2)
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
    chance = pooled_auc(timed.seconds)
    low, high = bootstrap(timed.seconds, 0.99)
    if chance < 0.5:
        chance, low, high = 1 - chance, 1 - high, 1 - low
    asked = 2 * (pairs + len(KINDS))
    print(f"{name}: max(AUC, 1 - AUC) = {chance:.3f}, 99 % interval {low:.3f} to {high:.3f}, ", end="")
    print(f"{pairs} pairs, {timed.answered} of {asked} answered")
    for kind, each in timed.seconds.items():
        with_unit, without = np.median(each, axis=0) * 1000
        slot = "" if timed.slots[kind] is None else f"slot {timed.slots[kind]:g} s"
        print(f"  {kind:<14} {with_unit:8.1f} ms with, {without:8.1f} ms without  {slot}")


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        labs = (
            make_lab(Path(folder) / "with", target=True),
            make_lab(Path(folder) / "without", target=False),
        )
        for name, hostile in (("ordinary session", False), ("hostile session", True)):
            report(name, time_pairs(labs, pairs, hostile=hostile), pairs)
        for lab in labs:
            lab.close()


if __name__ == "__main__":
    main()
