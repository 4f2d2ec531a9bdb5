"""Heavy hitters among more values than can be listed: frequent prefixes first, then what begins with them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.local.messages import describe_question, read_messages
from sfumato.local.parameters import parse_answer_epsilon, parse_codes
from sfumato.local.subset import SubsetResponse
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS, draw_uniform
from sfumato.privacy.exact import parse_interval_level, parse_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from sfumato.local.frequency import FrequencyEstimate
    from sfumato.local.messages import Message
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy import events
    from sfumato.privacy.exact import Number

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_BITS = 52
"""Codes of values are whole numbers that JavaScript counts exactly."""
LISTED_BITS = 20
"""Prefixes of so many bits are all estimated; longer ones are hashed to as many places."""
STEP_BITS = 10
MOST_SURVIVORS = 4096
_PRIME = 2**31 - 1
_LIMB = 26


@dataclass(frozen=True, slots=True, init=False)
class HeavyHitters:
    """Each person reports on one prefix of their value, of a length that is drawn at random and told.

    Privacy
    -------
    Protects : the value of one respondent, who is known to take part (replace-one).
    Costs    : RandomizedAnswer(epsilon), each time that a person is asked.
    Because  : docs/proofs/local.md
    Assumes  : a person's reports on different questions and rounds use fresh coins, and are all charged.
    """

    epsilon: Fraction
    bits: int
    key: int
    """Public: chooses the hash functions. It has no part in privacy."""
    response: SubsetResponse = field(compare=False)

    def __init__(self, epsilon: Number, bits: int, *, key: int = 0) -> None:
        object.__setattr__(self, "epsilon", parse_answer_epsilon(epsilon))
        object.__setattr__(self, "bits", parse_whole(bits, "bits"))
        object.__setattr__(self, "key", key)
        if self.bits > MOST_BITS:
            raise UsageError("SF-N521", "Codes have from 1 to 52 bits.", got=f"{self.bits} bits")
        object.__setattr__(self, "response", SubsetResponse(epsilon, 2 ** min(self.bits, LISTED_BITS)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the prefixes that are asked for; the longest twice where it is hashed, as a check."""
        lengths = [min(self.bits, LISTED_BITS)]
        while lengths[-1] < self.bits:
            lengths.append(min(self.bits, lengths[-1] + STEP_BITS))
        return (*lengths, self.bits) if self.bits > LISTED_BITS else tuple(lengths)

    def event(self, times: int = 1) -> events.Event:
        """Return the price for a person who is asked so many times, with fresh coins each time."""
        return self.response.event(times)

    def privatize(self, codes: ArrayLike, *, source: BitSource = OS) -> tuple[Ints, Ints]:
        """Return the number of the prefix that each person reports on, and the report."""
        exact = parse_codes(codes, 2**self.bits)
        return observed(self, exact, 1, lambda: self._draw_reports(exact, source))

    def find(self, levels: Any, reports: Any, *, false_alarm: Number = 0.05) -> HeavyHitterList:
        """Return the values that are surely frequent.

        With probability at most `false_alarm` a value whose place nobody's value shares is among them.
        """
        chosen = parse_codes(levels, len(self.lengths))
        told = parse_codes(reports, self.response.design.reports)
        if chosen.shape != told.shape or np.unique(chosen).size < len(self.lengths):
            raise UsageError(
                "SF-N522",
                "Heavy hitters need the number of its prefix for every report, and reports on every prefix.",
                try_="found = hitters.find(*hitters.privatize(codes))",
            )
        alarm = parse_interval_level(false_alarm) / len(self.lengths)
        found, before = np.zeros(1, dtype=np.int64), 0
        for level, length in enumerate(self.lengths):
            seen = self.response.estimate(told[chosen == level])
            found = (found[:, None] << (length - before) | np.arange(2 ** (length - before))).ravel()
            found, before = self._survivors(found, level, seen, alarm), length
            if not found.size:
                break
        places = self.hash_prefixes(found, len(self.lengths) - 1)
        order = np.argsort(-seen.shares[places], kind="stable")
        return HeavyHitterList(found[order], places[order], seen)

    def hash_prefixes(self, prefixes: Ints, level: int) -> Ints:
        """Return the places of these prefixes among those that are estimated."""
        if self.lengths[level] <= LISTED_BITS:
            return prefixes
        high, low, offset = self._hash(level)
        mixed = high * (prefixes >> _LIMB) + low * (prefixes & (2**_LIMB - 1)) + offset
        return np.asarray(mixed % _PRIME % 2**LISTED_BITS, dtype=np.int64)

    def expected_error(self, answers: int) -> float:
        """Return the root mean squared error of a share from so many reports, if no value is frequent."""
        people = parse_whole(answers, "answers") / len(self.lengths)
        return self.response.expected_error(1) / math.sqrt(people)

    def question(self) -> dict[str, Any]:
        """Return the question as plain values, for a client that answers it."""
        hashes = [list(self._hash(level)) for level in range(len(self.lengths))]
        facts = {"bits": self.bits, "lengths": list(self.lengths), "hashes": hashes}
        return describe_question("prefix", self.response.odds, **facts, part=self.response.question())

    def collect(self, messages: Iterable[Message]) -> tuple[Ints, Ints]:
        """Return the prefixes' numbers and the reports in clients' messages about this question."""
        levels, reports = read_messages(self.question(), messages, "level", "report")
        return parse_codes(levels, len(self.lengths)), parse_codes(reports, self.response.design.reports)

    # ---- parts ----

    def _draw_reports(self, exact: Ints, source: BitSource) -> tuple[Ints, Ints]:
        levels = draw_uniform(len(self.lengths), exact.size, source).reshape(exact.shape)
        places = np.zeros_like(exact)
        for level, length in enumerate(self.lengths):
            mine = levels == level
            places[mine] = self.hash_prefixes(exact[mine] >> (self.bits - length), level)
        return levels, np.asarray(self.response.privatize(places, source=source))

    def _survivors(self, candidates: Ints, level: int, seen: FrequencyEstimate, alarm: float) -> Ints:
        places = self.hash_prefixes(candidates, level)
        shares = seen.shares[places]
        kept = np.flatnonzero(shares > seen.threshold(alarm, candidates.size)[places])
        return np.sort(candidates[kept[np.argsort(-shares[kept], kind="stable")][:MOST_SURVIVORS]])

    def _hash(self, level: int) -> tuple[int, int, int]:
        digest = hashlib.sha256(f"sfumato prefix {self.key} {level}".encode()).digest()
        high, low, offset = (int.from_bytes(digest[8 * i : 8 * i + 8], "big") % _PRIME for i in range(3))
        return high, low, offset


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeavyHitterList:
    """Values found to be frequent, most frequent first, with the estimates of their shares."""

    codes: Ints
    """Values that are frequent."""
    places: Ints
    """Where the estimates of these are found."""
    estimate: FrequencyEstimate
    """Estimate from the reports on whole values."""

    @property
    def shares(self) -> Floats:
        """Unbiased estimates of the share of each value, as far as none of them hides another."""
        return self.estimate.shares[self.places]

    def interval(self, confidence: Number = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of the confidence intervals of the shares."""
        if not self.codes.size:
            return np.zeros(0), np.zeros(0)
        return self.estimate.interval(confidence, of=self.places)

    def plot(self, confidence: Number = 0.95) -> viz.Chart:
        """Return a chart of the shares with their intervals."""
        low, high = self.interval(confidence)
        title = f"Frequent values in {self.estimate.answers:,} reports"
        return viz.bars(self.codes.tolist(), self.shares, low, high, title=title, x="value", y="share")

    def to_dict(self) -> dict[str, Any]:
        """Return the values as plain numbers, with their shares and 95 % intervals."""
        low, high = self.interval()
        intervals = np.stack([low, high], axis=1).tolist()
        return {"values": self.codes.tolist(), "shares": self.shares.tolist(), "intervals": intervals}

    def __str__(self) -> str:
        if not self.codes.size:
            return "No value is surely frequent."
        rows = zip(self.codes.tolist(), self.shares, *self.interval(), strict=True)
        return "\n".join(f"{code}  {share:.4f} (95 %: {a:.4f} to {b:.4f})" for code, share, a, b in rows)

    __repr__ = __str__
