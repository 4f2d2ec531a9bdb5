"""One round of differencing: a department's total with one person and without, from two desks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import value_ceiling
from sfumato.attacks.differencing import BANDS, HIGHEST, STAFF
from sfumato.attacks.play.names import NAMES
from sfumato.attacks.real_lab import open_lab, split_spend
from sfumato.curator.catalog.columns import between, one_of
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH = HIGHEST // BANDS
"""Width of a tenth of the range of salaries."""


@dataclass(frozen=True, slots=True)
class DifferencingRound:
    """One round: the two totals that each desk gave, and what follows about one person's salary."""

    epsilon: float
    """What the lab charged for both totals together."""
    target: str
    truth: int
    exact: tuple[int, int]
    """The exact total of everyone, and of everyone but the target."""
    private: tuple[int, int]
    """The lab's answers to the same two questions."""

    @property
    def questions(self) -> tuple[str, str]:
        """The two questions, as SQL."""
        return write_questions(self.target)

    @property
    def exact_difference(self) -> int:
        """The salary, as the exact totals give it away."""
        return self.exact[0] - self.exact[1]

    @property
    def private_difference(self) -> int:
        """What the same subtraction gives with the lab's answers."""
        return self.private[0] - self.private[1]

    @property
    def private_tenth(self) -> int:
        """The attacker's guess from the lab's answers: a tenth of the range, from 0."""
        return min(BANDS - 1, max(0, self.private_difference // WIDTH))

    @property
    def true_tenth(self) -> int:
        """The tenth of the range that the salary lies in, from 0."""
        return self.truth // WIDTH

    @property
    def ceiling(self) -> float:
        """Largest chance that anyone's guess of the tenth is right."""
        return value_ceiling(self.epsilon, BANDS)

    @property
    def noise_scale(self) -> float:
        """The scale of the noise of each of the lab's totals."""
        return HIGHEST / split_spend(self.epsilon, 2)


def play_differencing(*, epsilon: float = 1.0, seat: int = 0, seed: int = 0) -> DifferencingRound:
    """Draw a department, ask both desks for its total with and without one person; return the round."""
    target, each = NAMES[seat % STAFF], split_spend(epsilon, 2)
    rows = {"name": list(NAMES), "salary": _draw_salaries(seed)}
    declared = {"name": one_of(*NAMES), "salary": between(0, HIGHEST, step=1)}
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        everyone, others = (
            int(session.sql(sql).release(epsilon=each).to_arrow()["total"][0].as_py())
            for sql in write_questions(target)
        )
    return reveal_differencing(epsilon=epsilon, seat=seat, seed=seed, private=(everyone, others))


def reveal_differencing(
    *, epsilon: float, seat: int, seed: int, private: tuple[int, int]
) -> DifferencingRound:
    """Return the round in which the lab gave these answers about the department of a seed."""
    salaries, place = _draw_salaries(seed), seat % STAFF
    truth, everyone = int(salaries[place]), int(salaries.sum())
    return DifferencingRound(epsilon, NAMES[place], truth, (everyone, everyone - truth), private)


def write_questions(target: str) -> tuple[str, str]:
    """Return the two questions as SQL: for the total of everyone, and of everyone but one person."""
    everyone = "SELECT SUM(salary) AS total FROM people"
    return everyone, f"{everyone} WHERE name <> '{target}'"


def _draw_salaries(seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, HIGHEST, STAFF)
