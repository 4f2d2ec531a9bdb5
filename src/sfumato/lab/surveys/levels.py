"""ε in words: how often a guess about one person's answer can be right."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.local.parameters import parse_answer_epsilon

if TYPE_CHECKING:
    from sfumato.privacy.exact import Number

_DIGITS = Decimal("1e-16")


@dataclass(frozen=True, slots=True)
class PrivacyLevel:
    """A guess between two answers, 50:50 before the report is seen, is right at most so often after it."""

    right: int
    of: int

    @property
    def name(self) -> str:
        """What the steward types, such as "3 in 4"."""
        return f"{self.right} in {self.of}"

    @property
    def odds(self) -> Fraction:
        """How much likelier the truth is to be reported than any one other answer."""
        return Fraction(self.right, self.of - self.right)

    @property
    def epsilon(self) -> Fraction:
        """ln(odds), rounded up: so the odds that are drawn by are these, and no smaller fraction."""
        odds = Decimal(self.odds.numerator) / Decimal(self.odds.denominator)
        exact = Context(prec=50).ln(odds)
        return Fraction(exact.quantize(_DIGITS, ROUND_CEILING, Context(prec=50)))

    @property
    def sentence(self) -> str:
        """The level as a sentence."""
        return f"A guess about one person is right at most {self.right} times in {self.of}."

    def to_dict(self) -> dict[str, Any]:
        """Return the level as plain values."""
        return {"level": self.name, "epsilon": float(self.epsilon), "sentence": self.sentence}


LEVELS = (PrivacyLevel(3, 5), PrivacyLevel(2, 3), PrivacyLevel(3, 4), PrivacyLevel(5, 6), PrivacyLevel(9, 10))
"""Levels that can be named. "3 in 4" is the fair coin, whose ε is ln 3."""


def parse_survey_epsilon(value: Number | str) -> Fraction:
    """Return the ε that was typed, as a number or as the name of a level."""
    if not isinstance(value, str):
        return parse_answer_epsilon(value)
    for level in LEVELS:
        if level.name == value.strip():
            return level.epsilon
    raise UsageError(
        "SF-E187",
        "This is not one of the levels of privacy that have a name.",
        got=value[:40],
        levels=", ".join(f'"{level.name}"' for level in LEVELS),
        try_='epsilon="3 in 4", or a number',
    )


def find_level(odds: Fraction) -> PrivacyLevel | None:
    """Return the level with exactly these odds, if there is one."""
    return next((level for level in LEVELS if level.odds == odds), None)
