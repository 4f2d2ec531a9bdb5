"""Membership from synthetic rows: a generator that copies is no generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.real_lab import list_values, open_lab
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

COLUMNS, VALUES = 8, 6


def synthetic_membership(*, people: int = 400, epsilon: float = 1.0, seed: int = 0) -> AttackReport:
    """Tell who was in a table from synthetic rows made of it, by the rows that are near to theirs.

    Everyone is in the table by a coin. One generator takes a row and changes one value, as many tools for
    "anonymous" test data do. `sf.synth.Marginals` is fitted in a lab, for ε.
    """
    rng = np.random.default_rng(seed)
    rows = _draw_rows(people, rng)
    coin = rng.integers(0, 2, people)
    table = rows[coin == 1]
    shaken = table[rng.integers(0, len(table), 4 * people)]
    shaken[np.arange(len(shaken)), rng.integers(0, COLUMNS, len(shaken))] = rng.integers(
        0, VALUES, len(shaken)
    )

    def score(against: str, made: Ints, ceiling: float | None = None) -> Outcome:
        return Outcome(against, int(np.sum(tell_members(rows, made) == (coin == 1))), people, ceiling)

    return AttackReport(
        "membership-synthetic",
        "Who was in a table, from synthetic rows that were made of it.",
        "people told right",
        0.5,
        (
            score("rows with one value changed", shaken),
            score(
                f"sf.synth.Marginals, ε = {format_number(epsilon)}",
                _synthesise(table, 4 * people, epsilon),
                guess_ceiling(epsilon),
            ),
        ),
    )


def tell_members(rows: Ints, made: Ints) -> NDArray[np.bool_]:
    """Guess the half of the rows that have most synthetic rows near them to be members.

    Near means one value apart at most; among equals the distance to the nearest rows decides.
    """
    apart = (rows[:, None, :] != made[None, :, :]).sum(axis=2)
    nearness = (apart <= 1).sum(axis=1) - apart.mean(axis=1) / (COLUMNS + 1)
    return np.asarray(nearness > np.median(nearness))


def _draw_rows(people: int, rng: np.random.Generator) -> Ints:
    """Return rows whose columns hang together: each value is the one before it, or another."""
    rows = rng.integers(0, VALUES, (people, COLUMNS))
    same = rng.random((people, COLUMNS)) < 0.3
    for at in range(1, COLUMNS):
        rows[:, at] = np.where(same[:, at], rows[:, at - 1], rows[:, at])
    return rows


def _synthesise(table: Ints, count: int, epsilon: float) -> Ints:
    from sfumato.synth import Marginals

    names = [f"c{at}" for at in range(COLUMNS)]
    columns = dict(zip(names, table.T, strict=True))
    declared = {name: list_values(VALUES) for name in names}
    with open_lab(columns, declared, Budget.of(epsilon=epsilon)) as session:
        fitted = session.fit(Marginals(epsilon=epsilon, method="mst"), table="people", columns=names)
        made = fitted.sample(count)
    return np.column_stack([made[name].to_numpy() for name in names])
