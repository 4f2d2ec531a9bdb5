"""Subset selection: reports about values of a large list, with the least error known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
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

MOST_SUBSET_VALUES = 2**12
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, init=False)
class SubsetResponse:
    """A random set of `size` values; each set with the truth is `odds` times as likely as each without it.

    Privacy
    -------
    Protects : the truth of one respondent, who is known to take part (replace-one).
    Costs    : RandomizedAnswer(epsilon), each time that a person is asked.
    Because  : docs/proofs/local.md
    Assumes  : a person's reports on different questions and rounds use fresh coins, and are all charged.
    """

    epsilon: Fraction
    values: int
    size: int
    """Number of values in a report."""
    odds: Fraction = field(compare=False)
    """Fraction that is drawn by: ln(odds) ≤ ε, short of it by at most one part in 2³²."""

    def __init__(self, epsilon: Number, values: int) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "values", parse_values(values, MOST_SUBSET_VALUES))
        object.__setattr__(self, "odds", odds_within(self.epsilon))
        object.__setattr__(self, "size", plan_size(self.values, self.odds))
        require_drawable(self._numbers(), self.values)

    @property
    def truth(self) -> Fraction:
        """Probability that a report has the true value."""
        return subset_chances(self.values, self.size, self.odds)[0]

    @property
    def lie(self) -> Fraction:
        """Probability that a report has any one of the other values."""
        return subset_chances(self.values, self.size, self.odds)[1]

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        once = events.RandomizedAnswer(self.epsilon)
        return once if times == 1 else events.Repeated(once, times)

    def privatize(self, truths: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]:
        """Return a report for each true value: `size` ascending values along a new last axis."""
        exact = parse_codes(truths, self.values)
        return observed(self, exact, 1, lambda: self._draw_reports(exact, source))

    def estimate(self, reports: ArrayLike) -> Estimate:
        """Return the estimated shares of the true values behind these reports."""
        told = self._parse_reports(reports)
        counts = np.bincount(told.ravel(), minlength=self.values)
        return Estimate(tuple(counts.tolist()), self.truth, self.lie, self.size)

    def expected_error(self, answers: int) -> float:
        """Return the standard error of a share from so many reports, if no value is frequent."""
        return math.sqrt(_squared_error(self.values, self.size, self.odds) / parse_whole(answers, "answers"))

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        return describe_question("subset", self.odds, values=self.values, size=self.size)

    def collect(self, messages: Iterable[Message]) -> NDArray[np.int64]:
        """Return the reports in clients' messages; all of them must answer this question."""
        return self._parse_reports(read_messages(self.question(), messages, self.size))

    # ---- parts ----

    def _draw_reports(self, exact: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
        people = exact.ravel()
        at_once = max(_NUMBERS_AT_ONCE // self.values, 1)
        parts = [
            self._draw_sets(people[start : start + at_once], source)
            for start in range(0, people.size, at_once)
        ]
        return np.concatenate(parts).reshape(*exact.shape, self.size)

    def _draw_sets(self, truths: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
        # For odds a/b, a set has the truth for a·size numbers of a·size + b·(values − size).
        with_truth = draw_uniform(self._numbers(), truths.size, source) < self.odds.numerator * self.size
        # The first `size` of the other values in a random order. All of them are drawn in either case.
        order = np.tile(np.arange(self.values - 1), (truths.size, 1))
        rows = np.arange(truths.size)
        for place in range(self.size):
            other = place + draw_uniform(self.values - 1 - place, truths.size, source)
            order[rows, place], order[rows, other] = order[rows, other], order[rows, place]
        chosen = order[:, : self.size]
        chosen += chosen >= truths[:, None]
        chosen[:, 0] = np.where(with_truth, truths, chosen[:, 0])
        return np.sort(chosen, axis=1)

    def _numbers(self) -> int:
        return self.odds.numerator * self.size + self.odds.denominator * (self.values - self.size)

    def _parse_reports(self, reports: Any) -> NDArray[np.int64]:
        told = parse_codes(reports, self.values)
        if told.ndim == 0 or told.shape[-1] != self.size or (np.diff(told, axis=-1) <= 0).any():
            raise UsageError(
                "SF-N502",
                "A report is not a set of values.",
                expected=f"{self.size} different values, ascending",
            )
        return told


def subset_chances(values: int, size: int, odds: Fraction) -> tuple[Fraction, Fraction]:
    """Return the probabilities that a report has the true value, and that it has any one other value."""
    truth = odds * size / (odds * size + values - size)
    return truth, (size - truth) / (values - 1)


def plan_size(values: int, odds: Fraction) -> int:
    """Return the size of a report with the least squared error, if no value is frequent."""
    # The error is least at values/(odds + 1); one of the two whole numbers around it is the best.
    least = max(math.floor(values / (odds + 1)), 1)
    return min((least, least + 1), key=lambda size: _squared_error(values, size, odds))


def _squared_error(values: int, size: int, odds: Fraction) -> float:
    """Return the variance that one report adds to the estimate of a value that nobody has."""
    if size >= values:
        return math.inf
    truth, lie = subset_chances(values, size, odds)
    return float(lie * (1 - lie) / (truth - lie) ** 2)
