"""The sparse vector technique: which of many answers reach a threshold (docs/proofs/sparse-vector.md)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.noise.audit_hook import observed, unobserved
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import parse_integers
from sfumato.noise.selection import parse_scores
from sfumato.privacy.events import Pure
from sfumato.privacy.exact import parse_confidence, parse_positive, parse_whole, require_bool

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Says for each question, as it comes, whether its answer reaches a threshold. Only yeses are paid for.

    Noise is drawn once for the threshold, and afresh for every answer. After `positives` yeses it stops.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every answer by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Pure(epsilon), charged before `begin`, however many questions are asked and however they are
               chosen; also if questions to other mechanisms come in between, to other thresholds in use too,
               and each depends on all answers so far (concurrent composition).
    Because  : docs/proofs/sparse-vector.md, and docs/proofs/account.md#mechanisms-of-several-rounds
    Assumes  : answers are exact integers, thresholds are public, and only yes or no is released; how long a
               draw takes is not observed.
    """

    epsilon: Fraction
    sensitivity: int = 1
    positives: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", parse_whole(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "positives", parse_whole(self.positives, "positives"))
        require_bool(self.monotone, "monotone")
        self.threshold_noise()
        self.answer_noise()

    def event(self) -> Pure:
        """Return the price of all questions together."""
        return Pure(self.epsilon)

    def threshold_noise(self) -> LaplaceNoise:
        """Return the noise of the threshold, of scale sensitivity / ε₁."""
        return LaplaceNoise.calibrated(self._first(), self.sensitivity)

    def answer_noise(self) -> LaplaceNoise:
        """Return the noise of an answer, of scale 2·positives·sensitivity / ε₂; without the 2 if monotone."""
        return LaplaceNoise.calibrated(self.epsilon - self._first(), self._shifts() * self.sensitivity)

    def begin(self, *, source: BitSource = OS) -> NoisyThreshold:
        """Draw the noise of the threshold and return it, ready for answers. Charge `event()` first."""
        return NoisyThreshold(self, source)

    def release(self, answers: Any, threshold: int, *, source: BitSource = OS) -> list[bool]:
        """Return whether each of these answers reaches the threshold, up to the last yes paid for."""
        exact, least = parse_scores(answers).tolist(), _whole(threshold)
        noisy, said = self.begin(source=source), list[bool]()
        while noisy.left and len(said) < len(exact):
            said.append(noisy.reaches(exact[len(said)], least))
        return said

    def expected_error(self) -> float:
        """Return E|D| for D, the noise of an answer less the noise of the threshold."""
        return self._difference().mean_absolute()

    def margin(self, confidence: Number, questions: int = 1) -> int:
        """Return an m for which answers at least m away from their thresholds are all decided correctly.

        That holds with this confidence for so many questions; for one question no smaller m will do.
        """
        rare = float((1 - parse_confidence(confidence)) / parse_whole(questions, "questions"))
        return self._difference().tail_quantile(rare)

    def _difference(self) -> LaplaceDifference:
        return LaplaceDifference(float(self.answer_noise().scale), float(self.threshold_noise().scale))

    def _shifts(self) -> int:
        return (1 if self.monotone else 2) * self.positives

    def _first(self) -> Fraction:
        """Return ε₁, with ε₂ / ε₁ about shifts^(2/3), which gives the least variance in all."""
        # Any split of ε is private, so floating point may choose it.
        return self.epsilon / (1 + Fraction(round(16 * self._shifts() ** (2 / 3)), 16))


