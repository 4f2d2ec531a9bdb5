"""Guarantees that others have published, to compare with one's own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.privacy.explain import Explanation, explain

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

LECTURE = "Yu, CS480 Lecture 22"
APPLE = "Apple, Differential Privacy Overview"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A published guarantee. Each covers its own unit and period, so compare with care."""

    who: str
    what: str
    epsilon: Fraction
    delta: Fraction
    source: str

    def explain(self, prior: Number = 0.5) -> Explanation:
        """Return what the guarantee means for a person, in words."""
        return explain(self.epsilon, self.delta, prior)


def _published(who: str, what: str, epsilon: str, delta: str = "0", source: str = LECTURE) -> Deployment:
    return Deployment(who, what, Fraction(epsilon), Fraction(delta), source)


DEPLOYMENTS: tuple[Deployment, ...] = (
    _published("Apple", "macOS", "6"),
    _published("Apple", "iOS 10", "14"),
    _published("Apple", "health types, a user and day", "2", source=f"{LECTURE}; {APPLE}"),
    _published("Facebook", "as listed", "1.453", "1e-5"),
    _published("Google", "as listed, at most", "9"),
    _published("LinkedIn", "a query", "0.15", "1e-10"),
    _published("Microsoft", "as listed", "12", "5.8e-6"),
    _published("US Census Bureau", "as listed", "13.64", "1e-5"),
)
"""Figures are those of the sources; each covers its own unit of protection and period."""


def compare_deployments(epsilon: Number, delta: Number = 0, prior: Number = 0.5) -> list[dict[str, Any]]:
    """Return one's own guarantee among the published ones, the strongest first, each with (ε, δ) and odds."""
    own = explain(epsilon, delta, prior)
    rows = [_row("yours", "", own, "")]
    rows += [_row(one.who, one.what, one.explain(prior), one.source) for one in DEPLOYMENTS]
    return sorted(rows, key=lambda row: (row["epsilon"], row["delta"]))


def _row(who: str, what: str, told: Explanation, source: str) -> dict[str, Any]:
    return {
        "who": who,
        "what": what,
        "epsilon": float(told.budget.epsilon),
        "delta": float(told.budget.delta),
        "posterior": told.posterior,
        "sentence": told.sentence,
        "source": source,
    }
