"""How good a model is, as charged measurements: noisy counts of rows, and what follows from them.

Because : docs/proofs/search.md#evaluation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from sfumato.curator.statistics import Block, noisy, part
from sfumato.errors import UsageError
from sfumato.learn.declared import codes
from sfumato.learn.guarantee import Guarantee
from sfumato.learn.purse import Purse
from sfumato.privacy.events import Sequential
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.spend import Spend

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """A number, and between which ends the noise leaves it in `confidence` of all cases."""

    value: float
    low: float
    high: float

    @classmethod
    def within(cls, value: float, deviation: float, z: float) -> Measured:
        """Of a share, from 0 to 1."""
        low, middle, high = (min(1.0, max(0.0, value + side * z * deviation)) for side in (-1, 0, 1))
        return cls(middle, low, high)

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What noisy counts say of a model. Intervals are for the noise."""

    classes: tuple[Any, ...]
    confusion: NDArray[np.int64]
    """Noisy numbers of rows: one row a true class, one column a predicted one."""
    deviation: float
    """Of the noise of each."""
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
    if not hasattr(model, "classes_"):
        raise UsageError("SF-E138", "Only fitted classifiers are evaluated.", try_="model.fit(X, y) first")
    if not 0 < confidence < 1:
        raise UsageError("SF-E139", "confidence lies between 0 and 1.", try_="confidence=0.95")
    named = {"epsilon": epsilon, "delta": delta, "rho": rho}
    purse = Purse.of({name: value for name, value in named.items() if value is not None}, Fraction(0))
    if budget is not None:
        budget.require(purse.events)
        budget.charge(Sequential(purse.events), "evaluate")
    sheet = _Sheet(model, np.asarray(X), np.asarray(y), float(ndtri(0.5 + confidence / 2)))
    return sheet.filled(purse, whole(bins, "bins"))


@dataclass(frozen=True, slots=True)
class _Sheet:
    model: Any
    rows: NDArray[Any]
    labels: NDArray[Any]
    z: float

    def filled(self, purse: Purse, bins: int) -> Evaluation:
        """For two classes half of the spend is for scores."""
        classes = tuple(self.model.classes_.tolist())
        share = Fraction(1, 2) if len(classes) == 2 else Fraction(1)
        true = codes(self.labels, classes)
        cells = true * len(classes) + codes(self.model.predict(self.rows), classes)
        found, deviation = _counted(np.where(true < 0, -1, cells), len(classes) ** 2, part(purse.main, share))
        table = found.reshape(len(classes), len(classes))
        auc: Measured | None = None
        calibration: tuple[tuple[float, Measured], ...] = ()
        if len(classes) == 2:
            auc, calibration = self._scored(true, bins, part(purse.main, 1 - share))
        return Evaluation(
            classes, table, deviation, self._accuracy(table, deviation), auc, calibration, Guarantee.of(purse)
        )

    def _accuracy(self, table: NDArray[np.int64], deviation: float) -> Measured:
        """By how the share of the diagonal changes with each count."""
        size, rows = len(table), max(1.0, float(table.sum()))
        share = min(1.0, max(0.0, float(np.trace(table)) / rows))
        spread = math.sqrt(size * (1 - share) ** 2 + (size**2 - size) * share**2) / rows
        return Measured.within(share, deviation * spread, self.z)

    def _scored(
        self, true: NDArray[np.int64], bins: int, spend: Spend
    ) -> tuple[Measured, tuple[tuple[float, Measured], ...]]:
        places = np.clip(np.floor(self._chances() * bins), 0, bins - 1).astype(np.int64)
        found, deviation = _counted(np.where(true < 0, -1, true * bins + places), 2 * bins, spend)
        lower, upper = found.reshape(2, bins).astype(np.float64)
        return _auc(lower, upper, deviation, self.z), _calibrated(lower, upper, deviation, self.z)

    def _chances(self) -> Floats:
        """Of the second class; scores that are no chances are made to lie between 0 and 1."""
        if hasattr(self.model, "predict_proba"):
            found: Floats = np.asarray(self.model.predict_proba(self.rows))[:, 1]
        else:
            scores = np.clip(self.model.decision_function(self.rows), -500, 500)
            found = 1 / (1 + np.exp(-scores))
        return np.nan_to_num(found, nan=0.5)


def _counted(cells: NDArray[np.int64], size: int, spend: Spend) -> tuple[NDArray[np.int64], float]:
    """A row is in one cell, or in none."""
    noise = noisy(Block((), 1, 1), spend, 1, False)
    exact = np.bincount(cells[cells >= 0], minlength=size).astype(np.int64)
    return noise.release(exact), noise.deviation


def _auc(lower: Floats, upper: Floats, deviation: float, z: float) -> Measured:
    """Pairs in one bin count half. Its noise by how it changes with each count."""
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
    """Bins with fewer rows than their noise has deviations are left out, which noisy counts decide."""
    found = []
    for place, (no, yes) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        rows = no + yes
        if rows > 3 * math.sqrt(2) * deviation:
            share = min(1.0, max(0.0, yes / rows))
            spread = deviation * math.hypot(share, 1 - share) / rows
            found.append(((place + 0.5) / len(lower), Measured.within(share, spread, z)))
    return tuple(found)