class NoisyThreshold:
    """A threshold with its noise, in use (AboveThreshold).

    It cannot be copied, pickled or taken into a forked process: two copies would say more than was paid for.
    """

    __slots__ = ("_answer_noise", "_lock", "_mechanism", "_process", "_source", "_threshold_noise", "left")

    left: int
    """Number of yeses that are still paid for."""

    def __init__(self, mechanism: SparseVector, source: BitSource) -> None:
        self._mechanism, self._source, self._answer_noise = mechanism, source, mechanism.answer_noise()
        # The noise of the threshold is never released, so auditors must not see it as a release.
        self._threshold_noise = unobserved(lambda: _one(mechanism.threshold_noise(), source))
        self._process, self._lock = os.getpid(), Lock()
        self.left = mechanism.positives

    def reaches(self, answer: int, threshold: int) -> bool:
        """Return whether the answer with fresh noise reaches the threshold with its noise."""
        margin = _whole(answer) - _whole(threshold)
        with self._lock:
            self._require_alive()
            # The count of yeses changes under the lock, so that two threads cannot both use the last one.
            above = observed(
                self._mechanism, margin, self._mechanism.sensitivity, lambda: self._above(margin), within=self
            )
            self.left -= above
        return above

    def _above(self, margin: int) -> bool:
        return margin + _one(self._answer_noise, self._source) >= self._threshold_noise

    def _require_alive(self) -> None:
        # A fork duplicates the noise of the threshold; using it in both processes would charge it only once.
        if os.getpid() != self._process:
            raise _refused()
        if not self.left:
            raise PolicyError(
                "SF-N604",
                "All the positive answers that were paid for have been used.",
                try_="sf.noise.sparse_vector(epsilon=…, positives=…), for a new charge",
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise _refused()

    def __copy__(self) -> NoReturn:
        raise _refused()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise _refused()


def _one(noise: LaplaceNoise, source: BitSource) -> int:
    return int(noise.release(np.zeros(1, dtype=np.int64), source=source)[0])


def _whole(value: Any) -> int:
    array = parse_integers(value)
    if array.ndim:
        raise UsageError("SF-N203", "Only one answer can be compared at a time.", got=f"{array.size} of them")
    return int(array[()])


def _refused() -> PolicyError:
    return PolicyError(
        "SF-L303", "A noisy threshold in use cannot be copied, pickled or moved to another process."
    )


@dataclass(frozen=True, slots=True)
class LaplaceDifference:
    """The law of D = X − Y for independent integer Laplace X and Y, in closed form and double precision.

    Their scales `one` and `other` are equal or well apart. With r and s for e^(−1/scale), P(D = d) = c·Σ_k
    r^|k|·s^|d − k|, where c is the product of (1 − r)/(1 + r) and the same of s. For d ≥ 0 the sum over k < 0
    and k > d is (r^d + s^d)·rs/(1 − rs), and that over the k in between is (s^(d+1) − r^(d+1))/(s − r), or (d
    + 1)·r^d where both are the same.
    """

    one: float
    other: float

    def tail_probability(self, t: int) -> float:
        """Return P(D ≥ t) for t ≥ 1: each power x^d is summed to x^t/(1 − x)."""
        r, s = _powers(self.one, t), _powers(self.other, t)
        if self.one == self.other:
            between = r.power * (t + 1 - t * r.ratio) / r.gap**2
        else:
            between = (s.power * s.ratio / s.gap - r.power * r.ratio / r.gap) / (r.gap - s.gap)
        return self._weight() * (self._ends() * (r.power / r.gap + s.power / s.gap) + between)

    def mean_absolute(self) -> float:
        """Return E|D| = 2·Σ P(D ≥ t) over t ≥ 1."""
        r, s = _powers(self.one, 1), _powers(self.other, 1)
        if self.one == self.other:
            between = 2 * r.ratio / r.gap**3
        else:
            between = ((s.ratio / s.gap) ** 2 - (r.ratio / r.gap) ** 2) / (r.gap - s.gap)
        return 2 * self._weight() * (self._ends() * (r.ratio / r.gap**2 + s.ratio / s.gap**2) + between)

    def tail_quantile(self, probability: float) -> int:
        """Return the smallest t ≥ 1 with P(D ≥ t) ≤ probability."""
        low, high = 0, 1
        while self.tail_probability(high) > probability:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.tail_probability(middle) > probability else (low, middle)
        return high

    def _weight(self) -> float:
        return math.tanh(0.5 / self.one) * math.tanh(0.5 / self.other)

    def _ends(self) -> float:
        """Return rs/(1 − rs)."""
        rate = 1 / self.one + 1 / self.other
        return math.exp(-rate) / -math.expm1(-rate)


@dataclass(frozen=True, slots=True)
class _Powers:
    ratio: float
    gap: float
    power: float


def _powers(scale: float, t: int) -> _Powers:
    """Return x = e^(−1/scale), 1 − x without cancellation, and x^t."""
    return _Powers(math.exp(-1 / scale), -math.expm1(-1 / scale), math.exp(-t / scale))
