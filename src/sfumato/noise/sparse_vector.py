"""The sparse vector technique: which of many answers reach a threshold (docs/proofs/sparse-vector.md)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.noise.audit_hook import observed, unobserved
from sfumato.noise.candidates import candidates, share, yes_or_no
from sfumato.noise.differences import LaplaceDifference
from sfumato.noise.laplace import LaplaceNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import integers
from sfumato.privacy.events import Pure
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Says of each question, as it comes, whether its answer reaches a threshold. Only yeses are paid for.

    The threshold is noised once, every answer afresh. After `positives` yeses there are no more answers.

    Privacy
    -------
    Protects : one unit, add/remove, that changes every answer by at most `sensitivity`, and all of them in
               the same direction if `monotone`.
    Costs    : Pure(epsilon), however many questions are asked and however they are chosen.
    Because  : docs/proofs/sparse-vector.md
    Assumes  : answers are exact integers, thresholds are public, and nothing but yes or no is told; how long
               a draw takes is not observed.
    """

    epsilon: Fraction
    sensitivity: int = 1
    positives: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "sensitivity", whole(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "positives", whole(self.positives, "positives"))
        yes_or_no(self.monotone, "monotone")
        self.threshold_noise()
        self.answer_noise()

    def event(self) -> Pure:
        return Pure(self.epsilon)

    def threshold_noise(self) -> LaplaceNoise:
        """Of scale sensitivity / ε₁."""
        return LaplaceNoise.calibrated(self._first(), self.sensitivity)

    def answer_noise(self) -> LaplaceNoise:
        """Of scale 2 · positives · sensitivity / ε₂, without the 2 if monotone."""
        return LaplaceNoise.calibrated(self.epsilon - self._first(), self._shifts() * self.sensitivity)

    def begin(self, *, source: BitSource = OS) -> NoisyThreshold:
        """Draw the noise of the threshold, and wait for answers."""
        return NoisyThreshold(self, source)

    def release(self, answers: Any, threshold: int, *, source: BitSource = OS) -> list[bool]:
        """For answers known beforehand: whether each reaches the threshold, up to the last yes paid for."""
        exact, least = candidates(answers).tolist(), _whole(threshold)
        watch, told = self.begin(source=source), list[bool]()
        while watch.left and len(told) < len(exact):
            told.append(watch.reaches(exact[len(told)], least))
        return told

    def expected_error(self) -> float:
        """E|D| of D = the noise of an answer less that of the threshold, which is what is held against it."""
        return self._difference().mean_size()

    def margin(self, confidence: Number, questions: int = 1) -> int:
        """The smallest m such that answers m or more from their thresholds, so many of them, are all told
        rightly with this confidence; of one question with no more than that."""
        rare = float((1 - share(confidence)) / whole(questions, "questions"))
        return self._difference().rarely(rare)

    def _difference(self) -> LaplaceDifference:
        return LaplaceDifference(float(self.answer_noise().scale), float(self.threshold_noise().scale))

    def _shifts(self) -> int:
        return (1 if self.monotone else 2) * self.positives

    def _first(self) -> Fraction:
        """ε₁ with ε₂ / ε₁ about shifts^(2/3), where both noises together vary least.

        Any split is private, so doubles may choose it.
        """
        return self.epsilon / (1 + Fraction(round(16 * self._shifts() ** (2 / 3)), 16))


class NoisyThreshold:
    """A noisy threshold in use.

    It cannot be copied, pickled or taken into a forked process: two of it would say more than was paid for.
    """

    __slots__ = ("_answer_noise", "_lock", "_mechanism", "_process", "_source", "_threshold_noise", "left")

    left: int
    """How many yeses may still be told."""

    def __init__(self, mechanism: SparseVector, source: BitSource) -> None:
        self._mechanism, self._source, self._answer_noise = mechanism, source, mechanism.answer_noise()
        self._threshold_noise = unobserved(lambda: _one(mechanism.threshold_noise(), source))
        self._process, self._lock = os.getpid(), Lock()
        self.left = mechanism.positives

    def reaches(self, answer: int, threshold: int) -> bool:
        """Whether the answer, with noise, reaches the threshold, with its noise."""
        margin = _whole(answer) - _whole(threshold)
        with self._lock:
            self._require_alive()
            above = observed(
                self._mechanism, margin, self._mechanism.sensitivity, lambda: self._above(margin), within=self
            )
            self.left -= above
        return above

    def _above(self, margin: int) -> bool:
        return margin + _one(self._answer_noise, self._source) >= self._threshold_noise

    def _require_alive(self) -> None:
        if os.getpid() != self._process:
            raise _refused()
        if not self.left:
            raise PolicyError(
                "SF-N405",
                "All the yeses that were paid for have been told.",
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
    array = integers(value)
    if array.ndim:
        raise UsageError("SF-N406", "One answer is compared at a time.", got=f"{array.size} of them")
    return int(array[()])


def _refused() -> PolicyError:
    return PolicyError("SF-N407", "A threshold in use stays in the one process that began it, and is one.")
