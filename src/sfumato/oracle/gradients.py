"""The slope of a loss at public weights, summed over rows in whole numbers: what one step down needs.

Because : docs/proofs/convex.md#noisy-descent
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.curator.lower.computed import sum_values
from sfumato.oracle.blocks import Block, Constant, Multiply
from sfumato.oracle.declared import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.arrays import Arrays
    from sfumato.oracle.blocks import Column, Value
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]
    Grow = Callable[[Sequence[Value]], list[Column]]

_EXACT = 2**53
_ROWS = 2**13
"""So many rows at a time, so that what is computed of them stays near."""


class ScoreGradient(Protocol):
    """The gradient of a loss with respect to a row's scores, in whole numbers.

    One meaning, computed in two ways: by NumPy over own arrays, and as values that an engine computes. Rows
    of no class have the gradient 0.
    """

    @property
    def longest(self) -> int:
        """The largest l2 norm of one row's gradient, which is what the noise is scaled to."""

    @property
    def outputs(self) -> int:
        """The number of scores a row has."""

    def marks(self, codes: NDArray[np.int64]) -> Floats:
        """Return what `of` needs to know of each row's class, one column a score."""

    def of(self, scores: Floats, marks: Floats) -> Floats:
        """Return the gradients of rows with these whole scores, one column a score."""

    def lowered(self, scores: Sequence[Value], label: Value, grow: Grow) -> list[Value]:
        """Return the same gradients as values for an engine, one a score."""


@dataclass(frozen=True, slots=True)
class GradientQuestion:
    """Σ over rows of pulls × (features, constant), at whole weights: one row a score, the constant's last."""

    weights: NDArray[np.int64]
    score_gradient: ScoreGradient
    constant: int

    def block(self, declared: Declared, terms: Sequence[Value] = ()) -> Block:
        """A row's part is an outer product: as long as its pulls times its features."""
        if declared.norm is None:
            raise AssertionError("rows are shortened before their slopes are asked for")
        l2_squared = self.score_gradient.longest**2 * (declared.norm**2 + self.constant**2)
        return Block(tuple(terms), math.isqrt(l2_squared * self.weights.size) + 1, l2_squared)

    # ---- own arrays ----

    def exact(self, rows: FeatureMatrix) -> NDArray[np.int64]:
        """The sums, in doubles that hold every integer on the way."""
        steep = int(np.abs(self.weights).sum(axis=1).max()) * rows.reach
        if max(steep, self.score_gradient.longest * rows.reach * len(rows.matrix)) >= _EXACT:
            raise OverflowError("a sum lies beyond 2^53")
        weights = self.weights.T.astype(np.float64)
        found = np.zeros(self.weights.shape)
        for at in range(0, len(rows.matrix), _ROWS):
            part = rows.matrix[at : at + _ROWS]
            found += self.score_gradient.of(part @ weights, rows.marks[at : at + _ROWS]).T @ part
        return found.astype(np.int64)

    # ---- engines ----

    def lowered(self, declared: Declared, grow: Grow) -> list[Value]:
        """The terms of the sum, the features fastest."""
        vector: list[Value] = [*(each.value for each in declared.features), Constant(self.constant)]
        label = labels(declared).value
        scores = grow(
            [
                sum_values([Multiply(v, Constant(w)) for v, w in zip(vector, row, strict=True)])
                for row in self.weights.tolist()
            ]
        )
        pulls = self.score_gradient.lowered(scores, label, grow)
        return [Multiply(pull, v) for pull in pulls for v in vector]


@dataclass(frozen=True, slots=True)
class FeatureMatrix:
    """Own arrays as one matrix with the constant last, laid out for sums at many weights."""

    matrix: Floats
    marks: Floats
    """What the residual wants to know of each row's class."""
    constant: int
    score_gradient: ScoreGradient
    reach: int

    @classmethod
    def of(cls, declared: Declared, arrays: Arrays, asked: GradientQuestion) -> FeatureMatrix:
        features, codes = plain(declared, arrays)
        matrix = np.hstack([features, np.full((len(features), 1), float(asked.constant))])
        reach = max(asked.constant, *(each.bound for each in declared.features))
        return cls(matrix, asked.score_gradient.marks(codes), asked.constant, asked.score_gradient, reach)

    def suits(self, asked: GradientQuestion) -> bool:
        return self.constant == asked.constant and self.score_gradient is asked.score_gradient


def plain(declared: Declared, arrays: Arrays) -> tuple[Floats, NDArray[np.int64]]:
    """Features as they are, one column each, and the class of each row."""
    columns: list[Any] = [arrays.column(each.value) for each in declared.features]  # type: ignore[arg-type]
    codes = arrays.column(labels(declared).value)  # type: ignore[arg-type]
    return np.array(columns, dtype=np.float64).T, codes.astype(np.int64)


def labels(declared: Declared) -> Labels:
    if not isinstance(declared.target, Labels):
        raise AssertionError(declared.target)
    return declared.target
