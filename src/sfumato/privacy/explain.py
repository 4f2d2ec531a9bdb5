"""What a guarantee means in plain words and odds, and what it does not promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_decimal, format_number
from sfumato.privacy.budget import Budget
from sfumato.privacy.conversion import excess_loss
from sfumato.privacy.exact import Number, parse_exact, parse_whole
from sfumato.privacy.risk import guess_success
from sfumato.viz.tables import paragraphs

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
_TIMES_DELTA = 10
"""With this many times δ as its chance, the bound on a belief is little above that of ε alone."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A guarantee as it limits someone who guesses whether you are in the data."""

    budget: Budget
    prior: float
    people: int | None = None

    @property
    def chance(self) -> float:
        """Largest chance that an observer goes beyond `posterior`: 0 without a δ, else ten times δ."""
        return min(1.0, _TIMES_DELTA * float(self.budget.delta))

    @property
    def posterior(self) -> float:
        """Largest belief that an observer can reach except with `chance`, by Bayes' rule.

        Without a δ the likelihood ratio is at most e^ε. With one it exceeds e^(ε + t) with a chance of at
        most δ/(1 − e^−t) (docs/proofs/curves.md#trade-off-and-belief), here for the t that makes this 10·δ.
        """
        loss = float(self.budget.epsilon) + (excess_loss(1 / _TIMES_DELTA) if self.budget.delta else 0.0)
        odds = math.log(self.prior) - math.log1p(-self.prior) + loss
        return 1 / (1 + math.exp(-odds))

    @property
    def sentence(self) -> str:
        """One sentence that states the guarantee."""
        before, after = 100 * self.prior, 100 * self.posterior
        delta, rarely = "", ""
        if self.budget.delta:
            delta = f", δ = {format_number(self.budget.delta)}"
            rarely = f", except with a chance of at most {_TIMES_DELTA}·δ = {format_number(self.chance, 3)}"
        return (
            f"Someone who thinks there is a {say_in_100(before)} chance that you are in the data can be "
            f"brought to about {say_in_100(after)}, and no further, by everything ever released "
            f"(ε = {format_number(self.budget.epsilon)}{delta}){rarely}."
        )

    @property
    def success(self) -> float:
        """Largest share of right guesses, of someone who guesses who is in the data; see `baseline`."""
        return guess_success(self.budget.epsilon, self.budget.delta, self.prior)

    @property
    def baseline(self) -> float:
        """Share of right guesses without any answer: that of the likelier case."""
        return max(self.prior, 1 - self.prior)

    def sentences(self) -> list[str]:
        """Return everything there is to say, one sentence each."""
        said = [self.sentence, self._attack(), self._consequence()]
        if self.budget.delta:
            said.append(self.sacrifice)
        if self.budget.epsilon > WEAK:
            said.append("This is weak: such a guarantee alone hides little about one person.")
        return [*said, SMOKER, ALREADY_KNOWN]

    def _attack(self) -> str:
        without, best = say_in_100(100 * self.baseline), say_in_100(100 * self.success)
        return (
            f"Guesses whether people are in the data, right {without} times without the answers, are right "
            f"at most {best} times with them, whatever the attack."
        )

    def _consequence(self) -> str:
        factor = math.exp(min(float(self.budget.epsilon), 700))
        if not self.budget.delta:
            return (
                f"Whatever the answers lead to is at most {format_number(factor, 3)} "
                "times as likely with you in the data "
                "as without you."
            )
        return (
            "Whatever the answers lead to has, with you in the data, "
            f"at most {format_number(factor, 3)} times the "
            f"probability that it has without you, plus δ = {format_number(self.budget.delta)}; "
            "δ should be far below one over the number of people."
        )

    @property
    def sacrifice(self) -> str:
        """One sentence on what δ alone would allow."""
        # "Just sacrificing a few": publishing each person's record with probability δ is (0, δ)-private.
        said = "δ alone would allow publishing everything about each person with the chance δ"
        if self.people is None:
            return f"{said}; no mechanism here does."
        exposed = float(self.people * self.budget.delta)
        return (
            f"{said}: {format_number(exposed, 3)} of {self.people:,} "
            "people on average; no mechanism here does."
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {
            **self.budget.to_dict(),
            "prior": self.prior,
            "posterior": self.posterior,
            "chance": self.chance,
            "baseline": self.baseline,
            "success": self.success,
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
        raise UsageError("SF-N101", "prior must lie between 0 and 1.", got=str(prior), try_="prior=0.5")
    known = None if people is None else parse_whole(people, "people")
    return Explanation(Budget.of(epsilon, delta), float(chance), known)


def say_in_100(percent: float) -> str:
    """Return "62 in 100"; near the ends with as many digits as tell it from 0 or 100, up to nine."""
    rim = min(percent, 100 - percent)
    digits = 0 if rim >= 1 or rim < 1e-9 else 1 - math.floor(math.log10(rim))
    return f"{format_decimal(percent, digits)} in 100"
