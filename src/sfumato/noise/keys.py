"""Key discovery: which keys a table has, released only where enough units have them (docs/proofs/keys.md)."""

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
from sfumato.errors.numbers import format_number
from sfumato.noise.audit_hook import observed
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.laplace import LaplaceNoise, LaplaceQuotient
from sfumato.noise.sampling.bernoulli_exp import is_below
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus
from sfumato.noise.sampling.inversion import UniformDraw, tail_quantile
from sfumato.noise.sampling.normal import RoundedNormal
from sfumato.noise.selection import parse_scores
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import Event, KeyRelease, SpreadLaplace, ThresholdedKeys
from sfumato.privacy.exact import parse_confidence, parse_delta, parse_positive, parse_whole, require_bool
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number

_SMALLEST, _LARGEST = Fraction(1, 1000), Fraction(50)
"""Range of ε for one key: a smaller one would need a very long table."""


@dataclass(frozen=True, slots=True)
class KeyDiscovery:
    """The parameters of key discovery: the price, and how many keys a unit has at most."""

    epsilon: Fraction
    delta: Fraction
    per_unit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", parse_delta(self.delta))
        object.__setattr__(self, "per_unit", parse_whole(self.per_unit, "per_unit"))

    def event(self) -> Event:
        """Return the price of one release."""
        noise = self._noise_event()
        if self.per_unit == 1 and noise.pure() is not None:
            return ThresholdedKeys(self.epsilon, self.delta)
        return KeyRelease(self.epsilon, self.delta, noise)

    def _noise_event(self) -> Event:
        """Return the price beside δ: each key of a unit has an equal part of ε."""
        return SpreadLaplace(self.per_unit / self.epsilon, ((1, self.per_unit),))


@tagged("TruncatedGeometric", "epsilon", "delta", "per_unit")
@dataclass(frozen=True, slots=True)
class TruncatedGeometric(KeyDiscovery):
    """Releases a key with a probability that rises with its number of units as steeply as (ε, δ) allows.

    With one key per unit no other mechanism releases any key with a greater probability. With more, ε and δ
    are divided equally among the keys of a unit.

    Privacy
    -------
    Protects : one unit, add/remove, that has at most `per_unit` keys.
    Costs    : ThresholdedKeys(epsilon, delta) for one key a unit, else KeyRelease(epsilon, delta, …).
    Because  : docs/proofs/keys.md
    Assumes  : a count is the exact number of different units that have the key; how long a draw takes is not
               observed.
    """

    def __post_init__(self) -> None:
        KeyDiscovery.__post_init__(self)
        if not _SMALLEST <= self.epsilon / self.per_unit <= _LARGEST:
            raise UsageError(
                "SF-N201",
                "The epsilon for one key is out of range.",
                got=format_number(self.epsilon / self.per_unit),
                allowed="from 1/1000 to 50",
                try_="fewer keys per unit, or thresholded noise, if it is too small",
            )

    def chance(self, count: int) -> float:
        """Return the probability that a key is released which `count` units have."""
        return self._curve().enclose(count, 128).low / 2.0**128

    def units_needed(self, confidence: Number) -> int:
        """Return the smallest number of units with which a key is released with this confidence."""
        return bisect_left(range(self.always), float(parse_confidence(confidence)), key=self.chance)

    @property
    def always(self) -> int:
        """Smallest number of units with which a key is certainly released."""
        return len(_table(self._curve())) + 1

    def release(self, counts: Mapping[Any, int], *, source: BitSource = OS) -> list[Any]:
        """Return the keys that pass, in their own order."""
        keys, exact = parse_counts(counts)
        return observed(self, _as_audited(keys, exact), 1, lambda: self._select(keys, exact, source))

    def _select(self, keys: list[Any], exact: IntArray, source: BitSource) -> list[Any]:
        return [keys[i] for i in np.flatnonzero(self._flip(exact, source))]

    def _curve(self) -> KeepProbability:
        return KeepProbability(self.epsilon / self.per_unit, self.delta / self.per_unit)

    def _flip(self, exact: IntArray, source: BitSource) -> NDArray[np.bool_]:
        """Return a coin for each count, true with its probability."""
        curve, numbers = self._curve(), source.words(exact.size)
        table = _table(curve)
        # Counts beyond the table are released for certain; they read its last entry, which is then not used.
        least = table[np.minimum(exact, len(table)).astype(np.intp) - 1]
        heads = (exact > len(table)) | (numbers < least)
        # 64 bits leave a coin open only where they fall within 2 of the threshold; these draw further bits.
        for i in np.flatnonzero(~heads & (numbers - least < 2)):
            heads[i] = is_below(
                UniformDraw(int(numbers[i]), 64, source), partial(curve.enclose, int(exact[i]))
            )
        return heads


