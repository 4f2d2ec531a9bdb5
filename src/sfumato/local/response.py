"""Randomized response: each person answers truthfully or, by their own coins, something else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sfumato.errors.numbers import format_number, format_share
from sfumato.local.estimate import Estimate
from sfumato.local.messages import describe_question, read_messages
from sfumato.local.odds import odds_within
from sfumato.local.parameters import parse_answer_epsilon, parse_codes, parse_values, require_drawable
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS, draw_uniform
from sfumato.privacy import events
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.local.messages import Message
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """Randomized response: one of `values` answers, the truth `odds` times as likely as each other.

    Privacy
    -------
    Protects : the truth of one respondent, who is known to take part (replace-one).
    Costs    : RandomizedAnswer(epsilon, values), each time that a person is asked.
    Because  : docs/proofs/randomized-response.md
    Assumes  : a person's answers to different questions and rounds use fresh coins, and are all charged.
    """

    epsilon: Fraction
    values: int
    odds: Fraction = field(compare=False)
    """Fraction that is drawn by: ln(odds) ≤ ε, short of it by at most one part in 2³²."""

    def __init__(self, epsilon: Number, values: int = 2) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "values", parse_values(values))
        object.__setattr__(self, "odds", odds_within(self.epsilon))
        require_drawable(self._numbers(), self.values)

    @classmethod
    def fair_coin(cls) -> RandomizedResponse:
        """Return the fair-coin protocol, whose ε is exactly ln 3.

        Heads: answer the truth. Tails: toss again and answer what the coin says.
        """
        return cls(math.log(3))

    @property
    def truth(self) -> Fraction:
        """Probability of answering the truth."""
        return self.odds / (self.odds + self.values - 1)

    @property
    def lie(self) -> Fraction:
        """Probability of each other answer."""
        return 1 / (self.odds + self.values - 1)

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        once = events.RandomizedAnswer(self.epsilon, self.values)
        return once if times == 1 else events.Repeated(once, times)

    @overload
    def privatize(self, truths: int, *, source: BitSource = OS) -> int: ...
    @overload
    def privatize(self, truths: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]: ...
    def privatize(self, truths: Any, *, source: BitSource = OS) -> NDArray[np.int64] | int:
        """Return a randomized answer for each true value, 0 to values − 1 or a boolean, in the same shape."""
        exact = parse_codes(truths, self.values)
        answers = observed(self, exact, 1, lambda: self._answers(exact, source))
        return answers if exact.ndim else int(answers[()])

    def estimate(self, answers: Any) -> Estimate:
        """Return the estimated shares of the true values behind these answers."""
        counts = np.bincount(parse_codes(answers, self.values).ravel(), minlength=self.values)
        return Estimate(tuple(counts.tolist()), self.truth, self.lie)

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        return describe_question("response", self.odds, values=self.values)

    def collect(self, messages: Iterable[Message]) -> NDArray[np.int64]:
        """Return the answers in clients' messages; all of them must answer this question."""
        return parse_codes(read_messages(self.question(), messages), self.values)

    def expected_error(self, answers: int) -> float:
        """Return the largest standard error of an estimated share, from so many answers."""
        spread = max(chance * (1 - chance) for chance in (self.truth, self.lie))
        return math.sqrt(float(spread) / parse_whole(answers, "answers")) / float(self.truth - self.lie)

    def repeat(self, times: int) -> Repetition:
        """Return what asking the same people so many times costs and reveals."""
        return Repetition(self, parse_whole(times, "times"))

    # ---- parts ----

    def _answers(self, exact: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
        """Return the randomized answers."""
        # A uniform number below a + (values − 1)·b, for odds a/b: the first a stand for the truth, each
        # further b for one of the other answers.
        a, b = self.odds.numerator, self.odds.denominator
        numbers = draw_uniform(self._numbers(), exact.size, source).reshape(exact.shape)
        other = (numbers - a) // b
        return np.where(numbers < a, exact, other + (other >= exact))

    def _numbers(self) -> int:
        return self.odds.numerator + (self.values - 1) * self.odds.denominator


@dataclass(frozen=True, slots=True, repr=False)
class Repetition:
    """One question asked of the same people several times with fresh coins: the costs add up."""

    response: RandomizedResponse
    times: int

    @property
    def event(self) -> events.Event:
        """Price for each person."""
        return self.response.event(self.times)

    @property
    def epsilon(self) -> Fraction:
        """Pure ε for each person."""
        return self.response.epsilon * self.times

    @property
    def guess_rate(self) -> float:
        """How often a person's truth is guessed from all of their answers, if all truths are equally likely.

        With two values this is how often the commoner answer is the truth; with more it is an upper bound.
        """
        if self.response.values > 2:
            return 1 / (1 + (self.response.values - 1) * math.exp(-float(self.epsilon)))
        wins = (self._chance(right) * (1 if 2 * right > self.times else 0.5) for right in self._majorities())
        return math.fsum(wins)

    def __str__(self) -> str:
        total = format_number(self.epsilon)
        if self.times == 1:
            return (
                f"Asked once: ε = {total}; a truth is guessed {format_share(self.guess_rate, 0)} of the time."
            )
        return (
            f"Asked {self.times} times with fresh coins: ε = {total} in all; a truth is guessed "
            f"{format_share(self.guess_rate)} of the time. "
            "Keep each person's first answer and give that again."
        )

    __repr__ = __str__

    def _majorities(self) -> range:
        return range(-(-self.times // 2), self.times + 1)

    def _chance(self, right: int) -> float:
        """Return the probability of so many true answers."""
        # By logarithms, because the binomial coefficients grow beyond doubles.
        truth = float(self.response.truth)
        ways = math.lgamma(self.times + 1) - math.lgamma(right + 1) - math.lgamma(self.times - right + 1)
        return math.exp(ways + right * math.log(truth) + (self.times - right) * math.log1p(-truth))
