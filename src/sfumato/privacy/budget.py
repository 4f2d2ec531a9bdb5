"""The budget: the total privacy loss that one unit may ever suffer, fixed once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.privacy.exact import Number, format_short, parse_positive, parse_probability


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """A total (ε, δ). `Budget(epsilon=4)` alone allows pure ε only.

    Privacy
    -------
    Protects : one unit, add/remove, over everything ever released from the account.
    Costs    : (epsilon, delta) in all, however the analyst adapts.
    Because  : docs/proofs/account.md
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        object.__setattr__(self, "epsilon", parse_positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_probability(delta, "delta"))

    def __repr__(self) -> str:
        delta = f", delta={format_short(self.delta)}" if self.delta else ""
        return f"Budget(epsilon={format_short(self.epsilon)}{delta})"

    def to_dict(self) -> dict[str, str]:
        """Return the form that is kept in catalogs and ledgers."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Budget:
        """Return the budget that `to_dict` wrote."""
        return cls(Fraction(fields["epsilon"]), Fraction(fields["delta"]))
