"""What classifiers buy before they learn: the odds of the classes, and where features lie.

Scores start from the odds, so that a classifier that learns nothing predicts the commonest class; noise is
for the bounds that features really have.

Because : docs/proofs/learners.md#first-looks
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.lower.computed import sum_values
from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import UsageError
from sfumato.learn.target_range import tighten_bounds
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    Among,
    AtLeast,
    CellKey,
    Choose,
    Constant,
    Every,
    Less,
    Multiply,
    Not,
    Same,
    SumBlock,
)
from sfumato.oracle.declared import require_labels
from sfumato.oracle.over_arrays import ArrayOracle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Predicate, Value
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_CLASSES_SHARE, _LOOK_SHARE = Fraction(4, 100), Fraction(4, 100)
"""Shares of the spend for the counts of classes, and for each look at where features lie. Chosen with
benchmarks/learners_unseen.py, on its development tables; privacy needs the rest to have what they leave."""


_LARGEST = 2.0**12
"""Weights of the check are whole numbers up to this."""
CHECK_SHARE = Fraction(5, 100)
"""Share of the spend for a check that a classifier meets more rows than the commonest class."""


_LEAST_LOOK = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What was bought before the fit."""

    oracle: Oracle
    """The rows, within tighter bounds where there are enough of them."""
    counts: Floats
    """Noisy numbers of rows by class, to each of which as many were added as noise may have made."""
    rows: float
    """Noisy number of rows."""
    left: Fraction
    """Share of the spend that is left for the fit and its check."""
    check: Fraction = CHECK_SHARE
    """Share of the spend for the check."""

    @property
    def for_fit(self) -> Fraction:
        """Share of the spend for the fit alone."""
        return self.left - self.check

    @property
    def log_shares(self) -> Floats:
        """Logarithms of the shares of the classes, less their mean."""
        logs = np.log(self.counts)
        found: Floats = logs - logs.mean()
        return found


def wants_look(oracle: Oracle, scaling: Any) -> bool:
    """Say whether a first look is bought: on own arrays, unless scaling=None; elsewhere if it is "private".

    Behind the curator a fit that was paid for before must ask the same questions again.
    """
    if scaling not in ("auto", "private", None):
        raise UsageError("SF-E187", "This scaling is not known.", try_='"auto", "private" or None')
    wanted = scaling == "private" or (scaling == "auto" and has_own_arrays(oracle))
    return wanted and can_pay_for_look(oracle)


def can_pay_for_look(oracle: Oracle) -> bool:
    """Say whether the spend is enough for several questions.

    Where it is so small that noise may be out of range, a fit is refused before anything is charged; a look
    would be charged before that.
    """
    main = oracle.budget.main
    return (main.epsilon if isinstance(main, PureSpend) else 1 / main.multiplier) >= _LEAST_LOOK


def has_own_arrays(oracle: Oracle) -> bool:
    """Say whether rows are one's own arrays, so that no answer was kept that must be found again."""
    return isinstance(oracle, ArrayOracle)


def look_first(oracle: Oracle, tighten: bool = True) -> FirstLook:
    """Buy counts of classes and, if rows are many enough, tighter bounds of features."""
    target = require_labels(oracle.declared)
    key = CellKey(target.value, len(target.classes))
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [key], share=_CLASSES_SHARE)
    rows = max(1.0, float(answer.values[0].sum()))
    counts = np.maximum(answer.values[0], 0.0) + max(1.0, answer.deviation)
    found, spent = tighten_bounds(oracle, rows, _LOOK_SHARE) if tighten else (oracle, Fraction(0))
    return FirstLook(found, counts, rows, 1 - _CLASSES_SHARE - spent)


# ---- the check ---------------------------------------------------------------------------------------------


def beats_commonest(oracle: Oracle, guessed: Value, counts: Floats) -> bool:
    """Say, from one noisy sum, whether a guess meets more rows than the commonest class does."""
    return measure_lead(oracle, guessed, counts, CHECK_SHARE) > 0


def measure_lead(oracle: Oracle, guessed: Value, counts: Floats, share: Fraction) -> float:
    """Return, with noise, how many more rows a guess meets than the commonest class does.

    `guessed` is the place of the class that a row is thought to be of. A row adds 1, 0 or −1: whether that is
    its class, less whether its class is the commonest.
    """
    target = require_labels(oracle.declared)
    oracle, (won,) = oracle.with_columns([guessed])
    right = Choose(Same(won, target.value), Constant(1), Constant(0))
    common = Choose(Among(target.value, (int(counts.argmax()),)), Constant(-1), Constant(0))
    (answer,) = oracle.sums([SumBlock((Add(right, common),), 1, 1)], share=share)
    return float(answer.values[0, 0])


def measure_score_lead(oracle: Oracle, scores: Sequence[Value], look: FirstLook) -> float:
    """Return, with noise, how many more rows the highest score meets than the commonest class does."""
    oracle, columns = oracle.with_columns(scores)
    return measure_lead(oracle, find_winner(columns), look.counts, look.check)


def linear_scores(oracle: Oracle, weights: Floats, constant: float) -> list[Value]:
    """Return scores of integer features and of the constant beside them, whose weight is the last."""
    integers = to_whole_weights(weights)
    features = oracle.declared.features
    return [
        sum_values(
            [
                Constant(round(row[-1] * constant)),
                *(Multiply(each.value, Constant(w)) for each, w in zip(features, row[:-1], strict=True)),
            ]
        )
        for row in integers.tolist()
    ]


def to_whole_weights(weights: Floats) -> NDArray[np.int64]:
    """Return weights as whole numbers in the same proportion: only which score is highest is asked."""
    scale = _LARGEST / max(float(np.abs(weights).max()), 1e-300)
    return np.rint(np.nan_to_num(weights * scale)).astype(np.int64)


def find_winner(scores: Sequence[Value]) -> Value:
    """Return the place of the highest score, the first of equals; one score is that of the second class."""
    if len(scores) == 1:
        return Choose(AtLeast(scores[0], 1), Constant(1), Constant(0))
    found: Value = Constant(len(scores) - 1)
    for place in reversed(range(len(scores) - 1)):
        found = Choose(_highest(scores, place), Constant(place), found)
    return found


def _highest(scores: Sequence[Value], place: int) -> Predicate:
    """Say that no later score is higher; earlier ones were asked before."""
    return Every(tuple(Not(Less(scores[place], other)) for other in scores[place + 1 :]))
