"""What a guarantee means in plain words and odds, and what it does not promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.exact import Number, format_short, parse_exact, parse_whole

SMOKER = (
    "Not promised: that the data teach nothing that applies to you. A study may show that smoking harms, and "
    "a smoker is then known to be at risk whether or not they took part."
)
ALREADY_KNOWN = (
    "Not promised: privacy where there was none. What others know, see or buy about you elsewhere is not "
    "made secret by an answer that adds little to it."
)
WEAK = 5
"""Largest ε that is not called weak."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A guarantee as it limits someone who guesses whether you are in the data."""

    budget: Budget
    prior: float
    people: int | None = None

    @property
    def posterior(self) -> float:
        """Largest belief that an observer can reach, by Bayes' rule with a likelihood ratio of e^ε."""
        odds = math.log(self.prior) - math.log1p(-self.prior) + float(self.budget.epsilon)
        return 1 / (1 + math.exp(-odds))

    @property
    def sentence(self) -> str:
        """One sentence that states the guarantee."""
        before, after = 100 * self.prior, 100 * self.posterior
        return (
            f"Someone who thinks there is a {_in_100(before)} chance that you are in the data can be brought "
            f"to about {_in_100(after)}, and no further, by everything ever released "
            f"(ε = {format_short(self.budget.epsilon)})."
        )

    def sentences(self) -> list[str]:
        """Return everything there is to say, one sentence each."""
        said = [self.sentence, self._consequence()]
        if self.budget.delta:
            said += [self._failure(), self._sacrifice()]
        if self.budget.epsilon > WEAK:
            said.append("This is weak: such a guarantee alone hides little about one person.")
        return [*said, SMOKER, ALREADY_KNOWN]

    def _consequence(self) -> str:
        factor = math.exp(min(float(self.budget.epsilon), 700))
        return (
            f"Whatever the answers lead to is at most {factor:,.3g} times as likely with you in the data as "
            "without you."
        )

    def _failure(self) -> str:
        return (
            f"That may fail with a chance of at most δ = {format_short(self.budget.delta)}; "
            "it should be far below one over the number of people."
        )

    def _sacrifice(self) -> str:
        # "Just sacrificing a few": publishing each person's record with probability δ is (0, δ)-private.
        said = "δ alone would allow to publish everything about each person with that chance"
        if self.people is None:
            return f"{said}; no mechanism here does."
        exposed = float(self.people * self.budget.delta)
        return f"{said}: {exposed:,.3g} of {self.people:,} people on average; no mechanism here does."

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {
            **self.budget.to_dict(),
            "prior": self.prior,
            "posterior": self.posterior,
            "sentences": self.sentences(),
        }


def explain(
    epsilon: Number, delta: Number = 0, prior: Number = 0.5, people: int | None = None
) -> Explanation:
    """Return what (ε, δ) means for a person, for any prior probability that they are in the data.

    With the number of `people`, it also says what δ alone would allow to happen to some of them.
    """
    chance = parse_exact(prior, "prior")
    if not 0 < chance < 1:
        raise UsageError("SF-N110", "prior must lie between 0 and 1.", got=str(prior), try_="prior=0.5")
    known = None if people is None else parse_whole(people, "people")
    return Explanation(Budget(epsilon, delta), float(chance), known)


def _in_100(percent: float) -> str:
    """Return "62 in 100"; near the ends with as many digits as tell it from 0 or 100."""
    rim = min(percent, 100 - percent)
    digits = 0 if rim >= 1 else min(12, 1 - math.floor(math.log10(max(rim, 1e-12))))
    return f"{percent:.{digits}f} in 100"
