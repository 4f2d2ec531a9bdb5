"""The report on a synthetic table, and the measurement that it can be compared with the rows by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.synth.quality.additive_classifier import train_on_cells
from sfumato.synth.quality.check_kernel import CheckKernel, fit_sample_size, read_numbers
from sfumato.synth.quality.drawn_cells import DrawnCells, compare_marginals
from sfumato.synth.quality.limits_in_words import list_limits
from sfumato.synth.quality.report import BoughtCheck, LearningScore, QualityReport
from sfumato.synth.spending import Currency, read_amount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.guarantee import Guarantee
    from sfumato.synth.marginals import Marginals
    from sfumato.synth.quality.additive_classifier import CellClassifier

TRAINED = 0.7
"""Share of the synthetic rows that a classifier is trained on; the others it is scored on."""
_PICTURES = 24
"""Columns that have a picture, the first ones."""


@dataclass(frozen=True)
class TableQuality:
    """Synthetic rows of a fitted synthesis, and a classifier of one column that is trained on them."""

    fitted: Marginals
    rows: int
    seed: int
    target: str | None

    def __post_init__(self) -> None:
        self.fitted.require_fitted()

    @cached_property
    def drawn(self) -> DrawnCells:
        """The synthetic rows as cells."""
        return DrawnCells.of(self.fitted.marginals_.columns, self.fitted.sample(self.rows, seed=self.seed))

    def report(self) -> QualityReport:
        """Return what follows from released numbers and synthetic rows."""
        fitted = self.fitted
        distances = compare_marginals(self.drawn, fitted.marginals_.released, fitted.total_)
        pictures = {column.name: self._draw(at) for at, column in enumerate(self.drawn.columns[:_PICTURES])}
        return QualityReport(
            "Marginals",
            self.rows,
            fitted.guarantee_,
            fitted.quote_.parts,
            distances,
            self._score(),
            None,
            list_limits(fitted),
            pictures,
        )

    # ---- a measurement of its own ----

    def make_check(self, budget: FitBudget, currency: Currency) -> CheckKernel:
        """Return the measurement that a budget pays for; as many rows are drawn as the marginals speak of."""
        concentrated, amount = read_amount(budget)
        size, each = fit_sample_size(self.fitted.total_)
        columns = self.fitted.marginals_.columns
        compared = DrawnCells.of(columns, self.fitted.sample(size, seed=self.seed))
        paid = replace(currency, concentrated=concentrated)
        kernel = CheckKernel(compared, each, self.classifier, paid, amount)
        kernel.require_drawable()
        return kernel

    def add_check(
        self,
        free: QualityReport,
        kernel: CheckKernel,
        written: Mapping[str, int],
        confidence: float,
        promised: Guarantee,
    ) -> QualityReport:
        """Return a report, made before the charge, with what was measured."""
        numbers = read_numbers(kernel, written, confidence)
        return replace(free, bought=BoughtCheck(numbers, confidence, promised))

    # ---- learning ----

    @cached_property
    def classifier(self) -> CellClassifier | None:
        """A classifier of the target, trained on some of the synthetic rows."""
        if self.target is None:
            return None
        trained, _ = self._halves()
        return train_on_cells(trained, self.drawn.sizes, self._place())

    def _score(self) -> LearningScore | None:
        if self.target is None or self.classifier is None:
            return None
        _, others = self._halves()
        truth = others[self._place()]
        right = float(np.mean(self.classifier.predict(others) == truth)) if len(truth) else 0.0
        largest = float(np.bincount(truth).max() / len(truth)) if len(truth) else 0.0
        return LearningScore(self.target, right, largest)

    def _halves(self) -> tuple[list[Any], list[Any]]:
        """Return the rows to train on and those to score on. Samples are in no order."""
        line = max(1, round(TRAINED * len(self.drawn)))
        return [each[:line] for each in self.drawn.rows], [each[line:] for each in self.drawn.rows]

    def _place(self) -> int:
        names = [column.name for column in self.drawn.columns]
        if self.target not in names:
            raise UsageError(
                "SF-E231",
                "The target is none of the synthetic columns.",
                got=str(self.target),
                known=", ".join(names),
            )
        return names.index(self.target)

    # ---- pictures ----

    def _draw(self, at: int) -> viz.Chart:
        """Return the released counts of a column with their intervals, beside the synthetic ones."""
        tables = self.fitted.marginals_
        name = tables.columns[at].name
        released = tables.table(name)
        measured = next(each for each in tables.released.measured if each.columns == (at,))
        counts = self.drawn.shares(measured, tables.released) * self.fitted.total_
        labels = [str(each) for each in released[name].to_pylist()]
        none = [math.nan] * len(labels)
        count, low, high = (np.asarray(released[name]).tolist() for name in ("count", "low", "high"))
        return viz.grouped_bars(
            [*labels, *labels],
            ["released, with noise"] * len(labels) + ["synthetic"] * len(labels),
            [*(max(0, each) for each in count), *counts],
            [*low, *none],
            [*high, *none],
            title=f"{name}: released and synthetic",
            y="rows",
        )
