"""Evaluating a model on a table behind the curator: engines score linear classifiers, NumPy all other models.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.lower.computed import ComputedColumns, sum_values
from sfumato.errors import PolicyError
from sfumato.learn.base.fit_table import rebuild_estimator
from sfumato.learn.base.saving import list_learned
from sfumato.learn.evaluation import EvaluationPlan, NoisyCounts, plan_evaluation
from sfumato.learn.evaluation_kernel import EvaluationKernel, ModuleKernel
from sfumato.learn.linear.scores import LinearClassifier, choose_row_norm
from sfumato.noise.audit_hook import unobserved
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
from sfumato.oracle.declared import Feature, require_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, describe_unit, lower_private_table
from sfumato.oracle.row_kernels import price_kernel
from sfumato.oracle.row_layout import list_figures
from sfumato.oracle.table_blocks import limit_rows, price_blocks
from sfumato.oracle.table_features import clip_source_rows, declare_features
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.relation import Relation
    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget

_ONE = 2**24
"""The integer that stands for a score of 1. Privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What an analyst asks of a model on a table."""

    target: str
    spend: Mapping[str, Any]
    rows_per_unit: int = 1
    split: Any = None
    confidence: float = 0.95
    bins: int = 20


def evaluate_table(
    payer: Payer, model: Any, table: str | Relation, asked: EvaluationRequest
) -> Evaluation | RegressionEvaluation:
    """Measure a model on the rows of a table.

    Engines score linear classifiers and count rows by class; other models are measured on rows in memory.
    """
    rows = lower_private_table(payer, table, asked.split)
    bounded, each = limit_rows(rows, parse_whole(asked.rows_per_unit, "rows_per_unit"))
    trained = is_trainer(model)
    if trained:
        from sfumato.deep.tables.predictions import read_trained

        model, bounded, declared = read_trained(payer, model, bounded, asked.target)
    else:
        model, bounded, declared = _read_model(model, bounded, asked.target)
    goal = declared.target
    ends = (goal.middle - goal.half, goal.middle + goal.half) if isinstance(goal, Feature) else None
    measure = plan_evaluation(model, ends, asked.confidence, asked.bins)
    budget = measure.read_budget(asked.spend)
    promised = Guarantee.of(budget, unit=describe_unit(rows, each), neighbours=rows.table.neighbours)
    if isinstance(measure, EvaluationPlan):
        if require_labels(declared).classes != measure.classes:
            raise _not_supported()
        if isinstance(model, LinearClassifier):
            found, cut = clip_source_rows(bounded, declared, choose_row_norm(declared), 1.0)
            # A model from columns with other bounds would be scored on another scale.
            if model.accepts(cut):
                rounds = FitRounds(payer, type(model).__name__, "evaluate")
                label = require_labels(declared).value
                counts = _ScoredTable(model, found, cut, label, measure, rounds, budget).count_rows()
                return measure.summarize_counts(*counts, promised)
    _require_one_each(rows, each)
    kinds = ModuleKernel if trained else EvaluationKernel
    kernel = kinds.of(model, declared, measure, budget, asked.spend)
    plan = price_kernel(bounded, list_figures(declared), kernel, budget.main)
    if not payer.was_answered(plan):
        unobserved(kernel.rehearse)
    (answer,) = FitRounds(payer, type(model).__name__, "evaluate").pay(plan, budget)
    return measure.summarize(answer, promised, budget)


def _require_one_each(rows: RowSource, rows_per_unit: int) -> None:
    """Refuse units of several rows, and those that are replaced: what sees rows is proven for neither."""
    if rows_per_unit > 1 or rows.table.neighbours is Neighbours.REPLACE_ONE:
        raise PolicyError(
            "SF-E144",
            "Behind the curator, this model is evaluated for units of one row that are added or removed.",
            try_="rows_per_unit=1",
        )


def is_trainer(model: object) -> bool:
    """Say whether this is a `sf.deep.Trainer`, which needs torch; nothing is imported to find out."""
    kind = type(model)
    return (kind.__module__, kind.__name__) == ("sfumato.deep.trainer", "Trainer")


def _read_model(model: Any, rows: RowSource, target: str) -> tuple[Any, RowSource, Declared]:
    """Return the model, and rows with the features that it takes."""
    # Of the model only what it learnt takes part: nothing that was set on the object stands for a method.
    model = rebuild_model(model)
    if not hasattr(model, "feature_names_in_"):
        raise _not_supported()
    names = [str(name) for name in model.feature_names_in_]
    return (model, *declare_features(rows, names, target, model))


def rebuild_model(model: Any) -> Any:
    """Return a new model with the parameters and with what was learnt."""
    learned = list_learned(model)
    made = rebuild_estimator(model)
    made.__dict__.update(learned)
    return made


@dataclass(frozen=True, slots=True)
class _ScoredTable:
    """Rows of a table, clipped as a linear classifier was taught, whose scores an engine computes."""

    model: LinearClassifier
    rows: RowSource
    cut: Declared
    label: Value
    measure: EvaluationPlan
    rounds: FitRounds
    budget: FitBudget

    def count_rows(self) -> tuple[NoisyCounts, NoisyCounts | None]:
        """Count rows by their class and the predicted one, and for two classes by score; each is a round."""
        layers = ComputedColumns(self.rows)
        scores = _scores(self.model, self.cut, layers)
        cells = _Cells(self.rounds, layers.source, self.budget)
        first, second = self.measure.shares
        size, bins = len(self.measure.classes), self.measure.bins
        confusion = cells.release_counts(
            CellKey(self.label, size), CellKey(_predicted_class(scores, layers), size), layers, first
        )
        if not second:
            return confusion, None
        place = CellKey(_score_bin(scores[0], bins, layers), bins)
        return confusion, cells.release_counts(CellKey(self.label, 2), place, layers, second)


def _not_supported() -> PolicyError:
    return PolicyError(
        "SF-E141",
        "Behind the curator, a model is evaluated on columns with the names and classes it was fitted on.",
        try_="a model from s.fit(…), or one fitted on a frame with the same columns",
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
