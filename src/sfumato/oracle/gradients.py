"""Gradients of a loss at public weights, summed over rows in whole numbers: what one step of descent needs.

Because : docs/proofs/convex.md#noisy-descent
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.curator.lower.computed import sum_values
from sfumato.oracle.blocks import Constant, Multiply, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.privacy.events import pack_moves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.arrays.table import ArrayTable
    from sfumato.oracle.blocks import Column, Value
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]
    AddColumns = Callable[[Sequence[Value]], list[Column]]
    """Have an engine compute these values of each row, and refer to them as columns from there on."""

_EXACT = 2**53
"""Doubles hold every integer up to here."""
_ROWS = 2**13
"""Rows that are computed at a time, so that they stay in the processor's cache. For speed alone."""


class ScoreGradient(Protocol):
    """The gradient of a loss with respect to a row's scores, in whole numbers.

    One meaning, computed in two ways: by NumPy over own arrays, and as values that an engine computes. Rows
    of no class have the gradient 0.
    """

    @property
    def norm_bound(self) -> int:
        """The largest l2 norm of one row's gradient, which is what the noise is scaled to."""

    @property
    def outputs(self) -> int:
        """The number of scores a row has."""

    def encode_labels(self, codes: NDArray[np.int64]) -> Floats:
        """Return the labels as `compute_gradients` wants them, one column a score."""

    def compute_gradients(self, scores: Floats, labels: Floats) -> Floats:
        """Return the gradients of rows with these whole scores, one column a score."""

    def lower_gradients(self, scores: Sequence[Value], label: Value, add_columns: AddColumns) -> list[Value]:
        """Return the same gradients as values for an engine, one a score."""


@dataclass(frozen=True, slots=True)
class GradientQuestion:
    """Asks for the sum over rows of score gradient × (features, constant), at integer weights.

    The weights have one row a score; the constant's weight is the last of each.
    """

    weights: NDArray[np.int64]
    score_gradient: ScoreGradient
    constant: int

    def build_block(self, declared: Declared, terms: Sequence[Value] = ()) -> SumBlock:
        """Return the block of these terms with the sensitivity of the gradient.

        A row adds an outer product, whose norm is that of its score gradient times that of its features.
        """
        if declared.norm is None:
            raise AssertionError("rows are clipped before their gradients are asked for")
        l2_squared = self.score_gradient.norm_bound**2 * (declared.norm**2 + self.constant**2)
        # By Cauchy and Schwarz the l1 norm of n entries is at most √n times the l2 norm.
        l1 = math.isqrt(l2_squared * self.weights.size) + 1
        return SumBlock(tuple(terms), l1, l2_squared, moves=pack_moves(l1, math.isqrt(l2_squared)))

    # ---- own arrays ----

    def sum_rows(self, rows: FeatureMatrix) -> NDArray[np.int64]:
        """Return the exact sums over own arrays: doubles hold every integer of a part, 64 bits their sum.

        However many rows there are, nothing fails: an error would say something about their number.
        """
        largest_score = int(np.abs(self.weights).sum(axis=1).max()) * rows.reach
        most = (_EXACT - 1) // (self.score_gradient.norm_bound * rows.reach)
        # Scores and sums of parts are computed in doubles, so both must be exact there. All this is public.
        if largest_score >= _EXACT or not most:
            raise OverflowError("a score or a gradient lies beyond 2^53")
        weights, size = self.weights.T.astype(np.float64), min(_ROWS, most)
        found = np.zeros(self.weights.shape, dtype=np.int64)
        for at in range(0, len(rows.matrix), size):
            part, labels = rows.matrix[at : at + size], rows.labels[at : at + size]
            found += (self.score_gradient.compute_gradients(part @ weights, labels).T @ part).astype(np.int64)
        return found

    # ---- engines ----

    def lower_terms(self, declared: Declared, add_columns: AddColumns) -> list[Value]:
        """Return the terms of the sum as values for an engine, the features fastest."""
        vector: list[Value] = [*(each.value for each in declared.features), Constant(self.constant)]
        label = require_labels(declared).value
        scores = add_columns(
            [
                sum_values([Multiply(v, Constant(w)) for v, w in zip(vector, row, strict=True)])
                for row in self.weights.tolist()
            ]
        )
        gradients = self.score_gradient.lower_gradients(scores, label, add_columns)
        return [Multiply(gradient, v) for gradient in gradients for v in vector]


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Own arrays as one matrix with the constant last, laid out once for the gradients of all rounds."""

    matrix: Floats
    labels: Floats
    """Each row's class, as the score gradient encodes it."""
    constant: int
    score_gradient: ScoreGradient
    reach: int
    """The largest integer in the matrix can be this far from 0."""

    @classmethod
    def of(cls, declared: Declared, arrays: ArrayTable, asked: GradientQuestion) -> FeatureMatrix:
        """Lay out own arrays for a question, and for later ones that it suits."""
        features, codes = read_plain_rows(declared, arrays)
        matrix = np.hstack([features, np.full((len(features), 1), float(asked.constant))])
        reach = max(asked.constant, *(each.bound for each in declared.features))
        return cls(
            matrix, asked.score_gradient.encode_labels(codes), asked.constant, asked.score_gradient, reach
        )

    def suits(self, asked: GradientQuestion) -> bool:
        """Return whether another question has the same constant and encodes labels in the same way."""
        return self.constant == asked.constant and self.score_gradient is asked.score_gradient


def read_plain_rows(declared: Declared, arrays: ArrayTable) -> tuple[Floats, NDArray[np.int64]]:
    """Return the features as they are, one column each, and the class of each row."""
    # Features of own arrays are always columns.
    columns: list[Any] = [arrays.column(each.value) for each in declared.features]  # type: ignore[arg-type]
    codes = arrays.column(require_labels(declared).value)  # type: ignore[arg-type]
    return np.array(columns, dtype=np.float64).T, codes.astype(np.int64)
