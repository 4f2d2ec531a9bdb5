"""The report on synthetic images and vectors: of any generator that draws rows with labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import encode_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.synth.quality.additive_classifier import train_on_rows
from sfumato.synth.quality.check_kernel import MeasuredNumber
from sfumato.synth.quality.drawn_cells import MarginalDistance
from sfumato.synth.quality.limits_in_words import list_limits
from sfumato.synth.quality.report import BoughtCheck, LearningScore, QualityReport
from sfumato.synth.quality.table_quality import TRAINED
from sfumato.synth.spending import Currency, read_amount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.additive import Noise
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.privacy.events import Event
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
            None,
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

    # ---- a measurement of its own ----

    def read_rows(self, against: Any) -> tuple[Floats, NDArray[Any]]:
        """Return own rows and labels, or refuse those that have another shape than the synthetic ones."""
        try:
            rows, given = against
            labels = np.asarray(given)
            flat = np.asarray(_to_rows(rows), dtype=np.float64).reshape(len(labels), -1)
        except (TypeError, ValueError):
            flat, labels = np.zeros((0, 0)), np.zeros(0)
        # A label counts for its own row alone: a column of labels would be compared with every row.
        if flat.shape[1] != self._coded[0].shape[1] or labels.shape != (len(flat),):
            raise UsageError(
                "SF-E231",
                "The rows to measure on have another shape than the synthetic ones, or no labels.",
                try_="against=(X, y), as they were given to fit",
            )
        return flat, labels

    def count_right(self, flat: Floats, labels: NDArray[Any], paid: PaidCounts) -> Ints:
        """Return how many rows have the label that is predicted, and how many there are, with noise."""
        with np.errstate(all="ignore"):
            right = int(np.sum(self.classifier.predict(flat) == encode_labels(labels, self.classes)))
        return paid.release([right, len(flat)])

    def add_check(
        self, free: QualityReport, noisy: Ints, paid: PaidCounts, confidence: float, promised: Guarantee
    ) -> QualityReport:
        """Return a report, made before the charge, with the share of right predictions."""
        width = paid.noise.half_width((1 + confidence) / 2)
        right, total = noisy.tolist()
        ends = ((right - width, total + width), (right, total), (right + width, total - width))
        low, value, high = (min(1.0, max(0.0, count / max(1, whole))) for count, whole in ends)
        number = MeasuredNumber("right", value, low, high)
        return replace(free, bought=BoughtCheck((number,), confidence, promised))


@dataclass(frozen=True, slots=True)
class PaidCounts:
    """Noise for two counts of own rows, each for half of an amount.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : the event.
    Because  : docs/proofs/synth.md#measured-quality
    """

    noise: Noise
    currency: Currency
    event: Event

    @classmethod
    def of(cls, budget: FitBudget) -> PaidCounts:
        """Return what a budget pays for."""
        concentrated, amount = read_amount(budget)
        currency = Currency(concentrated)
        return cls(currency.make_noise(amount / 2), currency, currency.make_event(amount))

    def release(self, counts: list[int]) -> Ints:
        """Return the counts with noise."""
        moved = self.currency.sensitivity
        noisy = [self.noise.release_for(np.array([each], dtype=np.int64), moved)[0] for each in counts]
        return np.array(noisy, dtype=np.int64)


def _to_rows(rows: Any) -> NDArray[Any]:
    """Return rows of numbers as an array; of a table, the columns that are numbers."""
    if not hasattr(rows, "column_names"):
        return np.asarray(rows)
    columns = [np.asarray(rows[name].to_pylist()) for name in rows.column_names]
    numbers = [each.astype(np.float64) for each in columns if each.dtype.kind in "iufb"]
    return np.stack(numbers, axis=1) if numbers else np.zeros((len(rows), 1))


def _not_drawn() -> UsageError:
    return UsageError(
        "SF-E231",
        "A report needs a generator that was fitted, and that draws a table or rows with labels.",
        try_="sf.synth.report_quality(g) after g.fit(…)",
    )
