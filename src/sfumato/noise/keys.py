"""Which keys a table has, told only where enough units have them (docs/proofs/keys.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.audit_hook import observed
from sfumato.noise.candidates import candidates, share, yes_or_no
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.laplace import LaplaceNoise, LaplaceQuotient
from sfumato.noise.sampling.bernoulli_exp import under
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.bounds import Enclosure, brackets, exp_minus
from sfumato.noise.sampling.inversion import UniformDraw
from sfumato.noise.sampling.normal import RoundedNormal
from sfumato.noise.tails import reached_rarely, reaching, risk
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import ThresholdedKeys
from sfumato.privacy.exact import positive, shown, whole
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

_SMALLEST, _LARGEST = Fraction(1, 1000), Fraction(50)


@dataclass(frozen=True, slots=True)
class KeyDiscovery:
    """What telling keys is told: its price, and how many keys a unit has at most."""

    epsilon: Fraction
    delta: Fraction
    per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", risk(self.delta))
        object.__setattr__(self, "per_unit", whole(self.per_unit, "per_unit"))

    def event(self) -> ThresholdedKeys:
        return ThresholdedKeys(self.epsilon, self.delta)


@tagged("TruncatedGeometric", "epsilon", "delta", "per_unit")
@dataclass(frozen=True, slots=True)
class TruncatedGeometric(KeyDiscovery):
    """Tells a key with a chance that rises with the number of its units as steeply as (ε, δ) allows.

    With one key a unit no other mechanism tells any key with a greater chance. With more, ε and δ are
    shared out equally among the keys of a unit.

    Privacy
    -------
    Protects : one unit, add/remove, that has at most `per_unit` keys.
    Costs    : ThresholdedKeys(epsilon, delta).
    Because  : docs/proofs/keys.md
    Assumes  : a count is the exact number of different units that have the key; how long a draw takes is not
               observed.
    """

    def __post_init__(self) -> None:
        KeyDiscovery.__post_init__(self)
        if not _SMALLEST <= self.epsilon / self.per_unit <= _LARGEST:
            raise UsageError(
                "SF-N410",
                "The epsilon for one key is out of range.",
                got=shown(self.epsilon / self.per_unit),
                allowed="from 1/1000 to 50",
                try_="fewer keys a unit, or thresholded noise, if it is too small",
            )

    def chance(self, count: int) -> float:
        """The chance that a key is told which so many units have."""
        return self._ramp().caught(count, 128).low / 2.0**128

    def units_needed(self, confidence: Number) -> int:
        """The smallest number of units with which a key is told with this confidence."""
        return bisect_left(range(self.always), float(share(confidence)), key=self.chance)

    @property
    def always(self) -> int:
        """From so many units on a key is always told."""
        return len(_table(self._ramp())) + 1

    def release(self, counts: Mapping[Any, int], *, source: BitSource = OS) -> list[Any]:
        """The keys told, in their own order."""
        keys, exact = present(counts)
        return observed(self, _counted(keys, exact), 1, lambda: self._told(keys, exact, source))

    def _told(self, keys: list[Any], exact: IntArray, source: BitSource) -> list[Any]:
        return [keys[i] for i in np.flatnonzero(self._flip(exact, source))]

    def _ramp(self) -> KeepProbability:
        return KeepProbability(self.epsilon / self.per_unit, self.delta / self.per_unit)

    def _flip(self, exact: IntArray, source: BitSource) -> NDArray[np.bool_]:
        """A coin for each count, which falls heads with its chance."""
        ramp, numbers = self._ramp(), source.words(exact.size)
        table = _table(ramp)
        least = table[np.minimum(exact, len(table)).astype(np.intp) - 1]
        heads = (exact > len(table)) | (numbers < least)
        for i in np.flatnonzero(~heads & (numbers - least < 2)):
            heads[i] = under(UniformDraw(int(numbers[i]), 64, source), partial(ramp.caught, int(exact[i])))
        return heads


@dataclass(frozen=True, slots=True)
class KeepProbability:
    """π(0) = 0 and π(n) = min(e^ε·π(n−1) + δ, 1 − e^−ε·(1 − π(n−1) − δ), 1), caught between integers."""

    epsilon: Fraction
    delta: Fraction

    def caught(self, count: int, bits: int) -> Enclosure:
        """π(count)."""
        return self.climbed(count, bits)[-1]

    def climbed(self, count: float, bits: int) -> list[Enclosure]:
        """π(0), π(1), … up to this count, or to the first that is surely 1."""
        one, delta = Enclosure.of(1, bits), Enclosure.of(self.delta, bits)
        ratio, found = exp_minus(self.epsilon, bits), [Enclosure(0, 0, bits)]
        while found[-1].low < one.low and len(found) <= count:
            rest = one - found[-1] - delta
            flat = one - ratio * Enclosure(max(rest.low, 0), max(rest.high, 0), bits)
            steep = found[-1] / ratio + delta
            found.append(Enclosure(min(steep.low, flat.low), min(steep.high, flat.high), bits))
        return found


@tagged("ThresholdedNoise", "epsilon", "delta", "per_unit", "gaussian")
@dataclass(frozen=True, slots=True)
class ThresholdedNoise(KeyDiscovery):
    """Adds noise to the count of every key that is there, and tells both where the sum is high enough.

    The noise is Laplace, or Gaussian if so wished, which is smaller when a unit has many keys; half of δ
    then goes to the noise itself.

    Privacy
    -------
    Protects : one unit, add/remove, that has at most `per_unit` keys.
    Costs    : ThresholdedKeys(epsilon, delta).
    Because  : docs/proofs/keys.md
    Assumes  : a count is the exact number of different units that have the key; how long a draw takes is not
               observed.
    """

    gaussian: bool = False

    def __post_init__(self) -> None:
        KeyDiscovery.__post_init__(self)
        yes_or_no(self.gaussian, "gaussian")
        self.noise()

    def noise(self) -> LaplaceNoise | GaussianNoise:
        """One unit moves `per_unit` counts by one each: by that in l1 norm, and by its root in l2 norm."""
        if self.gaussian:
            return GaussianNoise(_sigma(self.epsilon, self.delta / 2, self.per_unit))
        return LaplaceNoise.calibrated(self.epsilon, self.per_unit)

    @property
    def threshold(self) -> int:
        """The smallest t that `per_unit` counts of 1 reach with chances that add to δ at most.

        Half of δ is left for it if the noise is Gaussian.
        """
        spent = self.delta / 2 if self.gaussian else self.delta
        return 1 + reached_rarely(_law(self.noise()), spent / self.per_unit)

    def release(self, counts: Mapping[Any, int], *, source: BitSource = OS) -> dict[Any, int]:
        """The keys told, in their own order, with their noisy counts."""
        keys, exact = present(counts)
        return observed(self, _counted(keys, exact), 1, lambda: self._told(keys, exact, source))

    def chance(self, count: int) -> float:
        """The chance that a key is told which so many units have, to the precision of doubles."""
        return reaching(self.noise(), self.threshold - count) if count else 0.0

    def units_needed(self, confidence: Number) -> int:
        """The smallest number of units with which a key is told with this confidence, at least even odds."""
        rare = 1 - max(share(confidence), Fraction(1, 2))
        return max(self.threshold + reached_rarely(_law(self.noise()), rare) - 1, 1)

    def expected_error(self) -> float:
        """E|noise| of a count, told or not."""
        return self.noise().expected_error()

    def half_width(self, confidence: Number) -> int:
        """A noisy count is further off than this with a chance of 1 − confidence at most, told or not."""
        return self.noise().half_width(confidence)

    def _told(self, keys: list[Any], exact: IntArray, source: BitSource) -> dict[Any, int]:
        noisy, least = self.noise().release(exact, source=source).tolist(), self.threshold
        return {key: count for key, count in zip(keys, noisy, strict=True) if count >= least}


def _counted(keys: list[Any], exact: IntArray) -> dict[Any, int]:
    """As auditors see it: one unit, whatever its keys, is one step of it."""
    return dict(zip(keys, exact.tolist(), strict=True))


@lru_cache(maxsize=16)
def _sigma(epsilon: Fraction, delta: Fraction, per_unit: int) -> Fraction:
    """The deviation, rounded up, for counts of which one unit moves `per_unit` by one each."""
    from sfumato.privacy.calibration import gaussian_sigma

    sigma = Fraction(gaussian_sigma(epsilon, delta)) * root_up(Fraction(per_unit))
    return Fraction(math.ceil(sigma * 2**20), 2**20)


def _law(noise: LaplaceNoise | GaussianNoise) -> LaplaceQuotient | RoundedNormal:
    return (
        LaplaceQuotient(1 / noise.scale, 1) if isinstance(noise, LaplaceNoise) else RoundedNormal(noise.sigma)
    )


def present(counts: Mapping[Any, int]) -> tuple[list[Any], IntArray]:
    """The keys that some unit has, in their own order, and their counts. None at all is no error: an empty
    table must look like any other."""
    if not isinstance(counts, Mapping):
        raise UsageError("SF-N411", "Keys come with their counts, as a mapping.", got=type(counts).__name__)
    names = list(counts)
    exact = candidates(list(counts.values())) if counts else np.zeros(0, dtype=np.int64)
    if (exact < 0).any():
        raise UsageError("SF-N412", "A number of units is not below zero.")
    order = _ordered(np.flatnonzero(exact).tolist(), names)
    return [names[i] for i in order], exact[np.array(order, dtype=np.intp)]


def _ordered(places: list[int], names: list[Any]) -> list[int]:
    """By the keys alone. Floats have no total order, and keys of several types none at all."""
    try:
        if not any(isinstance(names[i], float) for i in places):
            return sorted(places, key=names.__getitem__)
    except TypeError:
        pass
    raise UsageError(
        "SF-N413",
        "Keys are told in their own order, so they are of one kind.",
        allowed="texts, whole numbers, or tuples of these",
    )


@lru_cache(maxsize=16)
def _table(ramp: KeepProbability) -> NDArray[np.uint64]:
    """For each count, from 1 on, whose chance is not surely 1: a t with t ≤ 2^64 · chance ≤ t + 2."""
    found = brackets(lambda bits: ramp.climbed(math.inf, bits)[1:-1], 64)
    return np.array(found, dtype=np.uint64)
