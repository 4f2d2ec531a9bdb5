"""Reconstruction: enough counts of subsets give back everybody's bit, unless their noise is priced together.

Dinur and Nissim (*Revealing information while preserving privacy*, 2003): answers to enough random subsets,
each off by less than about the square root of the number of people, determine nearly all bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import noise
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.real_lab import ask_worlds, list_values, open_lab, split_spend
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import between
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats

    Ints = NDArray[np.int64]

_SUMS_AT_ONCE = 40
"""Counts in one question to the lab."""


def reconstruction(
    *,
    people: int = 100,
    subsets: int = 400,
    trials: int = 20,
    epsilon: float = 1.0,
    off: int = 2,
    seed: int = 0,
) -> AttackReport:
    """Find everybody's bit from counts of random subsets, by least squares and by linear programming.

    Each trial is a table of its own. Counts are exact, off by up to `off` either way, given Laplace noise for
    ε each without a ledger, or asked of a lab for ε together. One noisy cell for each person, which costs
    ε as well because nobody is in two cells, is the best that can be asked for, and reaches the ceiling.
    """
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (trials, people))
    chosen = rng.integers(0, 2, (subsets, people))
    counts = bits @ chosen.T
    shaken = counts + rng.integers(-off, off + 1, counts.shape)
    cells, sums = _ask_lab(bits, chosen, epsilon)
    ceiling, few = guess_ceiling(epsilon), max(1, trials // 10)

    def score(name: str, guessed: Ints, top: float | None = None) -> Outcome:
        return Outcome(name, int(np.sum(guessed == bits[: len(guessed)])), guessed.size, top)

    return AttackReport(
        "reconstruction",
        f"The bits of all {people} people, from {subsets} counts of random subsets.",
        "bits right",
        0.5,
        (
            score("exact counts", solve_bits(chosen, counts)),
            score(f"counts off by up to ±{off}", solve_bits(chosen, shaken)),
            score("the same, by linear programming", solve_bits(chosen, shaken[:few], method="lp")),
            score(
                f"Laplace noise for ε = {format_number(epsilon)} each, no ledger",
                solve_bits(chosen, noise.laplace(counts, epsilon=epsilon)),
            ),
            score(f"sfumato, total ε = {format_number(epsilon)}", solve_bits(chosen, sums), ceiling),
            score(
                f"sfumato, one cell each, ε = {format_number(epsilon)}",
                (cells > 0.5).astype(np.int64),
                ceiling,
            ),
        ),
    )


def solve_bits(chosen: Any, counts: Any, *, method: str = "least-squares") -> Ints:
    """Return the bits that fit counts of subsets best; each row of `counts` is a table of its own.

    `chosen` has a row for each subset, with a 1 for everyone in it. The method is "least-squares", or "lp",
    which makes the sum of absolute errors smallest with bits between 0 and 1.
    """
    inside, answers = np.asarray(chosen, dtype=float), np.atleast_2d(np.asarray(counts, dtype=float))
    if inside.ndim != 2 or answers.shape[1] != len(inside):
        raise UsageError(
            "SF-E176",
            "There must be one count for each subset.",
            subsets=str(len(inside)),
            counts=str(answers.shape[1]),
        )
    if method not in _METHODS:
        raise UsageError(
            "SF-E187", "This is no method of reconstruction.", got=repr(method), known=", ".join(_METHODS)
        )
    return np.asarray(_METHODS[method](inside, answers) > 0.5, dtype=np.int64)


def _least_squares(inside: Floats, answers: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(inside, answers.T, rcond=None)[0].T)


def _linear_program(inside: Floats, answers: Floats) -> Floats:
    """Minimise the sum of t with −t ≤ Ax − a ≤ t, for each table in turn."""
    from scipy.optimize import linprog

    subsets, people = inside.shape
    slack = np.eye(subsets)
    above = np.block([[inside, -slack], [-inside, -slack]])
    cost = np.concatenate([np.zeros(people), np.ones(subsets)])
    bounds = [(0, 1)] * people + [(0, None)] * subsets
    found = [linprog(cost, above, np.concatenate([one, -one]), bounds=bounds).x for one in answers]
    return np.array(found, dtype=float)[:, :people]


_METHODS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "least-squares": _least_squares,
    "lp": _linear_program,
}


def _ask_lab(bits: Ints, chosen: Ints, epsilon: float) -> tuple[Floats, Floats]:
    """Return noisy cells from one lab, and noisy counts of all subsets from another, for ε each."""
    trials, people = bits.shape
    rows = {
        "world": np.repeat(np.arange(trials), people),
        "seat": np.tile(np.arange(people), trials),
        "bit": bits.ravel(),
    }
    worlds, bit = list_values(trials), list_values(2)
    declared = {"world": worlds, "seat": list_values(people), "bit": bit}
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        sql = "SELECT world, seat, SUM(bit) AS n FROM people GROUP BY world, seat"
        answer = session.sql(sql).release(epsilon=epsilon, include_empty=True).to_arrow()
        cells = np.zeros(bits.shape)
        cells[answer["world"].to_numpy(), answer["seat"].to_numpy()] = answer["n"].to_numpy()
    # Conditions on a number are read faster than on a list of values.
    declared = {"world": worlds, "seat": between(0, people, step=1), "bit": bit}
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        parts = np.array_split(chosen, max(1, len(chosen) // _SUMS_AT_ONCE))
        answers = [
            ask_worlds(session, _subset_sums(part), split_spend(epsilon, len(parts))) for part in parts
        ]
    return cells, np.column_stack([column for part in answers for column in part.values()])


def _subset_sums(part: Ints) -> str:
    seats = (", ".join(map(str, np.flatnonzero(subset))) or "-1" for subset in part)
    sums = (f"SUM(CASE WHEN seat IN ({each}) THEN bit ELSE 0 END)" for each in seats)
    return ", ".join(f"{each} AS n{at}" for at, each in enumerate(sums))
