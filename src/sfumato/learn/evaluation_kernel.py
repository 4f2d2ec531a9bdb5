"""Evaluating any model of sf.learn on rows of a table that are held in memory, one a unit, for one charge.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.learn.base.estimator import quiet_arithmetic
from sfumato.learn.base.saving import from_json, to_json
from sfumato.learn.evaluation import EvaluationPlan, plan_evaluation
from sfumato.noise.audit_hook import observed
from sfumato.oracle.arrays.coded_rows import EncodedRows
from sfumato.oracle.row_kernels import AuditedUnits
from sfumato.oracle.row_layout import RowLayout
from sfumato.privacy.canonical import tagged, written_by
from sfumato.privacy.events import Sequential
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.learn.regression_scores import RegressionPlan
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.privacy.events import Event

    Plan = EvaluationPlan | RegressionPlan


@tagged("Evaluated", "model", "layout", "bins", "amounts", "whole")
@dataclass(frozen=True, slots=True)
class EvaluationKernel:
    """Releases noisy counts or sums of what a public model says of each unit's row.

    Privacy
    -------
    Protects : one unit with one row, add/remove.
    Costs    : the spend of the evaluation.
    Because  : docs/proofs/evaluation.md#evaluation
    Assumes  : rows are integers within their bounds; what NumPy computes of one row in a block of fixed size
               depends on that row, its place and the model.
    """

    model: str
    layout: RowLayout
    bins: int
    amounts: tuple[tuple[str, Fraction], ...]
    whole: Event

    @classmethod
    def of(
        cls, model: Any, declared: Declared, measure: Plan, budget: FitBudget, spend: Mapping[str, Any]
    ) -> EvaluationKernel:
        """Return the kernel of an evaluation, with the model written down."""
        require_same_features(model, declared)
        if model.listed:
            # Listed values are read as their places, and so is what the model learnt about them.
            model.categories_ = [list(range(len(each))) for each in model.categories_]
        if isinstance(measure, EvaluationPlan):
            # Classes too go by their places.
            model.classes_ = np.arange(len(model.classes_))
        # Features go by their places.
        vars(model).pop("feature_names_in_", None)
        bins = measure.bins if isinstance(measure, EvaluationPlan) else 0
        return cls(
            json.dumps(to_json(model), allow_nan=False),
            RowLayout.of(declared),
            bins,
            _read_amounts(spend),
            Sequential(budget.events),
        )

    @property
    def passes(self) -> int:
        """About how often it goes over the rows; trees do so most often."""
        return 100

    def event(self) -> Event:
        """Return the price of the evaluation."""
        return self.whole

    def release(self, exact: NDArray[np.int64]) -> dict[str, Any]:
        """Return the noisy counts or sums over rows that are given as one row a figure, one column a unit."""
        found: dict[str, Any] = observed(self, AuditedUnits(exact), None, lambda: self._measure(exact))
        return found

    def rehearse(self) -> None:
        """Measure a table of no rows, so that what cannot be measured raises before anything is charged."""
        self._measure(np.zeros((len(self.layout.features) + 1, 0), dtype=np.int64))

    def _load_model(self) -> Any:
        return from_json(json.loads(self.model))

    def _measure(self, exact: NDArray[np.int64]) -> dict[str, Any]:
        model, target = self._load_model(), self.layout.target
        rows = self.layout.decode_features(exact).view(EncodedRows)
        goals = exact[-1] if isinstance(target, int) else target.decode(exact[-1])
        ends = None
        if not isinstance(target, int):
            middle, half = float(target.middle), float(target.half)
            ends = middle - half, middle + half
        # How sure intervals are to be is no part of what is released.
        measure = plan_evaluation(model, ends, 0.5, self.bins or 1)
        with quiet_arithmetic():
            columns = measure.measure_rows(model, rows, measure.encode_targets(goals))
            return measure.release(columns, measure.read_budget(dict(self.amounts)))


def _write_module_kernel(kernel: ModuleKernel) -> dict[str, Any]:
    names = ("model", "layout", "bins", "amounts", "whole")
    return {"": "EvaluatedModule", **{name: getattr(kernel, name) for name in names}}


@written_by(_write_module_kernel)
@dataclass(frozen=True, slots=True)
class ModuleKernel(EvaluationKernel):
    """Releases noisy counts or sums of what a trained module says of each unit's row.

    Privacy
    -------
    Protects : one unit with one row, add/remove.
    Costs    : the spend of the evaluation.
    Because  : docs/proofs/evaluation.md#evaluation
    Assumes  : what the module says of a row in a block of fixed size depends on that row, its place and the
               module, which is checked on made-up rows.
    """

    predictor: Any = None
    """The module, which is no part of what is hashed: `model` describes it."""

    @classmethod
    def of(
        cls, model: Any, declared: Declared, measure: Plan, budget: FitBudget, spend: Mapping[str, Any]
    ) -> ModuleKernel:
        """Return the kernel of an evaluation of a module."""
        model.number_classes()
        bins = measure.bins if isinstance(measure, EvaluationPlan) else 0
        public = RowLayout.of(declared), bins, _read_amounts(spend), Sequential(budget.events)
        return cls(model.described, *public, predictor=model)

    def _load_model(self) -> Any:
        return self.predictor


def _read_amounts(spend: Mapping[str, Any]) -> tuple[tuple[str, Fraction], ...]:
    amounts = {name: parse_exact(each, name) for name, each in spend.items() if each is not None}
    return tuple(sorted(amounts.items()))


def require_same_features(model: Any, declared: Declared) -> None:
    """Refuse a model whose columns became other features than those of the table do."""
    mine = [(each.categories, each.fill, each.flagged) for each in model.coded_columns]
    theirs = [(each.categories, each.fill, each.flagged) for each in declared.columns]
    lists = [list(each.categories) for each in declared.features] if model.listed else []
    if mine != theirs or (model.listed and model.categories_ != lists):
        raise PolicyError(
            "SF-E112",
            "The model was fitted on columns with other categories or rules for missing values.",
            try_="the same bounds= and missing= as those of the catalog",
        )