@dataclass(frozen=True, slots=True)
class KeepProbability:
    """The release probability π(n) of a key with n units, enclosed between integers.

    π(0) = 0 and π(n) = min(e^ε·π(n−1) + δ, 1 − e^−ε·(1 − π(n−1) − δ), 1).
    """

    epsilon: Fraction
    delta: Fraction

    def enclose(self, count: int, bits: int) -> Enclosure:
        """Return an enclosure of π(count)."""
        return self.enclose_up_to(count, bits)[-1]

    def enclose_up_to(self, count: float, bits: int) -> list[Enclosure]:
        """Return enclosures of π(0), π(1), …, up to this count or to the first that is surely 1."""
        one, delta = Enclosure.enclose(1, bits), Enclosure.enclose(self.delta, bits)
        ratio, found = exp_minus(self.epsilon, bits), [Enclosure(0, 0, bits)]
        while found[-1].low < one.low and len(found) <= count:
            # Both bounds of the recursion are kept; the true π is the smaller one, whichever it is.
            rest = one - found[-1] - delta
            flat = one - ratio * Enclosure(max(rest.low, 0), max(rest.high, 0), bits)
            steep = found[-1] / ratio + delta
            found.append(Enclosure(min(steep.low, flat.low), min(steep.high, flat.high), bits))
        return found


@tagged("ThresholdedNoise", "epsilon", "delta", "per_unit", "gaussian")
@dataclass(frozen=True, slots=True)
class ThresholdedNoise(KeyDiscovery):
    """Adds noise to the count of every key present, and releases both where the sum reaches a threshold.

    This is the stability-based histogram. The noise is Laplace, or Gaussian on request, which is smaller when
    a unit has many keys; half of δ then pays for the noise itself.

    Privacy
    -------
    Protects : one unit, add/remove, that has at most `per_unit` keys.
    Costs    : ThresholdedKeys(epsilon, delta) for one key a unit, else KeyRelease(epsilon, delta, …).
    Because  : docs/proofs/keys.md
    Assumes  : a count is the exact number of different units that have the key; how long a draw takes is not
               observed.
    """

    gaussian: bool = False

    def __post_init__(self) -> None:
        KeyDiscovery.__post_init__(self)
        require_bool(self.gaussian, "gaussian")
        self.noise()

    def noise(self) -> LaplaceNoise | GaussianNoise:
        """Return the noise that is added to every count."""
        # One unit moves `per_unit` counts by one each: by that in l1 norm, and by its root in l2 norm.
        if self.gaussian:
            return GaussianNoise(_sigma(self.epsilon, self.delta / 2, self.per_unit))
        return LaplaceNoise.calibrated(self.epsilon, self.per_unit)

    @property
    def threshold(self) -> int:
        """Smallest t that `per_unit` counts of 1 reach with probabilities that add up to δ at most."""
        # The other half of δ pays for the noise if it is Gaussian.
        spent = self.delta / 2 if self.gaussian else self.delta
        return 1 + tail_quantile(_law(self.noise()), spent / self.per_unit)

    def release(self, counts: Mapping[Any, int], *, source: BitSource = OS) -> dict[Any, int]:
        """Return the keys that pass, in their own order, with their noisy counts."""
        keys, exact = parse_counts(counts)
        return observed(self, _as_audited(keys, exact), 1, lambda: self._threshold(keys, exact, source))

    def chance(self, count: int) -> float:
        """Return the probability, in double precision, that a key is released which `count` units have."""
        return _law(self.noise()).tail_probability(self.threshold - count) if count else 0.0

    def units_needed(self, confidence: Number) -> int:
        """Return the smallest number of units that release a key with this confidence, and at least 1/2."""
        rare = 1 - max(parse_confidence(confidence), Fraction(1, 2))
        return max(self.threshold + tail_quantile(_law(self.noise()), rare) - 1, 1)

    def expected_error(self) -> float:
        """Return E|noise| of a count, released or not."""
        return self.noise().expected_error()

    def half_width(self, confidence: Number) -> int:
        """Return a t that the noise of a count exceeds with probability 1 − confidence at most."""
        return self.noise().half_width(confidence)

    def _noise_event(self) -> Event:
        noise = self.noise()
        if isinstance(noise, GaussianNoise):
            return noise.event(root_up(Fraction(self.per_unit)))
        return KeyDiscovery._noise_event(self)

    def _threshold(self, keys: list[Any], exact: IntArray, source: BitSource) -> dict[Any, int]:
        noisy, least = self.noise().release(exact, source=source).tolist(), self.threshold
        return {key: count for key, count in zip(keys, noisy, strict=True) if count >= least}


