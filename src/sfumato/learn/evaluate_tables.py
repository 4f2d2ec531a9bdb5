"""Evaluating a model on the rows of a table, which a kernel sees in memory, one of each unit.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError
from sfumato.learn.base.fit_table import rebuild_estimator
from sfumato.learn.base.saving import list_learned
from sfumato.learn.evaluation import EvaluationPlan, plan_evaluation
from sfumato.learn.evaluation_kernel import EvaluationKernel, ModuleKernel
from sfumato.noise.audit_hook import unobserved
from sfumato.oracle.declared import Feature, require_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, describe_unit, lower_private_table
from sfumato.oracle.row_kernels import price_kernel
from sfumato.oracle.row_layout import list_figures
from sfumato.oracle.table_blocks import limit_rows
from sfumato.oracle.table_features import declare_features
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation
    from sfumato.oracle.declared import Declared


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What an analyst asks of a model on a table."""

    target: str
    spend: Mapping[str, Any]
    split: Any = None
    confidence: float = 0.95
    bins: int = 20


def evaluate_table(
    payer: Payer, model: Any, table: str | Relation, asked: EvaluationRequest
) -> Evaluation | RegressionEvaluation:
    """Measure a model on one row of each unit of a table."""
    rows = lower_private_table(payer, table, asked.split)
    if rows.table.neighbours is Neighbours.REPLACE_ONE:
        # The price of a kernel is proven for a row that is there or not.
        raise PolicyError(
            "SF-E132",
            "Behind the curator, a model is evaluated where units are added or removed, and not replaced.",
            why=f"'{rows.table.name}' protects against replacing a unit",
            try_="a table that is registered with neighbours=sf.ADD_REMOVE",
        )
    bounded, each = limit_rows(rows, 1)
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
    if isinstance(measure, EvaluationPlan) and require_labels(declared).classes != measure.classes:
        raise _not_supported()
    kinds = ModuleKernel if trained else EvaluationKernel
    kernel = kinds.of(model, declared, measure, budget, asked.spend)
    plan = price_kernel(bounded, list_figures(declared), kernel, budget.main)
    if not payer.was_answered(plan):
        unobserved(kernel.rehearse)
    (answer,) = FitRounds(payer, type(model).__name__, "evaluate").pay(plan, budget)
    return measure.summarize(answer, promised, budget)


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


def _not_supported() -> PolicyError:
    return PolicyError(
        "SF-E112",
        "Behind the curator, a model is evaluated on columns with the names and classes it was fitted on.",
        try_="a model from s.fit(…), or one fitted on a frame with the same columns",
    )
