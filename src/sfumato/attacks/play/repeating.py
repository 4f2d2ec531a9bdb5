"""One round of asking again: a count whose fresh noise averages away, and the same count from a lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato import noise
from sfumato.attacks.asking_again import PEOPLE
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.play.names import NAMES
from sfumato.attacks.real_lab import list_values, open_lab, split_spend
from sfumato.errors import BudgetError
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPEATS = 3
"""How often the same question is put to the lab before it is put in other words."""
MOST_TIMES = 20_000
"""Most answers with fresh noise that a round draws."""


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """One question to the lab and what came of it."""

    question: str
    answer: float | None
    """None where the lab refused."""
    charged: float
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RepetitionRound:
    """One round: averages of answers with fresh noise, and all that the lab answered until it refused."""

    epsilon: float
    each: float
    """What each answer costs."""
    target: str
    truth: int
    """The target's bit."""
    others: int
    """How many of the other people have a 1, which the attacker knows."""
    averages: tuple[tuple[int, float], ...]
    """The average after so many answers with fresh noise, which no ledger counted."""
    asked: tuple[AskedAgain, ...]
    """What the lab was asked, in turn; the last was refused."""

    @property
    def fresh_guess(self) -> int:
        """The attacker's guess from the last average."""
        return int(self.averages[-1][1] - self.others > 0.5)

    @property
    def private_average(self) -> float:
        """The average of the lab's answers, each wording once."""
        known = {each.question: each.answer for each in self.asked if each.answer is not None}
        return sum(known.values()) / len(known)

    @property
    def private_guess(self) -> int:
        """The attacker's guess from all that the lab answered."""
        return int(self.private_average - self.others > 0.5)

    @property
    def ceiling(self) -> float:
        """Largest chance that anyone's guess from the lab's answers is right."""
        return guess_ceiling(self.epsilon)


def play_repetition(*, epsilon: float = 1.0, times: int = 1000, seed: int = 0) -> RepetitionRound:
    """Draw ten people, ask both desks for the same count again and again; return the round."""
    bits = np.random.default_rng(seed).integers(0, 2, PEOPLE)
    each = split_spend(epsilon, 10)
    return RepetitionRound(
        epsilon,
        each,
        NAMES[0],
        int(bits[0]),
        int(bits[1:].sum()),
        _average_fresh(int(bits.sum()), min(MOST_TIMES, max(1, times)), each),
        _ask_lab(bits, epsilon, each),
    )


def _average_fresh(count: int, times: int, epsilon: float) -> tuple[tuple[int, float], ...]:
    """Return averages after 1, 10, 100, … and all answers; every answer has noise of its own."""
    answers = noise.laplace(np.full(times, count), epsilon=epsilon)
    steps = [10**power for power in range(6) if 10**power < times]
    return tuple((step, float(np.mean(answers[:step]))) for step in [*steps, times])


def _ask_lab(bits: NDArray[np.int64], epsilon: float, each: float) -> tuple[AskedAgain, ...]:
    rows = {"ill": bits, "age": np.full(len(bits), 40)}
    count, asked = "SELECT COUNT(*) AS n FROM people WHERE ill = 1", []
    with open_lab(
        rows, {"ill": list_values(2), "age": list_values(100)}, Budget.of(epsilon=epsilon)
    ) as session:
        for turn in range(100):
            question = count if turn < REPEATS else f"{count} AND age < {99 - turn}"
            try:
                answer = float(session.sql(question).release(epsilon=each).to_arrow()["n"][0].as_py())
            except BudgetError as refused:
                asked.append(AskedAgain(question, None, 0.0, f"{refused.code} {refused.sentence}"))
                break
            charged = 0.0 if any(before.question == question for before in asked) else each
            asked.append(AskedAgain(question, answer, charged))
    return tuple(asked)
