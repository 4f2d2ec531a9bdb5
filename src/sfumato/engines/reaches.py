"""How far from zero an integer computed from a row can be, where the types of stored columns tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.engines.values import (
    WIDEST,
    Add,
    Block,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Folded,
    Greatest,
    Least,
    Length,
    Lookup,
    Multiply,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

NARROW = 2**62
"""Integers that are nearer to zero are computed in 64 bits, many times as fast as wider ones."""
_SMALL = 2**32
"""Years, months and lengths of texts are nearer."""


@dataclass(frozen=True, slots=True)
class Reaches:
    """`columns` says how far from zero a stored column's integers are, by source and declared name. With none
    of them nothing is narrow: not every engine computes differently with narrow integers.
    """

    columns: Mapping[tuple[int, str], int]
    _known: dict[int, int] = field(default_factory=dict)

    def narrow(self, part: Value) -> bool:
        """Whether the value fits, and all that it is computed from."""
        return bool(self.columns) and self._of(part) < NARROW

    def bound(self, part: Value) -> int:
        """How far from zero the value itself is, which may be less far than what it is computed from."""
        match part:
            case Divide(one, Constant(int(number))) if number > 0:
                return self.bound(one) // number
            case Multiply(one, other):
                return self.bound(one) * self.bound(other)
            case Choose(_, one, other):
                return max(self.bound(one), self.bound(other))
        return self._of(part)

    def _of(self, part: Value) -> int:
        """By the object, of which each is looked at once however deep it lies."""
        found = self._known.get(id(part))
        if found is None:
            found = self._known[id(part)] = self._computed(part)
        return found

    def _computed(self, part: Value) -> int:
        """At least as far as each of its parts."""
        match part:
            case Column(at, name):
                return self.columns.get((at, name), WIDEST)
            case Constant(number):
                return abs(number or 0)
            case Add(left, right):
                return self._of(left) + self._of(right)
            case Multiply(left, right):
                one, other = self._of(left), self._of(right)
                return max(one * other, one, other)
            case (
                Divide(one, other)
                | Least(one, other)
                | Greatest(one, other)
                | Either(one, other)
                | Choose(_, one, other)
            ):
                return max(self._of(one), self._of(other))
            case Lookup(_, entries):
                return max((abs(entry or 0) for entry in entries), default=0)
            case Block(_, count):
                return count
            case Calendar() | Length():
                return _SMALL
            case Folded():
                return WIDEST
