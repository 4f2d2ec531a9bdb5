"""One-bit reports: each person is assigned a public row of a Hadamard matrix and tells a noisy bit of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.local.frequency import FrequencyEstimate
from sfumato.local.messages import describe_question, read_messages
from sfumato.local.odds import odds_within
from sfumato.local.parameters import parse_answer_epsilon, parse_codes, parse_values, require_drawable
from sfumato.local.subset import MOST_SUBSET_VALUES
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
class HadamardBit:
    """One bit: the parity of the bits that a public row and the value have in common, told with a noisy coin.

    Below ε = 1/2 it is nearly as accurate as the longer reports of SubsetResponse; at ε = 1 its squared error
    is 1.27 times theirs.

    Privacy
    -------
    Protects : the truth of one respondent, who is known to take part (replace-one), whatever the row.
    Costs    : RandomizedAnswer(epsilon), each time that a person is asked.
    Because  : docs/proofs/local.md
    Assumes  : rows are assigned without looking at truths; every bit is told with fresh coins and charged.
    """

    epsilon: Fraction
    values: int
    odds: Fraction = field(compare=False)
    """Fraction that is drawn by: ln(odds) ≤ ε, short of it by at most one part in 2³²."""

    def __init__(self, epsilon: Number, values: int) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "values", parse_values(values, MOST_SUBSET_VALUES))
        object.__setattr__(self, "odds", odds_within(self.epsilon))
        require_drawable(self._numbers(), self.values)

    @property
    def row_count(self) -> int:
        """Number of rows; rows are numbered from 1, because row 0 tells nothing."""
        return int(2 ** self.values.bit_length() - 1)

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        once = events.RandomizedAnswer(self.epsilon)
        return once if times == 1 else events.Repeated(once, times)

    def assign_rows(self, people: int, *, source: BitSource = OS) -> NDArray[np.int64]:
        """Return a random row for each of so many people. Rows are public."""
        return draw_uniform(self.row_count, parse_whole(people, "people"), source) + 1

    def privatize(self, truths: ArrayLike, rows: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]:
        """Return a noisy bit for each true value, 0 to values − 1, and the row of its owner."""
        exact = parse_codes(truths, self.values)
        public = self._parse_rows(rows, exact.shape)
        return observed(self, exact, 1, lambda: self._draw_bits(exact, public, source))

    def estimate(self, reports: Any, rows: Any) -> FrequencyEstimate:
        """Return the estimated share of every value behind these bits, told for these rows."""
        bits = parse_codes(reports, 2)
        public = self._parse_rows(rows, bits.shape)
        signs = np.where(bits, -1.0, 1.0).ravel()
        sums = np.bincount(public.ravel(), weights=signs, minlength=self.row_count + 1).astype(np.float64)
        contrast = float((self.odds - 1) / (self.odds + 1))
        others = 1 / self.row_count  # two values agree in one row fewer than they differ in
        scale = 1 / (1 + others)
        shares = (walsh_transform(sums) / (bits.size * contrast) + others) * scale
        spread, rise = scale**2 * (contrast**-2 - others**2), scale**2 * (others**2 - 1)
        largest = scale * (1 / contrast + others)
        base = np.full(self.values, spread)
        return FrequencyEstimate(bits.size, shares[1 : self.values + 1], base, rise, base, largest)

    def expected_error(self, answers: int) -> float:
        """Return the standard error of a share from so many reports, if no value is frequent."""
        contrast = float((self.odds - 1) / (self.odds + 1))
        return 1 / (contrast * math.sqrt(parse_whole(answers, "answers")))

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        return describe_question("hadamard", self.odds, values=self.values)

    def collect(self, messages: Iterable[Message]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the bits and the rows in clients' messages; all of them must answer this question."""
        reports, rows = read_messages(self.question(), messages, "report", "row")
        bits = parse_codes(reports, 2)
        return bits, self._parse_rows(rows, bits.shape)

    # ---- parts ----

    def _draw_bits(
        self, exact: NDArray[np.int64], rows: NDArray[np.int64], source: BitSource
    ) -> NDArray[np.int64]:
        # Value v has the number v + 1, because 0 has no bit in common with any row.
        parity = np.bitwise_count(rows & (exact + 1)).astype(np.int64) & 1
        numbers = draw_uniform(self._numbers(), exact.size, source).reshape(exact.shape)
        return np.asarray(np.where(numbers < self.odds.numerator, parity, 1 - parity), dtype=np.int64)

    def _numbers(self) -> int:
        return self.odds.numerator + self.odds.denominator

    def _parse_rows(self, rows: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
        public = parse_codes(rows, self.row_count + 1)
        if public.shape != shape or not public.min():
            raise UsageError(
                "SF-N514",
                "Every answer needs the public row of its owner.",
                got=f"{public.size} rows",
                rows=f"{math.prod(shape)}, each from 1 to {self.row_count}",
                try_="rows = mechanism.assign_rows(people)",
            )
        return public


def walsh_transform(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ numbers[j]·(−1)^(bits that i and j share) for every i; the length is a power of two."""
    result, half = numbers, 1
    while half < numbers.size:
        pairs = result.reshape(-1, 2, half)
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return result.ravel()
