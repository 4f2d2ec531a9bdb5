"""Refusals that leak: a guard who refuses whatever would give somebody away gives everybody away.

Kenthapadi, Mishra and Nissim (*Simulatable auditing*, 2005): whether an exact answer is refused must not
depend on the answer itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

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

    Ints = NDArray[np.int64]


def refusals(*, people: int = 50, trials: int = 20, epsilon: float = 1.0, seed: int = 0) -> AttackReport:
    """Find everybody's bit from what a guard refuses who answers sums exactly, unless a bit would follow.

    The attacker asks for the sum of all bits, and of each two neighbours in the list. A pair with equal bits
    is refused, and a pair with different bits is not. In a lab the same sums are asked for, for ε together; a
    lab refuses by what was charged, never by what is in the rows.
    """
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (trials, people))
    guarded = np.array([_read_refusals(Guard(each)) for each in bits])
    noisy, refused = _ask_lab(bits, epsilon)
    ceiling = guess_ceiling(epsilon)
    return AttackReport(
        "refusals",
        "Everybody's bit, from what a guard refuses to answer.",
        "bits right",
        0.5,
        (
            Outcome("exact sums, guarded by refusals", int(np.sum(guarded == bits)), bits.size),
            Outcome(
                f"sfumato, the same sums, total ε = {format_number(epsilon)}",
                int(np.sum(noisy == bits)),
                bits.size,
                ceiling,
            ),
        ),
        (f"The lab answered {refused} questions and refused the next, in every world alike.",),
    )


@dataclass
class Guard:
    """Answers sums of bits exactly, and refuses if a bit would follow from all answers together."""

    bits: Ints
    _linked: list[bool] = field(default_factory=list)
    """Whether each pair of neighbours was answered so far; such two are known to differ."""

    def __post_init__(self) -> None:
        self._linked = [False] * (len(self.bits) - 1)

    def ask_total(self) -> int | None:
        """Return the sum of all bits, or None if all are equal."""
        total = int(self.bits.sum())
        return None if total in (0, len(self.bits)) else total

    def ask_pair(self, first: int) -> int | None:
        """Return the sum of a bit and the next one, or None if that would give a bit away."""
        if self.bits[first] == self.bits[first + 1]:
            return None
        linked = [*self._linked]
        linked[first] = True
        if self._gives_away(linked):
            return None
        self._linked = linked
        return 1

    def _gives_away(self, linked: list[bool]) -> bool:
        """Tell whether the total decides a bit: runs of an odd length have one more or one less 1 than 0."""
        cuts = [at + 1 for at, link in enumerate(linked) if not link]
        lengths = np.diff([0, *cuts, len(self.bits)])
        odd = int(np.sum(lengths % 2))
        more = int(self.bits.sum() - np.sum(lengths // 2))
        return odd > 0 and more in (0, odd)


def _read_refusals(guard: Guard) -> Ints:
    """Follow the pairs from the first bit on: answered means different, refused means equal."""
    total = guard.ask_total()
    changes = [guard.ask_pair(first) is not None for first in range(len(guard.bits) - 1)]
    guess = np.concatenate([[0], np.cumsum(changes) % 2])
    # All bits but the first are known from the first; the total says which way round.
    wanted = total if total is not None else len(guess)
    return guess if abs(guess.sum() - wanted) <= abs(len(guess) - guess.sum() - wanted) else 1 - guess


def _ask_lab(bits: Ints, epsilon: float) -> tuple[Ints, int]:
    """Return the likeliest bits given noisy sums of pairs, and how many questions were answered."""
    trials, people = bits.shape
    seat = np.tile(np.arange(people), trials)
    worlds = np.repeat(np.arange(trials), people)
    pairs = people // 2 + 1
    rows = {"world": worlds, "bit": bits.ravel(), "even": seat // 2, "odd": (seat + 1) // 2}
    declared = {
        "world": list_values(trials),
        "bit": list_values(2),
        "even": list_values(pairs),
        "odd": list_values(pairs),
    }
    sums, each = np.zeros((trials, people - 1)), split_spend(epsilon, 3)
    with open_lab(rows, declared, Budget.of(epsilon=epsilon)) as session:
        for start, name in enumerate(("even", "odd")):
            sql = f"SELECT world, {name}, SUM(bit) AS n FROM people GROUP BY world, {name}"  # noqa: S608  parsed by us
            answer = session.sql(sql).release(epsilon=each, include_empty=True).to_arrow()
            grid = np.zeros((trials, pairs))
            grid[answer["world"].to_numpy(), answer[name].to_numpy()] = answer["n"].to_numpy()
            count = len(range(start, people - 1, 2))
            sums[:, start::2] = grid[:, start : start + count]
        answered = 2 + _count_answered(session, each)
    return _likeliest_bits(sums), answered


def _count_answered(session: Session, epsilon: float) -> int:
    """Ask for sums of the bits of ever fewer people, until the lab refuses."""
    answered = 0
    while True:
        try:
            ask_worlds(session, "SUM(bit) AS n", epsilon, f"even >= {answered}")
        except BudgetError:
            return answered
        answered += 1


def _likeliest_bits(sums: Floats) -> Ints:
    """Return the bits along a chain whose neighbouring sums are nearest to noisy ones (Viterbi)."""
    trials, pairs = sums.shape
    both = np.array([[0, 1], [1, 2]])
    cost, came = np.zeros((trials, 2)), np.zeros((pairs, trials, 2), dtype=np.int64)
    for at in range(pairs):
        reached = cost[:, :, None] + np.abs(sums[:, at, None, None] - both)
        came[at], cost = reached.argmin(axis=1), reached.min(axis=1)
    bits = np.zeros((trials, pairs + 1), dtype=np.int64)
    bits[:, -1] = cost.argmin(axis=1)
    for at in reversed(range(pairs)):
        bits[:, at] = came[at][np.arange(trials), bits[:, at + 1]]
    return bits
