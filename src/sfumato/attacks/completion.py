"""Completions that leak: a search box that completes what others typed tells what one of them typed."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling
from sfumato.attacks.real_lab import open_lab
from sfumato.attacks.report import AttackReport, Outcome
from sfumato.curator.catalog.columns import text
from sfumato.errors.numbers import format_number
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

THRESHOLD = 10
"""People who must have typed a text before the box with a threshold shows it."""
DELTA = 1e-9
TOPICS = ("weather", "bus times", "pizza near me", "football results", "opening hours", "translate")


def completion(*, targets: int = 200, epsilon: float = 1.0, seed: int = 0) -> AttackReport:
    """Find out who searched for a clinic, by typing their name into the search box.

    The log is generated: everyone has one line, and each target searched for their own name and a clinic, or
    for something common, by a coin. Where a text is shown only if ten people typed it, the attacker types
    it nine times. A lab discovers texts privately; there the attacker types it so often that showing it is a
    toss-up, so that one more line tells most.
    """
    coins = np.random.default_rng(seed).integers(0, 2, targets)
    log, few, enough = _write_log(coins, seed), THRESHOLD - 1, _find_toss_up(epsilon)
    plain, padded = Counter(log), Counter([*log, *_write_fakes(targets, few)])

    def score(against: str, shown: Collection[str], ceiling: float | None = None) -> Outcome:
        guess = np.array([_secret(at) in shown for at in range(targets)])
        return Outcome(against, int(np.sum(guess == (coins == 1))), targets, ceiling)

    ceiling = guess_ceiling(epsilon, delta=DELTA)
    return AttackReport(
        "completion",
        "Who searched for a clinic, from what a search box completes.",
        "people told right",
        0.5,
        (
            score("all completions", complete(plain, "person ")),
            score(f"texts of {THRESHOLD} people", complete(plain, "person ", fewest=THRESHOLD)),
            score(f"the same, after {few} false lines", complete(padded, "person ", fewest=THRESHOLD)),
            *(
                score(
                    f"sfumato, {fakes} false lines, ε = {format_number(epsilon)}, δ = {format_number(DELTA)}",
                    _discover([*log, *_write_fakes(targets, fakes)], epsilon),
                    ceiling,
                )
                for fakes in (few, enough)
            ),
        ),
    )


def complete(counts: Mapping[str, int], prefix: str, *, fewest: int = 1) -> list[str]:
    """Return texts that begin like this and that so many people typed, the most frequent first."""
    found = [line for line, count in counts.items() if line.startswith(prefix) and count >= fewest]
    return sorted(found, key=lambda line: -counts[line])


def _find_toss_up(epsilon: float) -> int:
    """Return how many false lines make it as likely as not that a text is shown (docs/proofs/keys.md).

    Half of ε pays for the texts, and the other half for their counts.
    """
    return round(math.log(math.tanh(epsilon / 4) / DELTA) / (epsilon / 2))


def _secret(at: int) -> str:
    return f"person {at} clinic"


def _write_log(coins: NDArray[np.int64], seed: int) -> list[str]:
    rng = np.random.default_rng(seed + 1)
    common = [TOPICS[at] for at in rng.integers(0, len(TOPICS), 2000 + len(coins))]
    own = [_secret(at) if coin else common[at] for at, coin in enumerate(coins)]
    return [*own, *common[len(coins) :]]


def _write_fakes(targets: int, fakes: int) -> list[str]:
    return [_secret(at) for at in range(targets) for _ in range(fakes)]


def _discover(log: Sequence[str], epsilon: float) -> set[str]:
    budget = Budget.of(epsilon=epsilon, delta=4 * DELTA)
    with open_lab({"line": log}, {"line": text()}, budget) as session:
        question = session.sql("SELECT DISTINCT line FROM people")
        answer = question.release(epsilon=epsilon, delta=DELTA).to_arrow()
    return {str(line) for line in answer["line"].to_pylist()}
