"""A bound that is yet to be chosen privately: what the choice may cost, and what it should be good for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_typed
from sfumato.privacy.exact import parse_exact, parse_positive

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.privacy.exact import Number

QUESTIONS_EACH = 10
"""A choice serves questions of so many times its own ε, unless another is named.

A tenth for the bound was near the best split in benchmarks/bounds.py. Privacy does not depend on it.
"""


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """What is paid for choosing a bound, and by which aim it is chosen. Made by `sf.choose`."""

    epsilon: Fraction
    """What the choice costs."""
    for_epsilon: Fraction
    """The ε of the questions whose total error should be least."""
    keep: Fraction | None = None
    """The share of the units that should lose nothing, where that is the aim."""
    up_to: Fraction | None = None
    """The largest candidate, which is public; None for the usual one."""

    def count_allowed(self, units: float) -> float:
        """Return how many of so many units may lie beyond the bound.

        One more step of the bound costs 1 / for_epsilon in noise and saves a step for each unit beyond it, so
        that the total error is least where 1 / for_epsilon units are left beyond.
        """
        return float(1 / self.for_epsilon) if self.keep is None else float(1 - self.keep) * max(units, 0.0)

    def __str__(self) -> str:
        aim = "" if self.keep is None else f", keep={format_typed(self.keep)}"
        return f"choose(epsilon={format_typed(self.epsilon)}{aim})"

    __repr__ = __str__


def choose(
    *,
    epsilon: Number,
    for_epsilon: Number | None = None,
    keep: Number | None = None,
    up_to: Number | None = None,
) -> BoundChoice:
    """Return a bound that is bought when a table is registered, for this ε of its population's budget.

    It stands where a number would: `sf.Unit("id", max_rows=sf.choose(epsilon=0.05))` and
    `sf.between(sf.choose(epsilon=0.05))`. The bound makes noise and lost rows together least for questions
    of `for_epsilon`, ten times the choice's own ε unless said otherwise; with `keep=0.99` it is instead the
    least that leaves 99 of 100 units whole. No candidate is larger than `up_to`.
    """
    spent = parse_positive(epsilon, "epsilon")
    if keep is not None and for_epsilon is not None:
        raise _wrong("A bound is chosen for questions of an ε or to keep a share of units, and not for both.")
    share = None if keep is None else parse_exact(keep, "keep")
    if share is not None and not 0 < share < 1:
        raise _wrong("keep must lie between 0 and 1.")
    asked = QUESTIONS_EACH * spent if for_epsilon is None else parse_positive(for_epsilon, "for_epsilon")
    most = None if up_to is None else parse_positive(up_to, "up_to")
    return BoundChoice(spent, asked, share, most)


def _wrong(sentence: str) -> UsageError:
    return UsageError("SF-U104", sentence, try_="sf.choose(epsilon=0.05)")
