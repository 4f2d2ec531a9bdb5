"""Evaluating a model by charged measurements: noisy counts and sums of rows, and what follows from them.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import is_regressor
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.learn.regression_scores import Measured, RegressionEvaluation, RegressionPlan, make_oracle
from sfumato.noise.audit_hook import unobserved
from sfumato.oracle.arrays.features import encode_labels
from sfumato.oracle.arrays.integer_rows import check_bounds
from sfumato.oracle.blocks import COUNT, CellKey, Column, SumBlock, calibrate_noise, share_of
from sfumato.oracle.declared import LABELS
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.row_by_row import compute_row_by_row
from sfumato.privacy.events import Sequential
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.viz import Chart

    Floats = NDArray[np.float64]


_GUESS, _BIN = Column(1, "guess"), Column(1, "bin")
"""What a model says of a row, beside its class."""


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
    roc: tuple[tuple[float, Measured], ...] = ()
    """For two classes: shares of the first and of the second that score above each of falling thresholds."""

    def plot_roc(self) -> Chart:
        """Return the ROC curve with its intervals, for two classes."""
        return viz.roc_curve(*_split_points(self.roc))

    def plot_calibration(self) -> Chart:
        """Return how often predictions were right, with intervals, for two classes."""
        return viz.calibration_curve(*_split_points(self.calibration))

    def __str__(self) -> str:
        lines = [f"accuracy  {self.accuracy}"] + ([f"AUC       {self.auc}"] if self.auc else [])
        return "\n".join([*lines, str(self.guarantee)])


def _split_points(points: tuple[tuple[float, Measured], ...]) -> list[list[float]]:
    """Return the places of points, their values, and the ends of their intervals."""
    if not points:
        raise UsageError("SF-E138", "There is no such curve of this model.", why="it needs two classes")
    places, measured = [at for at, _ in points], [each for _, each in points]
    return [
        places,
        [each.value for each in measured],
        [each.low for each in measured],
        [each.high for each in measured],
    ]


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
    target_bounds: Any = None,
) -> Evaluation | RegressionEvaluation:
    """Measure a fitted classifier or regressor on one's own rows, none of which it needs to have seen.

    A regressor is measured within `target_bounds`, or else within those that it was fitted with.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for all that is measured.
    Because  : docs/proofs/evaluation.md#evaluation
    Assumes  : the model and its classes are public, or were paid for.
    """
    regresses = hasattr(model, "__sklearn_tags__") and is_regressor(model)
    ends = _find_ends(model, target_bounds) if regresses else None
    measure = plan_evaluation(model, ends, confidence, bins)
    cost = measure.read_budget({"epsilon": epsilon, "delta": delta, "rho": rho})
    targets = column_or_1d(y)
    check_consistent_length(X, targets)
    # What cannot be measured raises here, on no rows, before anything is charged.
    nothing = measure.measure_rows(model, [], measure.encode_targets(targets[:0]))
    unobserved(lambda: measure.release(nothing, cost))
    if budget is not None:
        budget.require(cost.events)
        budget.charge(Sequential(cost.events), "evaluate")
    found = measure.release(measure.measure_rows(model, X, measure.encode_targets(targets)), cost)
    return measure.summarize(found, Guarantee.of(cost), cost)


def _find_ends(model: Any, target_bounds: Any) -> tuple[float, float]:
    """Return the bounds of the target: as given, or else those of the model, or of the best of a search."""
    inner = getattr(model, "best_estimator_", model)
    given = target_bounds if target_bounds is not None else getattr(inner, "target_bounds", None)
    if given is None:
        given = getattr(inner, "target_bounds_", None)
    if given is None:
        raise UsageError(
            "SF-E101", "Declare the bounds of the target.", try_="evaluate(…, target_bounds=(0, 100))"
        )
    lows, highs = check_bounds(given, 1)
    return float(lows[0]), float(highs[0])


def plan_evaluation(
    model: Any, ends: tuple[float, float] | None, confidence: float, bins: int
) -> EvaluationPlan | RegressionPlan:
    """Return what is measured of a classifier, or of a regressor whose target has these ends."""
    if not hasattr(model, "predict") or (ends is None and not hasattr(model, "classes_")):
        raise UsageError(
            "SF-E138",
            "Only fitted classifiers and regressors can be evaluated.",
            try_="model.fit(X, y) first",
        )
    if not 0 < confidence < 1:
        raise UsageError("SF-N101", "confidence must lie between 0 and 1.", try_="confidence=0.95")
    z = float(ndtri(0.5 + confidence / 2))
    if ends is not None:
        return RegressionPlan(*ends, z)
    return EvaluationPlan(tuple(model.classes_.tolist()), parse_whole(bins, "bins"), z)


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

    @staticmethod
    def read_budget(named: Mapping[str, Any]) -> FitBudget:
        """Return what an evaluation may cost, from what was typed."""
        return FitBudget.of({name: value for name, value in named.items() if value is not None}, Fraction(0))

    def encode_targets(self, labels: Any) -> NDArray[np.int64]:
        """Return the places of labels among the classes."""
        return encode_labels(labels, self.classes)

    def measure_rows(self, model: Any, rows: Any, true: NDArray[np.int64]) -> dict[Column, NDArray[np.int64]]:
        """Return the class, the predicted one and, of two classes, the bin of the score of each row.

        What is said of a row must not depend on the others.
        """
        guessed = compute_row_by_row(model.predict, rows)
        found = {LABELS: true, _GUESS: encode_labels(guessed, self.classes)}
        if len(self.classes) == 2:
            chances = compute_row_by_row(lambda block: read_probabilities(model, block), rows)
            found[_BIN] = np.clip(np.floor(chances * self.bins), 0, self.bins - 1).astype(np.int64)
        return found

    def release(self, columns: dict[Column, NDArray[np.int64]], cost: FitBudget) -> dict[str, Any]:
        """Return noisy counts by class and prediction and, of two classes, by class and score."""
        size = len(self.classes)
        ranges = {LABELS: (-1, size - 1), _GUESS: (-1, size - 1), _BIN: (0, self.bins - 1)}
        oracle = make_oracle(columns, {name: ranges[name] for name in columns}, cost)
        one = [SumBlock((COUNT,), 1, 1)]
        first, second = self.shares
        # A row whose label or prediction is none of the classes counts nowhere.
        (found,) = oracle.sums(one, [CellKey(LABELS, size), CellKey(_GUESS, size)], share=first)
        scored = None
        if second:
            keys = [CellKey(LABELS, 2), CellKey(_BIN, self.bins)]
            scored = oracle.sums(one, keys, share=second)[0].values.tolist()
        return {"confusion": found.values.tolist(), "scored": scored}

    def read(self, found: dict[str, Any], cost: FitBudget) -> tuple[NoisyCounts, NoisyCounts | None]:
        """Return the noisy counts with their deviations, which are public."""

        def counts(table: Any, share: Fraction, width: int) -> NoisyCounts:
            noise = calibrate_noise(SumBlock((), 1, 1), share_of(cost.main, share), 1, False)
            return NoisyCounts(np.array(table, dtype=np.int64).reshape(-1, width), noise.deviation)

        first, second = self.shares
        scored = found["scored"]
        return counts(found["confusion"], first, len(self.classes)), (
            None if scored is None else counts(scored, second, self.bins)
        )

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Shares of the spend for the confusion matrix and, of two classes, for scores by class."""
        return (Fraction(1, 2), Fraction(1, 2)) if len(self.classes) == 2 else (Fraction(1), Fraction(0))

    def summarize(self, released: dict[str, Any], guarantee: Guarantee, cost: FitBudget) -> Evaluation:
        """Return what follows from what was released."""
        found, scored = self.read(released, cost)
        auc: Measured | None = None
        calibration: tuple[tuple[float, Measured], ...] = ()
        roc: tuple[tuple[float, Measured], ...] = ()
        if scored is not None:
            lower, upper = scored.table.astype(np.float64)
            auc = _auc(lower, upper, scored.deviation, self.z)
            calibration = _calibrated(lower, upper, scored.deviation, self.z)
            roc = _roc(lower, upper, scored.deviation, self.z)
        return Evaluation(
            self.classes,
            found.table,
            found.deviation,
            _accuracy(found, self.z),
            auc,
            calibration,
            guarantee,
            roc,
        )


def read_probabilities(model: Any, rows: Any) -> Floats:
    """Return the probability of the second of two classes."""
    if hasattr(model, "predict_proba"):
        found: Floats = np.asarray(model.predict_proba(rows))[:, 1]
    else:
        # Scores that are no probabilities go through the sigmoid function, within the range of exp.
        scores = np.clip(model.decision_function(rows), -500, 500)
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


def _roc(lower: Floats, upper: Floats, deviation: float, z: float) -> tuple[tuple[float, Measured], ...]:
    """Return the share of each class that lies above each edge between bins, from the highest on."""
    below, above = max(1.0, float(lower.sum())), max(1.0, float(upper.sum()))
    wrongly, rightly = (np.cumsum(each[::-1])[:-1] for each in (lower / below, upper / above))
    found = []
    for place, (false, true) in enumerate(zip(wrongly.tolist(), rightly.tolist(), strict=True), 1):
        share = min(1.0, max(0.0, true))
        # The bins above the edge are part of the whole, so their noise is in both.
        spread = math.sqrt(place * (1 - share) ** 2 + (len(upper) - place) * share**2) / above
        found.append((min(1.0, max(0.0, false)), Measured.within(true, deviation * spread, z)))
    return tuple(found)


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
