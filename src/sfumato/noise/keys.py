"""Which keys a table has, told only where enough units have them (docs/proofs/keys.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.bits import OS
from sfumato.noise.bounds import Bounds, brackets, exp_minus
from sfumato.noise.chances import under
from sfumato.noise.integers import integers
from sfumato.noise.inversion import Drawn
from sfumato.noise.laplace import Laplace, Quotient
from sfumato.noise.normal import Rounded
from sfumato.noise.tails import reached_rarely, risk
from sfumato.privacy import events
from sfumato.privacy.events import Sequential, ThresholdedKeys
from sfumato.privacy.exact import positive, shown, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.bits import Source
    from sfumato.noise.gaussian import Gaussian
    from sfumato.noise.integers import IntArray
    from sfumato.noise.inversion import Law

_SMALLEST, _LARGEST = Fraction(1, 1000), Fraction(50)


@dataclass(frozen=True, slots=True)
class TruncatedGeometric:
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

    epsilon: Fraction
    delta: Fraction
    per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", risk(self.delta))
        object.__setattr__(self, "per_unit", whole(self.per_unit, "per_unit"))
        if not _SMALLEST <= self.epsilon / self.per_unit <= _LARGEST:
            raise UsageError(
                "SF-N410",
                "The epsilon for one key is out of range.",
                got=shown(self.epsilon / self.per_unit),
                allowed="from 1/1000 to 50",
                try_="fewer keys a unit, or thresholded noise, if it is too small",
            )

    def event(self) -> ThresholdedKeys:
        return ThresholdedKeys(self.epsilon, self.delta)

    def chance(self, count: int) -> float:
        """The chance that a key is told which so many units have."""
        return self._ramp().caught(count, 128).low / 2.0**128

    @property
    def always(self) -> int:
        """From so many units on a key is always told."""
        return len(_table(self._ramp())) + 1

    def release(self, counts: Mapping[Any, int], *, source: Source = OS) -> list[Any]:
        """The keys told, in their own order."""
        keys, exact = present(counts)
        told = self._flip(exact, source)
        return [keys[i] for i in np.flatnonzero(told)]

    def _ramp(self) -> Ramp:
        return Ramp(self.epsilon / self.per_unit, self.delta / self.per_unit)

    def _flip(self, exact: IntArray, source: Source) -> NDArray[np.bool_]:
        """A coin for each count, which falls heads with its chance."""
        ramp, numbers = self._ramp(), source.words(exact.size)
        table = _table(ramp)
        least = table[np.minimum(exact, len(table)).astype(np.intp) - 1]
        heads = (exact > len(table)) | (numbers < least)
        for i in np.flatnonzero(~heads & (numbers - least < 2)):
            heads[i] = under(Drawn(int(numbers[i]), 64, source), partial(ramp.caught, int(exact[i])))
        return heads


@dataclass(frozen=True, slots=True)
class Ramp:
    """π(0) = 0 and π(n) = min(e^ε·π(n−1) + δ, 1 − e^−ε·(1 − π(n−1) − δ), 1), caught between integers."""

    epsilon: Fraction
    delta: Fraction

    def caught(self, count: int, bits: int) -> Bounds:
        """π(count)."""
        return self.climbed(count, bits)[-1]

    def climbed(self, count: float, bits: int) -> list[Bounds]:
        """π(0), π(1), … up to this count, or to the first that is surely 1."""
        one, delta = Bounds.of(1, bits), Bounds.of(self.delta, bits)
        ratio, found = exp_minus(self.epsilon, bits), [Bounds(0, 0, bits)]
        while found[-1].low < one.low and len(found) <= count:
            rest = one - found[-1] - delta
            flat = one - ratio * Bounds(max(rest.low, 0), max(rest.high, 0), bits)
            steep = found[-1] / ratio + delta
            found.append(Bounds(min(steep.low, flat.low), min(steep.high, flat.high), bits))
        return found


@dataclass(frozen=True, slots=True)
class ThresholdedNoise:
    """Adds noise to the count of every key that is there, and tells both where the sum is high enough.

    Privacy
    -------
    Protects : one unit, add/remove, that has at most `per_unit` keys.
    Costs    : the noise's own event, and ThresholdedKeys(0, delta) beside it.
    Because  : docs/proofs/keys.md
    Assumes  : a count is the exact number of different units that have the key; how long a draw takes is not
               observed.
    """

    noise: Laplace | Gaussian
    delta: Fraction
    per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", risk(self.delta))
        object.__setattr__(self, "per_unit", whole(self.per_unit, "per_unit"))

    def event(self) -> Sequential:
        return Sequential([_price(self.noise, self.per_unit), ThresholdedKeys(0, self.delta)])

    @property
    def threshold(self) -> int:
        """The smallest t that a count of 1 reaches with chance at most delta / per_unit."""
        return 1 + reached_rarely(_law(self.noise), self.delta / self.per_unit)

    def release(self, counts: Mapping[Any, int], *, source: Source = OS) -> dict[Any, int]:
        """The keys told, in their own order, with their noisy counts."""
        keys, exact = present(counts)
        noisy = self.noise.release(exact, source=source).tolist()
        least = self.threshold
        return {key: count for key, count in zip(keys, noisy, strict=True) if count >= least}


def _price(noise: Laplace | Gaussian, per_unit: int) -> events.Event:
    """What the noise costs on counts of which one unit moves `per_unit` by one each."""
    if isinstance(noise, Laplace):
        return noise.event(per_unit)
    places = 40
    over_root = math.isqrt(math.floor(noise.sigma**2 * 4**places / per_unit))
    return events.Gaussian(Fraction(over_root, 2**places))


def _law(noise: Laplace | Gaussian) -> Law:
    return Quotient(1 / noise.scale, 1) if isinstance(noise, Laplace) else Rounded(noise.sigma)


def present(counts: Mapping[Any, int]) -> tuple[list[Any], IntArray]:
    """The keys that some unit has, in their own order, and their counts. None at all is no error: an empty
    table must look like any other."""
    if not isinstance(counts, Mapping):
        raise UsageError("SF-N411", "Keys come with their counts, as a mapping.", got=type(counts).__name__)
    exact = dict(zip(counts, integers(list(counts.values())).tolist(), strict=True)) if counts else {}
    if any(count < 0 for count in exact.values()):
        raise UsageError("SF-N412", "A number of units is not below zero.")
    keys = _ordered([key for key, count in exact.items() if count])
    return keys, integers([exact[key] for key in keys]) if keys else np.zeros(0, dtype=np.int64)


def _ordered(keys: list[Any]) -> list[Any]:
    """By the keys alone. Floats have no total order, and keys of several types none at all."""
    try:
        if not any(isinstance(key, float) for key in keys):
            return sorted(keys)
    except TypeError:
        pass
    raise UsageError(
        "SF-N413", "Keys are told in their own order, so they are texts, whole numbers or tuples of one kind."
    )


@lru_cache(maxsize=16)
def _table(ramp: Ramp) -> NDArray[np.uint64]:
    """For each count, from 1 on, whose chance is not surely 1: a t with t ≤ 2^64 · chance ≤ t + 2."""
    found = brackets(lambda bits: ramp.climbed(math.inf, bits)[1:-1], 64)
    return np.array(found, dtype=np.uint64)
