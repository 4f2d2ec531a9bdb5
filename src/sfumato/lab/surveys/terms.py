"""What a survey says to the people who answer it. All of it is public, and none of it ever changes."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.lab.surveys.levels import find_level, parse_survey_epsilon
from sfumato.local.response import RandomizedResponse
from sfumato.privacy.exact import parse_whole, require_bool
from sfumato.privacy.risk import guess_success

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.privacy.exact import Number

YES_OR_NO = ("Yes", "No")
MOST_CHOICES = 12
"""Most answers to choose from. With more, randomized response needs too many people; see sf.local."""
MOST_ASKS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_LONGEST_QUESTION, _LONGEST_CHOICE = 500, 80


@dataclass(frozen=True, slots=True)
class SurveyTerms:
    """A question, its possible answers, and how much one report may tell about the truth behind it."""

    name: str
    question: str
    choices: tuple[str, ...]
    epsilon: Fraction
    asks: int
    """Most rounds that there will ever be; each is charged to the same people."""
    invited: bool
    """Whether each person has an invitation of their own. If not, anyone with the one link answers."""
    public: bool
    """Whether everyone with a link may see the result."""

    @property
    def mechanism(self) -> RandomizedResponse:
        """The law of one report."""
        return RandomizedResponse(self.epsilon, len(self.choices))

    @property
    def is_fair_coin(self) -> bool:
        """Whether two tosses of a real coin give the same law, so that people can answer by hand."""
        return len(self.choices) == 2 and self.mechanism.odds == 3

    @property
    def guess_rate(self) -> float:
        """How often a guess between two answers is right at most, after one report."""
        odds = self.mechanism.odds
        return float(odds / (odds + 1))

    @property
    def total_guess_rate(self) -> float:
        """How often a guess between two answers is right at most, after the reports of all rounds."""
        return guess_success(self.epsilon * self.asks)

    @property
    def level_sentence(self) -> str:
        """What ε means, in words."""
        level = find_level(self.mechanism.odds)
        often = _tenths_in_100(self.guess_rate) if level is None else f"{level.right} times in {level.of}"
        unsure = "what your answer is" if len(self.choices) == 2 else "between two answers of yours"
        return f"Someone who is 50:50 unsure {unsure} guesses it right at most {often}."

    @property
    def total_sentence(self) -> str:
        """What the reports of all rounds together mean, in words."""
        if self.asks == 1:
            return "You are asked once."
        often = _tenths_in_100(self.total_guess_rate)
        return f"You are asked at most {self.asks} times, and all answers together allow at most {often}."

    @property
    def odds_sentence(self) -> str:
        """What the coins do to a true answer, in words."""
        truth, lie = self.mechanism.truth, self.mechanism.lie
        each = "the other answer" if len(self.choices) == 2 else "each other answer"
        return f"Your true answer is sent with chance {_chance(truth)}, {each} with chance {_chance(lie)}."

    def describe(self) -> dict[str, Any]:
        """Return the public terms as plain values."""
        return {
            "survey": self.name,
            "question": self.question,
            "choices": list(self.choices),
            "epsilon": float(self.epsilon),
            "asks": self.asks,
            "by_invitation": self.invited,
            "public": self.public,
            "privacy": self.level_sentence,
            "odds": self.odds_sentence,
            "in_all": self.total_sentence,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the form that is kept."""
        return {
            "name": self.name,
            "question": self.question,
            "choices": list(self.choices),
            "epsilon": str(self.epsilon),
            "asks": self.asks,
            "invited": self.invited,
            "public": self.public,
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> SurveyTerms:
        """Return the terms that `to_dict` wrote."""
        choices, epsilon = tuple(kept["choices"]), Fraction(kept["epsilon"])
        return cls(**{**kept, "choices": choices, "epsilon": epsilon})


def parse_terms(
    name: Any,
    question: Any,
    choices: Sequence[str],
    epsilon: Number | str,
    asks: int = 1,
    *,
    invited: bool,
    public: bool,
) -> SurveyTerms:
    """Return the terms that the steward typed, or refuse what cannot be asked."""
    require_bool(public, "public")
    terms = SurveyTerms(
        _parse_name(name),
        _parse_text(question, "question", _LONGEST_QUESTION),
        _parse_choices(choices),
        parse_survey_epsilon(epsilon),
        _parse_asks(asks),
        invited,
        public,
    )
    terms.mechanism.event()  # refuses odds that cannot be drawn
    return terms


def _parse_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            "SF-C113",
            "A survey's name has up to 60 letters, digits, - or _, and begins with a letter or digit.",
            try_='"smoking-2026"',
        )
    return name


def _parse_text(text: Any, what: str, longest: int) -> str:
    clean = " ".join(text.split()) if isinstance(text, str) else ""
    odd = any(unicodedata.category(each) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") for each in clean)
    if not clean or len(clean) > longest or odd:
        raise UsageError(
            "SF-P113",
            f"A {what} is a text of 1 to {longest} characters, without control characters.",
            try_='question="Do you smoke?"',
        )
    return clean


def _parse_choices(choices: Any) -> tuple[str, ...]:
    if isinstance(choices, list | tuple) and 2 <= len(choices) <= MOST_CHOICES:
        found = tuple(_parse_text(each, "choice", _LONGEST_CHOICE) for each in choices)
        if len({each.casefold() for each in found}) == len(found):
            return found
    raise UsageError(
        "SF-C107",
        f"A survey has from 2 to {MOST_CHOICES} choices, all different.",
        try_='choices=["Never", "Sometimes", "Daily"]',
    )


def _parse_asks(asks: Any) -> int:
    rounds = parse_whole(asks, "asks")
    if rounds > MOST_ASKS:
        raise UsageError(
            "SF-N101", f"A survey has at most {MOST_ASKS} rounds.", got=str(rounds), try_="asks=1"
        )
    return rounds


def _tenths_in_100(chance: float) -> str:
    """Return how often something happens at most, rounded up."""
    return f"{format_number(math.ceil(1000 * chance) / 10, 6)} times in 100"


def _chance(chance: Fraction) -> str:
    """Return a chance as a small fraction where it is one, else in per cent."""
    if chance.denominator <= 100:
        return f"{chance.numerator}/{chance.denominator}"
    return f"{format_number(100 * chance)} %"
