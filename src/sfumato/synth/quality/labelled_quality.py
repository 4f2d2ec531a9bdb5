"""The report on synthetic images and vectors: of any generator that draws rows with labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import encode_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.synth.quality.additive_classifier import train_on_rows
from sfumato.synth.quality.drawn_cells import MarginalDistance
from sfumato.synth.quality.limits_in_words import list_limits
from sfumato.synth.quality.report import LearningScore, QualityReport
from sfumato.synth.quality.table_quality import TRAINED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.synth.quality.additive_classifier import LinearClassifierOfRows

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledQuality:
    """So many rows and labels that a generator draws, and a classifier that is trained on them."""

    generator: Any
    rows: int
    seed: int

    @cached_property
    def drawn(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The synthetic rows and their labels."""
        try:
            rows, labels = self.generator.sample(self.rows, seed=self.seed)
        except (TypeError, ValueError, AttributeError):
            raise _not_drawn() from None
        return _to_rows(rows), np.asarray(labels)

    @cached_property
    def classes(self) -> list[Any]:
        """The labels that occur."""
        return sorted(set(self.drawn[1].tolist()), key=str)

    def report(self) -> QualityReport:
        """Return what follows from released numbers and synthetic rows."""
        rows, labels = self.drawn
        name = type(self.generator).__name__
        pictures = (
            {"samples": viz.sample_grid(rows, labels.tolist(), title=f"Samples of {name}")}
            if rows.ndim > 2
            else {}
        )
        quote = getattr(self.generator, "quote_", None)
        promised = getattr(self.generator, "guarantee_", None)
        if not isinstance(promised, Guarantee):
            raise _not_drawn()
        return QualityReport(
            name,
            self.rows,
            promised,
            getattr(quote, "parts", ()),
            self._compare_classes(),
            self._score(),
            list_limits(self.generator),
            pictures,
        )

    def _compare_classes(self) -> tuple[MarginalDistance, ...]:
        """Return how far the labels are from the noisy counts of classes, where those were released."""
        counts = getattr(self.generator, "class_counts_", None)
        classes = getattr(getattr(self.generator, "_form", None), "classes", None)
        if counts is None or classes is None or len(counts) != len(classes):
            return ()
        released = np.maximum(np.asarray(counts, dtype=np.float64), 0.0)
        labels = encode_labels(self.drawn[1], np.asarray(classes).tolist())
        drawn = np.bincount(labels[labels >= 0], minlength=len(released)) / max(1, self.rows)
        apart = float(np.abs(drawn - released / max(1.0, released.sum())).sum() / 2)
        return (MarginalDistance(("label",), apart, 0.0),)

    # ---- learning ----

    @cached_property
    def _coded(self) -> tuple[Floats, Ints]:
        rows, labels = self.drawn
        flat = rows.reshape(len(rows), -1).astype(np.float64)
        return flat, encode_labels(labels, self.classes)

    @cached_property
    def classifier(self) -> LinearClassifierOfRows:
        """A linear classifier, trained on some of the synthetic rows."""
        flat, labels = self._coded
        line = self._line()
        return train_on_rows(flat[:line], labels[:line], len(self.classes))

    def _line(self) -> int:
        return max(1, round(TRAINED * self.rows))

    def _score(self) -> LearningScore:
        line, (flat, labels) = self._line(), self._coded
        flat, labels = flat[line:], labels[line:]
        right = float(np.mean(self.classifier.predict(flat) == labels)) if len(labels) else 0.0
        largest = float(np.bincount(labels).max() / len(labels)) if len(labels) else 0.0
        return LearningScore("label", right, largest)


def _to_rows(rows: Any) -> NDArray[Any]:
    """Return rows of numbers as an array; of a table, the columns that are numbers."""
    if not hasattr(rows, "column_names"):
        return np.asarray(rows)
    columns = [np.asarray(rows[name].to_pylist()) for name in rows.column_names]
    numbers = [each.astype(np.float64) for each in columns if each.dtype.kind in "iufb"]
    return np.stack(numbers, axis=1) if numbers else np.zeros((len(rows), 1))


def _not_drawn() -> UsageError:
    return UsageError(
        "SF-E138",
        "A report needs a generator that was fitted, and that draws a table or rows with labels.",
        try_="sf.synth.report_quality(g) after g.fit(…)",
    )
