"""Asking again and again: fresh noise averages away, unless a ledger counts the questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato import noise
from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.real_lab import ask_worlds, list_values, open_lab, split_spend
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.errors import BudgetError
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats
    from sfumato.lab.session import Session

PEOPLE = 10
"""People in each trial: the target, and others whose bits the attacker knows."""
_REPEATS = 10
_AT_ONCE = 500
"""Answers that are drawn together, so that few are in memory."""


def asking_again(
    *,
    epsilon: float = 1.0,
    each: float | None = None,
    times: tuple[int, ...] = (1, 100, 20_000),
    trials: int = 200,
    seed: int = 0,
) -> AttackReport:
    """Find one person's bit by asking for the same count often, and averaging the answers.

    Every answer has Laplace noise for `each`, a tenth of ε if it is not given. Without a ledger it is drawn
    anew, as often as the attacker likes. A lab gives the same question the same answer for nothing, charges
    every other wording, and refuses when ε is spent.
    """
    rng, each = np.random.default_rng(seed), each or split_spend(epsilon, 10)
    bits = rng.integers(0, 2, (trials, PEOPLE))
    counts, secret = bits.sum(axis=1), bits[:, 0]
    rows = {
        "world": np.repeat(np.arange(trials), PEOPLE),
        "ill": bits.ravel(),
        "age": np.full(bits.size, 40),
    }
    declared = {"world": list_values(trials), "ill": list_values(2), "age": list_values(100)}
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        same = [ask_worlds(session, "COUNT(*) AS n", each, "ill = 1")["n"] for _ in range(_REPEATS)]
        answers = [same[0], *_ask_until_refused(session, each)]
    fresh = {
        f"fresh noise for ε = {format_number(each, 6)}, asked {count:,}×": _fresh_average(counts, count, each)
        for count in times
    }
    private = {
        f"sfumato, the same question {_REPEATS}×": (np.mean(same, axis=0), each),
        f"sfumato, {len(answers)} wordings, total ε = {format_number(epsilon)}": (
            np.mean(answers, axis=0),
            epsilon,
        ),
    }
    others = counts - secret
    return AttackReport(
        "asking-again",
        "One person's bit, as the average of many noisy counts.",
        "bits right",
        0.5,
        (
            *(Outcome(name, _hits(mean - others, secret), trials) for name, mean in fresh.items()),
            *(
                Outcome(name, _hits(mean - others, secret), trials, guess_ceiling(spent))
                for name, (mean, spent) in private.items()
            ),
        ),
        (
            f"Asked {_REPEATS} times, the same question had {len(np.unique(same, axis=0))} answer.",
            f"{len(answers)} wordings at ε = {format_number(each, 6)} were answered; the next was refused.",
        ),
    )


def _ask_until_refused(session: Session, epsilon: float) -> list[Floats]:
    answers: list[Floats] = []
    while True:
        wording = f"ill = 1 AND age < {99 - len(answers)}"
        try:
            answers.append(ask_worlds(session, "COUNT(*) AS n", epsilon, wording)["n"])
        except BudgetError:
            return answers


def _fresh_average(counts: NDArray[np.int64], times: int, epsilon: float) -> Floats:
    total = np.zeros(len(counts))
    for start in range(0, times, _AT_ONCE):
        part = min(_AT_ONCE, times - start)
        total += noise.laplace(np.tile(counts, (part, 1)), epsilon=epsilon).sum(axis=0)
    return total / times


def _hits(estimate: Floats, secret: NDArray[np.int64]) -> int:
    return int(np.sum((estimate > 0.5) == (secret == 1)))
