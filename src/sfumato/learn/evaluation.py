"""Evaluating a classifier by charged measurements: noisy counts of rows, and what follows from them.

Because : docs/proofs/search.md#evaluation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import encode_labels
from sfumato.oracle.blocks import SumBlock, calibrate_noise, share_of
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.row_by_row import compute_row_by_row
from sfumato.privacy.events import Sequential
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with its confidence interval, which covers the noise."""

    value: float
    low: float
    high: float

    @classmethod
    def within(cls, value: float, deviation: float, z: float) -> Measured:
        """Return a share and its interval, both clipped to 0 and 1; z deviations reach to either side."""
        low, middle, high = (min(1.0, max(0.0, value + side * z * deviation)) for side in (-1, 0, 1))
        return cls(middle, low, high)

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What noisy counts say about a model. Intervals cover the noise, not the choice of rows."""

    classes: tuple[Any, ...]
    confusion: NDArray[np.int64]
    """Noisy numbers of rows: one row a true class, one column a predicted one."""
    deviation: float
    """The standard deviation of the noise of each count."""
    accuracy: Measured
    auc: Measured | None
    """For two classes: the chance that a row of the second scores higher than one of the first."""
    calibration: tuple[tuple[float, Measured], ...]
    """For two classes: the predicted chance of the second, and how often it was so; where rows stand out."""
    guarantee: Guarantee

    def __str__(self) -> str:
        lines = [f"accuracy  {self.accuracy}"] + ([f"AUC       {self.auc}"] if self.auc else [])
        return "\n".join([*lines, str(self.guarantee)])


def evaluate(
    model: Any,
    X: Any,  # noqa: N803
    y: Any,
    *,
    epsilon: Any = None,
    delta: Any = None,
    rho: Any = None,
    budget: Any = None,
    confidence: float = 0.95,
    bins: int = 20,
) -> Evaluation:
    """Measure a fitted classifier on one's own rows, none of which it needs to have seen.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for all that is measured.
    Because  : docs/proofs/search.md#evaluation
    Assumes  : the model and its classes are public, or were paid for.
    """
    measure, cost = EvaluationPlan.of(model, confidence, bins), read_budget(epsilon, delta, rho)
    labels = column_or_1d(y)
    check_consistent_length(X, labels)
    if budget is not None:
        budget.require(cost.events)
        budget.charge(Sequential(cost.events), "evaluate")
    rows = _OwnRows(model, X, encode_labels(labels, measure.classes))
    found, scored = rows.release_counts(measure, cost.main)
    return measure.summarize(found, scored, Guarantee.of(cost))


def read_budget(epsilon: Any, delta: Any, rho: Any) -> FitBudget:
    """Return what an evaluation may cost, from what was typed."""
    named = {"epsilon": epsilon, "delta": delta, "rho": rho}
    return FitBudget.of({name: value for name, value in named.items() if value is not None}, Fraction(0))


@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """Noisy counts of rows, and the standard deviation of the noise of each."""

    table: NDArray[np.int64]
    deviation: float


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is measured, all of which is public."""

    classes: tuple[Any, ...]
    bins: int
    z: float
    """Standard deviations that an interval reaches to either side."""

    @classmethod
    def of(cls, model: Any, confidence: float, bins: int) -> EvaluationPlan:
        """Return the plan for a fitted classifier."""
        if not hasattr(model, "classes_"):
            raise UsageError(
                "SF-E138", "Only fitted classifiers can be evaluated.", try_="model.fit(X, y) first"
            )
        if not 0 < confidence < 1:
            raise UsageError("SF-E139", "confidence must lie between 0 and 1.", try_="confidence=0.95")
        z = float(ndtri(0.5 + confidence / 2))
        return cls(tuple(model.classes_.tolist()), parse_whole(bins, "bins"), z)

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Shares of the spend for the confusion matrix and, of two classes, for scores by class."""
        return (Fraction(1, 2), Fraction(1, 2)) if len(self.classes) == 2 else (Fraction(1), Fraction(0))

    def summarize(self, found: NoisyCounts, scored: NoisyCounts | None, guarantee: Guarantee) -> Evaluation:
        """Return what follows from the counts."""
        auc: Measured | None = None
        calibration: tuple[tuple[float, Measured], ...] = ()
        if scored is not None:
            lower, upper = scored.table.astype(np.float64)
            auc = _auc(lower, upper, scored.deviation, self.z)
            calibration = _calibrated(lower, upper, scored.deviation, self.z)
        accuracy = _accuracy(found, self.z)
        return Evaluation(self.classes, found.table, found.deviation, accuracy, auc, calibration, guarantee)


@dataclass(frozen=True, slots=True)
class _OwnRows:
    """One's own rows, with the codes of their classes."""

    model: Any
    rows: Any
    true: NDArray[np.int64]

    def release_counts(self, measure: EvaluationPlan, spend: Spend) -> tuple[NoisyCounts, NoisyCounts | None]:
        """Return counts by class and prediction and, of two classes, by class and score."""
        size = len(measure.classes)
        # What is predicted for a row must not depend on the others.
        guessed = encode_labels(compute_row_by_row(self.model.predict, self.rows), measure.classes)
        first, second = measure.shares
        found = self._counts(guessed, (size, size), share_of(spend, first))
        if not second:
            return found, None
        probabilities = compute_row_by_row(self._probabilities, self.rows)
        places = np.clip(np.floor(probabilities * measure.bins), 0, measure.bins - 1).astype(np.int64)
        return found, self._counts(places, (2, measure.bins), share_of(spend, second))

    def _counts(self, places: NDArray[np.int64], shape: tuple[int, int], spend: Spend) -> NoisyCounts:
        """Return noisy counts of rows by class and place; a row is in one cell, or in none."""
        if places.shape != self.true.shape:
            raise AssertionError("a model says one thing of each row")
        noise = calibrate_noise(SumBlock((), 1, 1), spend, 1, False)
        # A row whose label or prediction is none of the classes counts nowhere.
        inside = (self.true >= 0) & (places >= 0)
        cells = self.true[inside] * shape[1] + places[inside]
        exact = np.bincount(cells, minlength=shape[0] * shape[1]).astype(np.int64)
        noisy_counts = np.asarray(noise.release(exact), dtype=np.int64)
        return NoisyCounts(noisy_counts.reshape(shape), noise.deviation)

    def _probabilities(self, rows: Any) -> Floats:
        """Return the probability of the second class."""
        if hasattr(self.model, "predict_proba"):
            found: Floats = np.asarray(self.model.predict_proba(rows))[:, 1]
        else:
            # Scores that are no probabilities go through the sigmoid function, within the range of exp.
            scores = np.clip(self.model.decision_function(rows), -500, 500)
            found = 1 / (1 + np.exp(-scores))
        # A prediction that is missing is no error, which would give its row away.
        return np.nan_to_num(found, nan=0.5)


