"""What a guarantee means, in plain words and odds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.exact import Number, exact, shown

NOT_PROMISED = (
    "Not promised: that the data teach nothing that applies to you. A study may show that smoking harms, and "
    "a smoker is then known to be at risk whether or not they took part."
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A guarantee seen by someone who guesses whether you are in the data."""

    budget: Budget
    prior: float

    @property
    def posterior(self) -> float:
        """The most certain an onlooker can become, by Bayes' rule with likelihoods at most e^ε apart."""
        odds = math.log(self.prior) - math.log1p(-self.prior) + float(self.budget.epsilon)
        return 1 / (1 + math.exp(-odds))

    def sentences(self) -> list[str]:
        said = [self._belief(), self._consequence()]
        if self.budget.delta:
            said.append(
                f"That may fail with a chance of at most δ = {shown(self.budget.delta)}; "
                "it should be far below one over the number of people."
            )
        said.append(NOT_PROMISED)
        if self.budget.epsilon > 5:
            said.append("This is weak: such a guarantee alone hides little about one person.")
        return said

    def _belief(self) -> str:
        before, after = round(100 * self.prior), round(100 * self.posterior)
        return (
            f"Someone who thinks there is a {before} in 100 chance that you are in the data can be brought "
            f"to about {after} in 100, and no further, by everything ever released "
            f"(ε = {shown(self.budget.epsilon)})."
        )

    def _consequence(self) -> str:
        factor = math.exp(min(float(self.budget.epsilon), 700))
        return (
            f"Whatever the answers lead to is at most {factor:,.3g} times as likely with you in the data as "
            "without you."
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.budget.to_dict(),
            "prior": self.prior,
            "posterior": self.posterior,
            "sentences": self.sentences(),
        }


def explain(epsilon: Number, delta: Number = 0, prior: Number = 0.5) -> Explanation:
    """What (ε, δ) means for a person, from any prior chance that they are in the data."""
    chance = exact(prior, "prior")
    if not 0 < chance < 1:
        raise UsageError("SF-N110", "prior must lie between 0 and 1.", got=str(prior), try_="prior=0.5")
    return Explanation(Budget(epsilon, delta), float(chance))
