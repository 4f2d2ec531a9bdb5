"""Shuffling: reports that arrive without their senders hide each other, and each person gets a smaller ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.errors import UsageError
from sfumato.local.designs import find_members
from sfumato.local.lattice_sums import LatticeSum
from sfumato.local.means import MeanResponse
from sfumato.local.response import RandomizedResponse
from sfumato.local.subset import SubsetResponse
from sfumato.privacy.exact import parse_delta, parse_nonnegative, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.exact import Number

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_PEOPLE = 10**7
_STEPS = 24  # lattice steps in a standard deviation, if there are not too many people; any number is valid
_PLACES = 2**20


class Bounds(NamedTuple):
    """The truth lies between these two."""

    lower: float
    upper: float


class ReportLaw(NamedTuple):
    """What shuffling depends on: how many reports there are, and which speak for each of three truths."""

    reports: int
    odds: Fraction
    truth: Ints
    other: Ints
    """The reports that speak for a truth, and for another that shares as few of them as any."""
    crowd: tuple[Ints, ...]
    """Reports for what all other people may have; the lower bound takes the worst of these."""


@dataclass(frozen=True, slots=True)
class Shuffled:
    """The reports of `people`, mixed by a shuffler that is trusted to forget who sent which.

    Protects : the truth of one respondent (replace-one), from whoever sees the mixed reports alone.
    Because  : docs/proofs/shuffling.md
    """

    mechanism: Any
    people: int

    def __post_init__(self) -> None:
        report_law(self.mechanism)  # refuses mechanisms whose reports cannot be shuffled
        if not 2 <= parse_whole(self.people, "people") <= MOST_PEOPLE:
            raise UsageError(
                "SF-N517", "Shuffling mixes the reports of 2 to 10^7 people.", got=str(self.people)
            )

    def delta(self, epsilon: Number) -> Bounds:
        """Return bounds of the least δ for which the mixed reports are (ε, δ)-private."""
        exact = parse_nonnegative(epsilon, "epsilon")
        return Bounds(self._least_delta(float(exact)), self._most_delta(float(exact)))

    def epsilon(self, delta: Number) -> Bounds:
        """Return bounds of the least ε for which the mixed reports are (ε, δ)-private."""
        wanted = float(parse_delta(delta))
        local = float(self.mechanism.epsilon)
        upper = min(_crossing(self._most_delta, wanted, local)[1], local)
        return Bounds(_crossing(self._least_delta, wanted, upper)[0], upper)

    def __str__(self) -> str:
        bounds = self.epsilon(Fraction(1, 10**6))
        return (
            f"Mixed with {self.people - 1:,} others, a report of ε = {float(self.mechanism.epsilon):.4g} is "
            f"(ε, 1e-6)-private for some ε from {bounds.lower:.4g} to {bounds.upper:.4g}."
        )

    # ---- parts ----

    def _most_delta(self, epsilon: float) -> float:
        """Return the upper bound: everybody else's truth is known, except where they answered blindly."""
        law = report_law(self.mechanism)
        odds, grown = float(law.odds), math.exp(epsilon)
        both = np.intersect1d(law.truth, law.other).size
        only, total = law.truth.size - both, (odds - 1) * law.truth.size + law.reports
        numbers = np.array([odds - grown, 1 - odds * grown, odds * (1 - grown), 1 - grown, 0.0])
        weights = np.array([only, only, both, law.reports - 2 * only - both])
        chances = np.append(weights / total, (odds - 1) * law.truth.size / total)
        numbers += 8 * 2.0**-52 * odds * grown  # covers the rounding of all of them
        step = _lattice_step(numbers, chances, grown - 1, self.people)
        found = LatticeSum(*spread_over_lattice(numbers / step, chances), self.people).positive_part()
        return min(1.0, found * step / self.people)

    def _least_delta(self, epsilon: float) -> float:
        """Return the lower bound: the best test found, if everybody else has one and the same truth."""
        law = report_law(self.mechanism)
        return max(self._tested(law, crowd, math.exp(epsilon)) for crowd in law.crowd)

    def _tested(self, law: ReportLaw, crowd: Ints, grown: float) -> float:
        odds = float(law.odds)
        total = (odds - 1) * law.truth.size + law.reports
        counts = _memberships(law, crowd)
        truth, other, same = (np.where(flags, odds, 1.0) for flags in _FLAGS)
        chances, gains = counts * same / total, (truth - grown * other) / total * counts
        numbers = (truth - grown * other) / same
        step = _lattice_step(numbers, chances, grown - 1, self.people)
        return best_test(
            np.rint(numbers / step).astype(np.int64), numbers / step, chances, gains, self.people
        )


def best_test(rounded: Ints, numbers: Floats, chances: Floats, gains: Floats, people: int) -> float:
    """Return a lower bound of Σ gains·P(sum + rounded > t), for the best t; the sum is that of the others."""
    # Rounding moves the sum by about as much as it moves the mean where the test decides.
    tilt = LatticeSum(*spread_over_lattice(numbers, chances), people).tilt
    weights = chances * np.exp(tilt * (numbers - numbers.max()))
    centre = round(float(weights @ (rounded - numbers)) / float(weights.sum()) * people)
    _, low, high = LatticeSum(rounded, chances, people - 1, centre).tails()
    reach = int(np.abs(rounded).max())
    if low.size <= 2 * reach:
        return 0.0
    found = np.zeros(low.size - 2 * reach)
    for number, gain in zip(rounded.tolist(), gains.tolist(), strict=True):
        chosen = slice(reach - number, reach - number + found.size)
        # What the sum of the terms may lose to rounding is taken off with each of them.
        found += gain * (low if gain > 0 else high)[chosen] * (1 - math.copysign(1e-12, gain))
    return max(0.0, float(found.max()) - 1e-14 * float(np.abs(gains).sum() + 1))


