"""Reports about values of a large list: as accurate as subset selection, hardly longer than the value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sfumato.errors import UsageError
from sfumato.local.designs import (
    CyclotomicSet,
    PlaceSet,
    ReportDesign,
    find_members,
    least_squared_error,
    plan_design,
)
from sfumato.local.frequency import FrequencyEstimate
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

MOST_SUBSET_VALUES = 2**22


@dataclass(frozen=True, slots=True, init=False)
class SubsetResponse:
    """One report out of many: those that speak for the truth are `odds` times as likely as the others.

    Privacy
    -------
    Protects : the truth of one respondent, who is known to take part (replace-one).
    Costs    : RandomizedAnswer(epsilon), each time that a person is asked.
    Because  : docs/proofs/local.md
    Assumes  : a person's reports on different questions and rounds use fresh coins, and are all charged.
    """

    epsilon: Fraction
    values: int
    design: ReportDesign
    odds: Fraction = field(compare=False)
    """Fraction that is drawn by: ln(odds) ≤ ε, short of it by at most one part in 2³²."""

    def __init__(self, epsilon: Number, values: int, *, bits: int | None = None) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "values", parse_values(values, MOST_SUBSET_VALUES))
        object.__setattr__(self, "odds", odds_within(self.epsilon))
        object.__setattr__(self, "design", plan_design(self.values, float(self.odds), self._length(bits)))
        require_drawable(self._numbers(), self.values)

    @property
    def bits(self) -> int:
        """Length of a report."""
        return self.design.bits

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        once = events.RandomizedAnswer(self.epsilon)
        return once if times == 1 else events.Repeated(once, times)

    @overload
    def privatize(self, truths: int, *, source: BitSource = OS) -> int: ...
    @overload
    def privatize(self, truths: ArrayLike, *, source: BitSource = OS) -> NDArray[np.int64]: ...
    def privatize(self, truths: Any, *, source: BitSource = OS) -> NDArray[np.int64] | int:
        """Return a report for each true value, 0 to values − 1, in the same shape."""
        exact = parse_codes(truths, self.values)
        reports = observed(self, exact, 1, lambda: self._draw_reports(exact, source))
        return reports if exact.ndim else int(reports[()])

    def estimate(self, reports: Any) -> FrequencyEstimate:
        """Return the estimated share of every value behind these reports."""
        seen = parse_codes(reports, self.design.reports).ravel()
        counts = np.bincount(seen, minlength=self.design.reports)
        places, odds = self.design.places, float(self.odds)
        weight = self._numbers() / self.odds.denominator / (odds - 1)
        # Every report is expected so often whatever the truth; what exceeds that speaks for values.
        excess = counts.astype(np.float64) * (weight / seen.size) - 1 / (odds - 1)
        excess = excess.reshape(self.design.groups, places.cycle)
        shares = convolve(excess, places)
        own, inside, outside = second_moments(self.design, odds)
        worst, largest = report_bounds(self.design, odds)
        of_group = np.clip(excess.sum(axis=1) / places.size, 0, 1)
        base = np.tile(outside + (inside - outside) * of_group, places.cycle)[: self.values]
        # By Hoeffding no group is larger than this, but for one chance in a billion for all of them together.
        margin = weight / places.size * math.sqrt(math.log(1e9 * self.design.groups) / (2 * seen.size))
        most = np.minimum(of_group + margin, 1) if places.cycle > 1 else np.zeros(of_group.size)
        spread = np.tile(outside + (worst - outside) * most, places.cycle)[: self.values]
        shares = shares.T.ravel()[: self.values]
        return FrequencyEstimate(seen.size, shares, base, own - 1 - inside, spread, largest)

    def expected_error(self, answers: int) -> float:
        """Return the root mean squared error of a share from so many reports, if no value is frequent."""
        return math.sqrt(self.design.squared_error(float(self.odds)) / parse_whole(answers, "answers"))

    @property
    def excess(self) -> float:
        """Expected squared error over that of subset selection, the most accurate method known."""
        odds = float(self.odds)
        return self.design.squared_error(odds) / least_squared_error(self.values, odds)

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        facts = {"values": self.values, "groups": self.design.groups, "cycle": self.design.places.cycle}
        return describe_question("subset", self.odds, **facts, **self.design.places.describe())

    def collect(self, messages: Iterable[Message]) -> NDArray[np.int64]:
        """Return the reports in clients' messages; all of them must answer this question."""
        [reports] = read_messages(self.question(), messages, "report")
        return parse_codes(reports, self.design.reports)

    # ---- parts ----

    def _draw_reports(self, exact: NDArray[np.int64], source: BitSource) -> NDArray[np.int64]:
        # For odds a/b: each report has b numbers, and each that speaks for the truth a − b more. The latter
        # come first.
        a, b = self.odds.numerator, self.odds.denominator
        groups, cycle = self.design.groups, self.design.places.cycle
        members = find_members(self.design.places)
        numbers = draw_uniform(self._numbers(), exact.size, source).reshape(exact.shape)
        speaking = (a - b) * members.size
        reports = (numbers - speaking) // b
        place = members[np.minimum(numbers // (a - b), members.size - 1)] + exact // groups
        place -= cycle * (place >= cycle)
        return np.where(numbers < speaking, exact % groups * cycle + place, reports)

    def _numbers(self) -> int:
        a, b = self.odds.numerator, self.odds.denominator
        return (a - b) * self.design.places.size + b * self.design.reports

    def _length(self, bits: int | None) -> int | None:
        if bits is None:
            return None
        least, length = (self.values - 1).bit_length(), parse_whole(bits, "bits")
        if not least <= length <= least + 5:
            raise UsageError(
                "SF-N513",
                "Reports about so many values cannot have this length.",
                got=f"{length} bits",
                allowed=f"{least} to {least + 5} bits",
            )
        return length


def convolve(rows: NDArray[np.float64], places: PlaceSet) -> NDArray[np.float64]:
    """Return the cyclic convolution of every row with the inverse of a set."""
    # Lengths of cycles may be prime; a power of two that holds two of them is faster.
    if places.cycle == 1:
        return rows
    length = 2 ** (2 * places.cycle - 1).bit_length()
    long = np.fft.irfft(np.fft.rfft(rows, length) * _inverse_spectrum(places, length), length)
    long[:, : places.cycle] += long[:, places.cycle : 2 * places.cycle]
    return long[:, : places.cycle]


@lru_cache(maxsize=2)
def _inverse_spectrum(places: PlaceSet, length: int) -> NDArray[np.complex128]:
    found: NDArray[np.complex128] = np.fft.rfft(places.inverse(), length)
    return found


@lru_cache(maxsize=64)
def second_moments(design: ReportDesign, odds: float) -> tuple[float, float, float]:
    """Return the expected square of what one report adds to the estimate of a value.

    For a person who has that value, has another one of its group on average, or has one of another group.
    """
    places, cycle = design.places, design.places.cycle
    total = (odds - 1) * places.size + design.reports
    constant = 1 / ((odds - 1) * places.size)  # taken off for every report, whatever its group
    squares = (places.inverse() * total / (odds - 1) - constant) ** 2
    # A report counts by the inverse at value − report, and speaks for the truth where report − truth is a
    # member. Over all truths of the group, every member meets every place once.
    meets = float(squares[-find_members(places) % cycle].sum())
    rest = (design.reports - cycle) * constant**2
    same = squares.sum() + rest
    own = (same + (odds - 1) * meets) / total
    inside = (same + (odds - 1) * (places.size * squares.sum() - meets) / max(cycle - 1, 1)) / total
    outside = (squares.sum() + (total - cycle) * constant**2) / total
    return float(own), float(inside), float(outside)


@lru_cache(maxsize=64)
def report_bounds(design: ReportDesign, odds: float) -> tuple[float, float]:
    """Return the largest expected square for another truth of the group, and the most that a report adds."""
    places, cycle = design.places, design.places.cycle
    total, constant = (odds - 1) * places.size + design.reports, 1 / ((odds - 1) * places.size)
    adds = places.inverse() * total / (odds - 1) - constant
    _, inside, _ = second_moments(design, odds)
    if isinstance(places, CyclotomicSet):
        # Truths of one group differ here; over all moves of the set, the squares that it meets.
        length = 2 ** (2 * cycle - 1).bit_length()
        indicator = np.zeros(cycle)
        indicator[find_members(places)] = 1
        met = np.fft.irfft(np.fft.rfft(adds**2, length) * np.fft.rfft(indicator, length), length)
        most = float((met[:cycle] + met[cycle : 2 * cycle])[1:].max())
        rest = float((adds**2).sum()) + (design.reports - cycle) * constant**2
        inside = (rest + (odds - 1) * most) / total * (1 + 1e-9)
    return inside, float(adds.max())
