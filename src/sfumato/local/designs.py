"""Which reports speak for which value: difference sets, repeated in groups, and the choice among them.

Reports and values are numbers (group, place), with places on a cycle. The reports that speak for a value are
those of its group at its place plus a member of one set. Why this is accurate: docs/proofs/local.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.local import fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

NEAR_OPTIMUM = 1.05
"""Squared error over the optimum that is good enough to stop looking for more accurate designs."""
MOST_REPORTS = 2**23
_CLASSES = ((10, 4), (14, 5), (12, 5), (8, 3))
"""How many cyclotomic classes there are, and how many are joined. They fill the gap between Singer's sets of
half and of a third of all places, which are rarely of a fitting length. Privacy does not depend on them."""
_PRIMES_TRIED = 12


@dataclass(frozen=True, slots=True)
class SingerSet:
    """Singer's difference set: the hyperplane of zero trace in the projective space over q = prime^power."""

    prime: int
    power: int
    dimension: int

    @property
    def order(self) -> int:
        """Number of elements of the field, q."""
        return int(self.prime**self.power)

    @property
    def apart(self) -> int:
        """Number of members that are not members of the set moved to another place."""
        return int(self.order ** (self.dimension - 2))

    @property
    def cycle(self) -> int:
        """Number of places."""
        return int((self.order**self.dimension - 1) // (self.order - 1))

    @property
    def size(self) -> int:
        """Number of members."""
        return (self.cycle - 1) // self.order

    @property
    def evenness(self) -> float:
        """Mean of 1/|spectrum|² over all frequencies; it is the same at all but frequency 0."""
        return ((self.cycle - 1) / self.apart + 1 / self.size**2) / self.cycle

    def members(self) -> NDArray[np.int64]:
        """Return the members, ascending."""
        rule = fields.primitive_polynomial(self.prime, self.power * self.dimension)
        terms = fields.recurrence(rule, self.power * self.cycle, self.prime)
        return np.flatnonzero((terms.reshape(self.power, self.cycle) == 0).all(axis=0))

    def inverse(self) -> NDArray[np.float64]:
        """Return the function whose convolution with the set's indicator is 1 at place 0 and 0 elsewhere."""
        found = np.full(self.cycle, -(self.size - self.apart) / (self.size * self.apart))
        found[-find_members(self) % self.cycle] = 1 / self.size
        return found

    def describe(self) -> dict[str, Any]:
        """Return what a client needs to find the members."""
        rule = fields.primitive_polynomial(self.prime, self.power * self.dimension)
        return {"set": "singer", "prime": self.prime, "power": self.power, "rule": list(rule)}


@dataclass(frozen=True, slots=True)
class CyclotomicSet:
    """Some of the classes of numbers modulo a prime that are alike up to a power of the given order."""

    prime: int
    order: int
    classes: tuple[int, ...]
    evenness: float
    """Mean of 1/|spectrum|² over all frequencies."""

    @property
    def cycle(self) -> int:
        """Number of places."""
        return self.prime

    @property
    def size(self) -> int:
        """Number of members."""
        return (self.prime - 1) // self.order * len(self.classes)

    def members(self) -> NDArray[np.int64]:
        """Return the members, ascending."""
        numbers = fields.powers(fields.primitive_root(self.prime), self.prime - 1, self.prime)
        return np.sort(np.concatenate([numbers[start :: self.order] for start in self.classes]))

    def inverse(self) -> NDArray[np.float64]:
        """Return the function whose convolution with the set's indicator is 1 at place 0 and 0 elsewhere."""
        numbers = fields.powers(fields.primitive_root(self.prime), self.prime - 1, self.prime)
        periods = _periods(numbers, self.prime, self.order)
        spectrum = sum((np.roll(periods, -start) for start in self.classes), np.zeros(self.order, complex))
        weights = 1 / spectrum.conj()
        # Like the spectrum, the inverse is constant on every class.
        of_class = [float((weights * np.roll(periods, -start)).sum().real) for start in range(self.order)]
        found = np.empty(self.prime)
        found[0] = float(weights.sum().real) * (self.prime - 1) / self.order
        for start, value in enumerate(of_class):
            found[numbers[start :: self.order]] = value
        return (found + 1 / self.size) / self.prime

    def describe(self) -> dict[str, Any]:
        """Return what a client needs to find the members."""
        root = fields.primitive_root(self.prime)
        return {
            "set": "cyclotomic",
            "prime": self.prime,
            "root": root,
            "order": self.order,
            "classes": list(self.classes),
        }


@dataclass(frozen=True, slots=True)
class PointSet:
    """A cycle of one place: every value has one report of its own, as in randomized response."""

    cycle: int = 1
    size: int = 1
    evenness: float = 1.0

    def members(self) -> NDArray[np.int64]:
        """Return the members, ascending."""
        return np.zeros(1, dtype=np.int64)

    def inverse(self) -> NDArray[np.float64]:
        """Return the function whose convolution with the set's indicator is 1 at place 0 and 0 elsewhere."""
        return np.ones(1)

    def describe(self) -> dict[str, Any]:
        """Return what a client needs to find the members."""
        return {"set": "point"}


PlaceSet = SingerSet | CyclotomicSet | PointSet


@dataclass(frozen=True, slots=True)
class ReportDesign:
    """So many groups of one set, over which values are spread: v is place v // groups of group v % groups."""

    groups: int
    places: PlaceSet

    @property
    def reports(self) -> int:
        """Number of different reports."""
        return self.groups * self.places.cycle

    @property
    def bits(self) -> int:
        """Length of a report."""
        return max((self.reports - 1).bit_length(), 1)

    def squared_error(self, odds: float) -> float:
        """Return the mean squared error of a share from one answer, if all values are equally frequent."""
        weight = ((odds - 1) * self.places.size + self.reports) / (odds - 1)
        # The sum of all shares is known, so frequency 0 of all groups together has no error.
        return weight**2 / self.reports * (self.places.evenness - 1 / (self.places.size**2 * self.reports))


def least_squared_error(values: int, odds: float) -> float:
    """Return the mean squared error of subset selection at its best size; no method is known to beat it."""
    near = values / (odds + 1)
    sizes = {max(1, math.floor(near)), max(1, math.ceil(near))}
    return min(_subset_selection(values, odds, size) for size in sizes)


def _subset_selection(values: int, odds: float, size: int) -> float:
    weight = ((odds - 1) + values / size) / (odds - 1)
    return weight**2 * size * (values - 1) ** 2 / (values**2 * (values - size))


@lru_cache(maxsize=32)
def find_members(places: PlaceSet) -> NDArray[np.int64]:
    """Return the members of a set, ascending; the array is shared and cannot be written to."""
    members = places.members()
    members.flags.writeable = False
    return members


@lru_cache(maxsize=64)
def plan_design(values: int, odds: float, bits: int | None = None) -> ReportDesign:
    """Return the design of least expected error whose reports have at most so many bits.

    Without `bits`, reports have at most one bit more than the values themselves, unless no design of that
    length comes within 5 % of the optimum; then as few more as it takes.
    """
    short = (values - 1).bit_length()
    if bits is not None:
        return _most_accurate(_designs(values, odds, bits), odds)
    enough = NEAR_OPTIMUM * least_squared_error(values, odds)
    for length in range(short + 1, short + 6):
        found = _most_accurate(_designs(values, odds, length), odds)
        if found.squared_error(odds) > enough and length == short + 1:
            found = _most_accurate([found, *_uneven(values, odds, length, enough)], odds)
        if found.squared_error(odds) <= enough:
            break
    return found


def _most_accurate(designs: Iterable[ReportDesign], odds: float) -> ReportDesign:
    return min(designs, key=lambda design: design.squared_error(odds))


def _designs(values: int, odds: float, bits: int) -> Iterator[ReportDesign]:
    """Yield randomized response, and Singer's sets with the best number of groups for each."""
    most = min(2**bits, MOST_REPORTS)
    yield ReportDesign(values, PointSet())
    for prime, power in _prime_powers(math.isqrt(most)):
        for dimension in range(3, bits + 2):
            places = SingerSet(prime, power, dimension)
            least, largest = -(-values // places.cycle), most // places.cycle
            if not largest:
                break
            best = (odds - 1) * places.size / places.cycle
            for groups in {least, largest, math.floor(best), math.ceil(best)}:
                if least <= groups <= largest:
                    yield ReportDesign(groups, places)


def _prime_powers(most: int) -> Iterator[tuple[int, int]]:
    for prime in range(2, most + 1):
        if fields.prime_factors(prime) == [prime]:
            power = 1
            while prime**power <= most:
                yield prime, power
                power += 1


def _uneven(values: int, odds: float, bits: int, enough: float) -> Iterator[ReportDesign]:
    """Yield unions of cyclotomic classes with an almost even spectrum, until one is accurate enough."""
    for order, joined in _CLASSES:
        balance = odds * joined / (order - joined)
        if (1 + balance) ** 2 / balance > 4 * NEAR_OPTIMUM:
            continue
        for prime in islice(_primes(values, 2**bits, order), _PRIMES_TRIED):
            found = ReportDesign(1, _evenest(prime, order, joined))
            yield found
            if found.squared_error(odds) <= enough:
                return


def _primes(least: int, most: int, order: int) -> Iterator[int]:
    """Yield primes for which −1 is an odd power: then one half of the spectrum mirrors the other."""
    first = least + (order + 1 - least) % (2 * order)
    for number in range(first, most, 2 * order):
        if fields.prime_factors(number) == [number]:
            yield number


def _evenest(prime: int, order: int, joined: int) -> CyclotomicSet:
    """Return the classes whose union has the most even spectrum."""
    numbers = fields.powers(fields.primitive_root(prime), prime - 1, prime)
    periods = _periods(numbers, prime, order)
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    for others in combinations(range(1, order), joined - 1):
        spectrum = sum((np.roll(periods, -start) for start in (0, *others)), np.zeros(order, complex))
        best = min(best, (float((1 / np.abs(spectrum) ** 2).mean()), (0, *others)))
    size = (prime - 1) // order * joined
    evenness = (best[0] * (prime - 1) + 1 / size**2) / prime
    return CyclotomicSet(prime, order, best[1], evenness)


def _periods(numbers: NDArray[np.int64], prime: int, order: int) -> NDArray[np.complex128]:
    """Return Gauss's periods: the sum of the roots of unity over each class."""
    roots = np.exp(2j * np.pi / prime * numbers)
    return np.array([roots[start::order].sum() for start in range(order)])