_FLAGS = np.array([[place >> bit & 1 for place in range(8)] for bit in range(3)], dtype=bool)


def _memberships(law: ReportLaw, crowd: Ints) -> Floats:
    """Return how many reports speak for each combination of truth, other and crowd, as _FLAGS orders them."""
    named, codes = np.unique(np.concatenate([law.truth, law.other, crowd]), return_inverse=True)
    flags = np.zeros(named.size, dtype=np.int64)
    flags[codes[: law.truth.size]] |= 1
    flags[codes[law.truth.size : law.truth.size + law.other.size]] |= 2
    flags[codes[law.truth.size + law.other.size :]] |= 4
    counts = np.bincount(flags, minlength=8).astype(np.float64)
    counts[0] = law.reports - named.size
    return counts


def _lattice_step(numbers: Floats, chances: Floats, unit: float, people: int) -> float:
    """Return a step that is fine against the spread of the numbers, and divides the commonest of them."""
    mean = float(chances @ numbers)
    deviation = math.sqrt(float(chances @ (numbers - mean) ** 2))
    step = deviation * max(1 / _STEPS, 18 * math.sqrt(people) / _PLACES)
    return unit / math.ceil(unit / step) if unit > step else step


def spread_over_lattice(numbers: Floats, chances: Floats) -> tuple[Ints, Floats]:
    """Return whole numbers with chances: each number is split between its neighbours, with the same mean."""
    below = np.floor(numbers)
    above = numbers - below
    places = np.concatenate([below, below + 1]).astype(np.int64)
    named, codes = np.unique(places, return_inverse=True)
    weights = np.concatenate([chances * (1 - above), chances * above])
    return named, np.bincount(codes, weights=weights).astype(np.float64)


def _crossing(delta: Callable[[float], float], wanted: float, high: float) -> tuple[float, float]:
    """Return two close numbers: δ at the first exceeds what is wanted, or it is 0; at the second not."""
    low, below = 0.0, _excess(delta(0.0), wanted)
    if below <= 0:
        return 0.0, 0.0
    above, guess = _excess(delta(high), wanted), high / 16
    if above > 0:
        return high, math.inf
    while high - low > 1e-4 * high and high > 1e-8:
        found = _excess(delta(guess), wanted)
        if found > 0:
            low, below, above = guess, found, above / 2
        else:
            high, above, below = guess, found, below / 2
        # Where the line between both ends meets 0, but not too close to an end; far from it, by factors.
        share = min(max(below / (below - above), 0.02), 0.98)
        guess = low + share * (high - low) if 4 * low > high else max(math.sqrt(low * high), high / 16)
    return low, high


def _excess(delta: float, wanted: float) -> float:
    return math.log(max(delta, 1e-300)) - math.log(wanted)


@singledispatch
def report_law(mechanism: Any) -> ReportLaw:
    """Return what shuffling a mechanism's reports depends on."""
    raise UsageError(
        "SF-N518",
        "Reports of this mechanism cannot be shuffled.",
        got=type(mechanism).__name__,
        try_="RandomizedResponse, SubsetResponse or MeanResponse",
    )


@report_law.register
def _(mechanism: RandomizedResponse) -> ReportLaw:
    truth, other, third = np.array([0]), np.array([1]), np.array([2])
    crowd = (third,) if mechanism.values > 2 else (truth, other)
    return ReportLaw(mechanism.values, mechanism.odds, truth, other, crowd)


@report_law.register
def _(mechanism: MeanResponse) -> ReportLaw:
    window, last = np.arange(mechanism.window), mechanism.positions - mechanism.window
    crowd = (window, window + last, window + last // 2)
    return ReportLaw(mechanism.positions, mechanism.odds, window, window + last, crowd)


@report_law.register
def _(mechanism: SubsetResponse) -> ReportLaw:
    return _subset_law(mechanism)


@lru_cache(maxsize=8)
def _subset_law(mechanism: SubsetResponse) -> ReportLaw:
    design, members = mechanism.design, find_members(mechanism.design.places)
    cycle = design.places.cycle
    crowd: tuple[Ints, ...]
    if design.groups > 1:
        other = members + cycle
        crowd = (members + 2 * cycle,) if design.groups > 2 else (members, other)
    else:
        # Places beyond the last value are nobody's truth.
        other = (members + _least_overlap(members, cycle, mechanism.values)) % cycle
        crowd = tuple((members + move) % cycle for move in (0, 2, 3) if move < mechanism.values)
    return ReportLaw(design.reports, mechanism.odds, members, other, crowd)


def _least_overlap(members: Ints, cycle: int, values: int) -> int:
    """Return the move between two of the values by which a set shares the fewest members with itself."""
    length = 2 ** (2 * cycle - 1).bit_length()
    indicator = np.zeros(length)
    indicator[members] = 1
    shared = np.fft.irfft(np.abs(np.fft.rfft(indicator)) ** 2, length)
    # Moves by y and by y − cycle are one.
    both = shared[1:values] + shared[length - cycle + 1 : length - cycle + values]
    return int(np.argmin(np.rint(both))) + 1
