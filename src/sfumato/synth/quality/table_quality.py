"""The report on a synthetic table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.synth.quality.additive_classifier import train_on_cells
from sfumato.synth.quality.drawn_cells import DrawnCells, compare_marginals
from sfumato.synth.quality.limits_in_words import list_limits
from sfumato.synth.quality.report import LearningScore, QualityReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.synth.column_cells import ColumnCells
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
        return DrawnCells.of(self.fitted.cells, self.fitted.sample(self.rows, seed=self.seed))

    def report(self) -> QualityReport:
        """Return what follows from released numbers and synthetic rows."""
        fitted = self.fitted
        distances = compare_marginals(self.drawn, fitted.released, fitted.total_)
        pictures = {column.name: self._draw(at) for at, column in enumerate(self.drawn.columns[:_PICTURES])}
        return QualityReport(
            "Marginals",
            self.rows,
            fitted.guarantee_,
            fitted.quote_.parts,
            distances,
            self._score(),
            list_limits(fitted),
            pictures,
        )

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
                "SF-E138",
                "The target is none of the synthetic columns.",
                got=str(self.target),
                known=", ".join(names),
            )
        return names.index(self.target)

    # ---- pictures ----

    def _draw(self, at: int) -> viz.Chart:
        """Return the released counts of a column with their intervals, beside the synthetic ones."""
        released, name = self.fitted.released, self.drawn.columns[at].name
        measured = min(
            (each for each in released.measured if each.columns == (at,)), key=lambda each: each.deviation
        )
        counts = self.drawn.shares(measured, released) * self.fitted.total_
        labels = _name_bins(self.drawn.columns[at], released.bins[at])
        width, none = measured.noise.half_width(0.95), [math.nan] * len(labels)
        return viz.grouped_bars(
            [*labels, *labels],
            ["released, with noise"] * len(labels) + ["synthetic"] * len(labels),
            [*np.maximum(measured.counts, 0).tolist(), *counts],
            [*np.maximum(measured.counts - width, 0).tolist(), *none],
            [*np.maximum(measured.counts + width, 0).tolist(), *none],
            title=f"{name}: released and synthetic",
            y="rows",
        )


def _name_bins(column: ColumnCells, bins: NDArray[np.int64]) -> list[str]:
    """Return what each bin of a column holds, in words."""
    shown = [
        "missing" if each is None else " to ".join(map(_show, each)) if isinstance(each, tuple) else str(each)
        for each in column.show_cells()
    ]
    held = [np.flatnonzero(bins == cell) for cell in range(int(bins.max()) + 1)]
    return [shown[each[0]] if len(each) == 1 else f"{shown[each[0]]} … {shown[each[-1]]}" for each in held]


def _show(value: Any) -> str:
    """Return an end of a bin; numbers with many digits after the point are shortened."""
    return format_number(value, 10) if isinstance(value, float) else str(value)