def _as_audited(keys: list[Any], exact: IntArray) -> dict[Any, int]:
    """Return the counts as auditors see them: one unit, whatever its keys, is one step."""
    return dict(zip(keys, exact.tolist(), strict=True))


@lru_cache(maxsize=16)
def _sigma(epsilon: Fraction, delta: Fraction, per_unit: int) -> Fraction:
    """Return the σ, rounded up, for counts of which one unit moves `per_unit` by one each."""
    from sfumato.privacy.calibration import gaussian_sigma

    sigma = Fraction(gaussian_sigma(epsilon, delta)) * root_up(Fraction(per_unit))
    return Fraction(math.ceil(sigma * 2**20), 2**20)


def _law(noise: LaplaceNoise | GaussianNoise) -> LaplaceQuotient | RoundedNormal:
    return (
        LaplaceQuotient(1 / noise.scale, 1) if isinstance(noise, LaplaceNoise) else RoundedNormal(noise.sigma)
    )


def parse_counts(counts: Mapping[Any, int]) -> tuple[list[Any], IntArray]:
    """Return the keys that some unit has, in their own order, and their counts.

    No keys at all are no error: an empty table must look like any other.
    """
    if not isinstance(counts, Mapping):
        raise UsageError(
            "SF-N203", "Keys must be given with their counts, as a mapping.", got=type(counts).__name__
        )
    names = list(counts)
    exact = parse_scores(list(counts.values())) if counts else np.zeros(0, dtype=np.int64)
    if (exact < 0).any():
        raise UsageError("SF-N203", "A number of units must not be below 0.")
    order = _ordered(np.flatnonzero(exact).tolist(), names)
    return [names[i] for i in order], exact[np.array(order, dtype=np.intp)]


def _ordered(places: list[int], names: list[Any]) -> list[int]:
    """Return these places in the order of their keys."""
    # The order must depend on the keys alone. Floats have no total order, and keys of several types none at
    # all.
    try:
        if not any(isinstance(names[i], float) for i in places):
            return sorted(places, key=names.__getitem__)
    except TypeError:
        pass
    raise UsageError(
        "SF-N203",
        "Keys must all be of one type, because they are released in their own order.",
        allowed="texts, whole numbers, or tuples of these",
    )


@lru_cache(maxsize=16)
def _table(curve: KeepProbability) -> NDArray[np.uint64]:
    """Return a t with t ≤ 2^64 · π(count) ≤ t + 2 for each count from 1 on whose π is not surely 1."""
    # The first entry is π(0) = 0 and the last is surely 1; neither needs a coin.
    found = bracket(lambda bits: curve.enclose_up_to(math.inf, bits)[1:-1], 64)
    return np.array(found, dtype=np.uint64)