def _accuracy(found: NoisyCounts, z: float) -> Measured:
    """Return the share of the diagonal; its noise follows from the derivative by each count."""
    size, rows = len(found.table), max(1.0, float(found.table.sum()))
    share = min(1.0, max(0.0, float(np.trace(found.table)) / rows))
    # The derivative is (1 − share)/rows by each count on the diagonal and −share/rows by each other.
    spread = math.sqrt(size * (1 - share) ** 2 + (size**2 - size) * share**2) / rows
    return Measured.within(share, found.deviation * spread, z)


def _auc(lower: Floats, upper: Floats, deviation: float, z: float) -> Measured:
    """Return the area under the ROC curve, where pairs in one bin count half.

    Its noise follows from the derivative by each count.
    """
    lower, upper = np.maximum(lower, 0.0), np.maximum(upper, 0.0)
    below, above = max(1.0, float(lower.sum())), max(1.0, float(upper.sum()))
    under = (np.cumsum(lower) - lower / 2) / below
    over = (upper[::-1].cumsum()[::-1] - upper / 2) / above
    value = float(upper @ under) / above
    spread = math.hypot(
        float(np.linalg.norm(under - value)) / above, float(np.linalg.norm(over - value)) / below
    )
    return Measured.within(value, deviation * spread, z)


def _calibrated(
    lower: Floats, upper: Floats, deviation: float, z: float
) -> tuple[tuple[float, Measured], ...]:
    """Return the share of the second class in each bin of scores."""
    found = []
    for place, (no, yes) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        rows = no + yes
        # Bins that noise alone could have filled are left out; noisy counts decide that, so it is free.
        if rows > 3 * math.sqrt(2) * deviation:
            share = min(1.0, max(0.0, yes / rows))
            spread = deviation * math.hypot(share, 1 - share) / rows
            found.append(((place + 0.5) / len(lower), Measured.within(share, spread, z)))
    return tuple(found)
