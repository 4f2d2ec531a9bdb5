"""The budget: the total privacy loss that one unit may ever suffer, fixed once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import PrivacyWarning, UsageError
from sfumato.errors.numbers import format_number, format_typed
from sfumato.privacy.exact import Number, parse_exact, parse_positive, parse_probability

SIDE_SHARE = Fraction(1, 2)
"""Part of δ that is kept for side δ, unless the steward says otherwise."""


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """A total (ε, δ). `Budget(epsilon=4)` alone allows pure ε only.

    A PrivacyWarning says so if ε is above 20 or δ above 0.001, with which a budget promises almost nothing.

    `side_share` is the part of δ that pays for what has a δ of its own: discovered keys, and runs that are
    priced as (ε, δ). The rest is for Gaussian noise and for many small questions.

    Privacy
    -------
    Protects : one unit, add/remove, over everything ever released from the account.
    Costs    : (epsilon, delta) in all, however the analyst adapts.
    Because  : docs/proofs/account.md
    """

    epsilon: Fraction
    delta: Fraction
    side_share: Fraction

    def __init__(self, epsilon: Number, delta: Number = 0, side_share: Number = SIDE_SHARE) -> None:
        self._fill(epsilon, delta, side_share)
        if weak := describe_weak_budget(self.epsilon, self.delta):
            warnings.warn(weak, PrivacyWarning, stacklevel=2)

    @classmethod
    def of(cls, epsilon: Number, delta: Number = 0, side_share: Number = SIDE_SHARE) -> Budget:
        """Return a budget that was declared before, or is used in a computation, without a warning."""
        budget = cls.__new__(cls)
        budget._fill(epsilon, delta, side_share)
        return budget

    def _fill(self, epsilon: Number, delta: Number, side_share: Number) -> None:
        object.__setattr__(self, "epsilon", parse_positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_probability(delta, "delta"))
        object.__setattr__(self, "side_share", _parse_part(side_share) if self.delta else SIDE_SHARE)

    @property
    def side_delta(self) -> Fraction:
        """The part of δ that pays for what has a δ of its own."""
        return self.delta * self.side_share

    def __repr__(self) -> str:
        delta = f", delta={format_typed(self.delta)}" if self.delta else ""
        side = "" if self.side_share == SIDE_SHARE else f", side_share={format_typed(self.side_share)}"
        return f"Budget(epsilon={format_typed(self.epsilon)}{delta}{side})"

    def to_dict(self) -> dict[str, str]:
        """Return the form that is kept in catalogs and ledgers."""
        # Left out where nothing was said, as older versions did, so that their texts and hashes stay.
        side = {} if self.side_share == SIDE_SHARE else {"side_share": str(self.side_share)}
        return {"epsilon": str(self.epsilon), "delta": str(self.delta), **side}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Budget:
        """Return the budget that `to_dict` wrote."""
        side = Fraction(fields.get("side_share", SIDE_SHARE))
        return cls.of(Fraction(fields["epsilon"]), Fraction(fields["delta"]), side)


WEAK_EPSILON, WEAK_DELTA = 20, Fraction(1, 1000)
"""The largest budget without a warning.

At ε = 20 someone who is 50:50 unsure whether a person is in the data may guess wrong twice in a billion
times; no deployment that `sf.privacy.DEPLOYMENTS` lists is above 14. With δ = 0.001 the guarantee may fail
for one in a thousand people, and δ is meant to be far below one over the number of people.
"""


def describe_weak_budget(epsilon: Fraction, delta: Fraction) -> str:
    """Return a warning about a budget that promises almost no privacy; empty for other budgets."""
    why = []
    if epsilon > WEAK_EPSILON:
        why.append(
            "someone who is 50:50 unsure whether a person is in the data may guess right practically always"
        )
    if delta > WEAK_DELTA:
        why.append(f"for each person it may fail altogether with a probability of {format_number(delta)}")
    if not why:
        return ""
    said = f"ε = {format_number(epsilon)}" + (f" and δ = {format_number(delta)}" if delta else "")
    return (
        f"A budget of {said} promises almost no privacy: {', and '.join(why)}. Usual budgets have ε between "
        "0.1 and 10, and δ far below one over the number of people, such as 1e-7."
    )


def _parse_part(side_share: Number) -> Fraction:
    part = parse_exact(side_share, "side_share")
    if not 0 <= part <= 1:
        raise UsageError(
            "SF-N101",
            "The part of δ for side δ must be between 0 and 1.",
            got=str(side_share)[:40],
            try_="sf.Budget(epsilon=1, delta=1e-6, side_share=0.5)",
        )
    return part
