"""Evaluating a linear classifier on a table behind the curator: engines compute scores and count rows.

Because : docs/proofs/search.md#evaluation
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.lower.computed import ComputedColumns, sum_values
from sfumato.errors import PolicyError
from sfumato.learn.base.fit_table import rebuild_estimator
from sfumato.learn.base.saving import list_learned
from sfumato.learn.evaluation import NoisyCounts
from sfumato.learn.linear.scores import LinearClassifier, choose_row_norm
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    AtLeast,
    CellKey,
    Choose,
    Constant,
    Greatest,
    Less,
    Multiply,
    SumBlock,
    calibrate_noise,
    share_of,
)
from sfumato.oracle.declared import require_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, describe_unit, lower_private_table
from sfumato.oracle.table_blocks import limit_rows, price_blocks
from sfumato.oracle.table_features import CatalogFeatures, clip_source_rows
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.spend import Spend
    from sfumato.learn.evaluation import Evaluation, EvaluationPlan
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget

_ONE = 2**24
"""The integer that stands for a score of 1. Privacy does not depend on it."""


def evaluate_table(
    payer: Payer,
    model: Any,
    table: str,
    target: str,
    measure: EvaluationPlan,
    budget: FitBudget,
    rows_per_unit: int,
) -> Evaluation:
    """Count rows by their class and the predicted one, and for two classes by score; each is a round."""
    rows = lower_private_table(payer, table)
    bounded, each = limit_rows(rows, parse_whole(rows_per_unit, "rows_per_unit"))
    if not isinstance(model, LinearClassifier) or not hasattr(model, "feature_names_in_"):
        raise _not_supported()
    # Of the model only what it learnt takes part: nothing that was set on the object stands for a method.
    learned, model = list_learned(model), rebuild_estimator(model)
    vars(model).update(learned)
    declared = CatalogFeatures(bounded).declare(
        model.feature_names_in_.tolist(), target, model, classifies=True
    )
    found, cut = clip_source_rows(bounded, declared, choose_row_norm(declared), 1.0)
    # A model from columns with other bounds would be scored on another scale.
    if not model.accepts(cut) or require_labels(declared).classes != measure.classes:
        raise _not_supported()
    layers = ComputedColumns(found)
    scores = _scores(model, cut, layers)
    cells = _Cells(FitRounds(payer, type(model).__name__, "evaluate"), layers.source, budget)
    first, second = measure.shares
    label, size = require_labels(declared).value, len(measure.classes)
    confusion = cells.release_counts(
        CellKey(label, size), CellKey(_predicted_class(scores, layers), size), layers, first
    )
    scored = None
    if second:
        place = CellKey(_score_bin(scores[0], measure.bins, layers), measure.bins)
        scored = cells.release_counts(CellKey(label, 2), place, layers, second)
    promised = Guarantee.of(budget, unit=describe_unit(rows, each), neighbours=rows.table.neighbours)
    return measure.summarize(confusion, scored, promised)


def _not_supported() -> PolicyError:
    return PolicyError(
        "SF-E141",
        "Behind the curator, only linear classifiers that were fitted on such columns can be evaluated.",
        try_="s.fit(sf.learn.LogisticRegression(…), …), and the same table or one like it",
    )


class _Cells:
    """Releases counts of rows by their class and something else."""

    def __init__(self, rounds: FitRounds, source: RowSource, budget: FitBudget) -> None:
        self._rounds, self._budget = rounds, budget
        self._replaced = source.table.neighbours is Neighbours.REPLACE_ONE

    def release_counts(
        self, label: CellKey, other: CellKey, layers: ComputedColumns, share: Any
    ) -> NoisyCounts:
        """Pay a share of the budget for the counts in all cells."""
        spend: Spend = share_of(self._budget.main, share)
        block = SumBlock((COUNT,), 1, 1)
        (answer,) = self._rounds.pay(
            price_blocks(layers.source, (label, other), (block,), spend), self._budget
        )
        noise = calibrate_noise(block, spend, layers.source.max_rows, self._replaced)
        return NoisyCounts(np.array(answer, dtype=np.int64).reshape(label.size, other.size), noise.deviation)


def _scores(model: LinearClassifier, cut: Declared, layers: ComputedColumns) -> list[Value]:
    weights, origin = model.integer_weights(cut, _ONE)
    values = [feature.value for feature in cut.features]
    return list(
        layers.add_columns(
            [
                Add(
                    sum_values([Multiply(v, Constant(w)) for v, w in zip(values, row, strict=True)]),
                    Constant(at),
                )
                for row, at in zip(weights.tolist(), origin.tolist(), strict=True)
            ]
        )
    )


def _predicted_class(scores: list[Value], layers: ComputedColumns) -> Value:
    """Return the place of the highest score, the first of several; of one score, whether it is above 0."""
    if len(scores) == 1:
        return layers.add_columns([Choose(AtLeast(scores[0], 1), Constant(1), Constant(0))])[0]
    highest, place = scores[0], layers.add_columns([Constant(0)])[0]
    for at, score in enumerate(scores[1:], 1):
        place, highest = layers.add_columns(
            [Choose(Less(highest, score), Constant(at), place), Greatest(highest, score)]
        )
    return place


def _score_bin(score: Value, bins: int, layers: ComputedColumns) -> Value:
    """Return the bin of a score: how many edges between bins of probabilities it lies above."""
    # The logit turns edges between probabilities into edges between scores.
    edges = [math.ceil(math.log(at / (bins - at)) * _ONE) for at in range(1, bins)]
    above = [Choose(AtLeast(score, edge), Constant(1), Constant(0)) for edge in edges]
    return layers.add_columns([sum_values(above) if above else Constant(0)])[0]
