"""Blocks of first and second moments: sums of features, and of the products of any two of them.

The sensitivity of a block follows from the norm of a row, and is far below what its terms allow one by one.

Because : docs/proofs/statistics.md#products
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.oracle.blocks import Constant, Multiply, SumBlock
from sfumato.privacy.events import list_moves

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.oracle.declared import Feature
    from sfumato.oracle.protocol import SumAnswer

    Floats = NDArray[np.float64]

_TARGET_REACH, _FINE = 1.0, 4
"""Length of the target, in that of the features, beside which it stands; and steps of the weights for that.
Chosen with benchmarks/learners.py; any whole weights are as private."""
_SQUARE, _MIXED = 5, 7
"""Integer weights near 1 : √2. A mixed product stands for two entries of the matrix, so it may weigh up to √2
times a square at no cost in sensitivity. The proof holds for any weights with mixed² ≤ 2·square²."""


def build_gram_block(features: Sequence[Feature], norm: int | None, share: Fraction) -> SumBlock:
    """Return the block of Σ v vᵀ: squares and mixed products, the upper triangle row by row.

    With ‖v‖ ≤ N: 5²·Σ vᵢ⁴ + 7²·Σ_{i<j} vᵢ²vⱼ² ≤ 5²·(Σ vᵢ²)² = (5N²)², as 7² < 2·5².
    """
    square = [Multiply(each.value, Constant(_SQUARE)) for each in features]
    mixed = [Multiply(each.value, Constant(_MIXED)) for each in features]
    terms, reach = [], []
    for i, j in _pairs(len(features)):
        terms.append(Multiply(square[i] if i == j else mixed[i], features[j].value))
        reach.append((_SQUARE if i == j else _MIXED) * features[i].bound * features[j].bound)
    l1, l2_squared = sum(reach), sum(each * each for each in reach)
    if norm is not None:
        # Σ|vᵢ|·|vⱼ| over pairs is at most (d − 1)/2 times ‖v‖², since 2|ab| ≤ a² + b².
        l1 = min(l1, _SQUARE * norm**2 + _MIXED * (len(features) - 1) * norm**2 // 2 + 1)
        # The bound from the docstring; each term alone may still be tighter for few features.
        l2_squared = min(l2_squared, (_SQUARE * norm**2) ** 2)
    return SumBlock(tuple(terms), l1, l2_squared, share, moves=list_moves(reach, l1))


def read_gram_matrix(answer: SumAnswer, features: Sequence[Feature]) -> tuple[Floats, float]:
    """Return the Gram matrix Σ z zᵀ, with z from −1 to 1, and the deviation of the noise of mixed entries."""
    size = len(features)
    bounds = np.array([float(each.bound) for each in features])
    found = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    weights = np.where(rows == columns, _SQUARE, _MIXED)
    found[rows, columns] = answer.values[:, 0] / weights
    found[columns, rows] = found[rows, columns]
    return found / np.outer(bounds, bounds), answer.deviation / _MIXED / float(np.min(bounds)) ** 2


@dataclass(frozen=True, slots=True)
class MomentMatrix:
    """The products of any two entries of (v, y), the features and the target each times a whole weight.

    A row adds a matrix whose trace is the square of its length, and one noise serves all of it
    (docs/proofs/k-norm.md#matrices).
    """

    features: Sequence[Feature]
    target: Feature
    norm: int | None
    """The largest length of v; what the bounds of its entries allow if None."""

    @property
    def weights(self) -> tuple[int, int]:
        """Whole weights with which the target reaches about as far as the features do."""
        ratio = math.sqrt(self._squares) * _TARGET_REACH / self.target.bound
        return max(_FINE, round(_FINE / ratio)), max(_FINE, round(_FINE * ratio))

    @property
    def _squares(self) -> int:
        return self.norm**2 if self.norm is not None else sum(each.bound**2 for each in self.features)

    def build_block(self, share: Fraction) -> SumBlock:
        """Return the block of these products."""
        many, few = self.weights
        values = [Multiply(each.value, Constant(many)) for each in self.features]
        values.append(Multiply(self.target.value, Constant(few)))
        reach = [many * each.bound for each in self.features] + [few * self.target.bound]
        pairs = _pairs(len(values))
        terms = tuple(Multiply(values[i], values[j]) for i, j in pairs)
        far = [reach[i] * reach[j] for i, j in pairs]
        trace = many**2 * self._squares + (few * self.target.bound) ** 2
        squares = min(sum(each * each for each in far), trace**2)
        return SumBlock(terms, sum(far), squares, share, moves=list_moves(far), trace=trace)

    def read(self, answer: SumAnswer) -> tuple[Floats, float, Floats, float]:
        """Return the matrix of products, cross products, and the deviations of their noise, all in bounds."""
        many, few = self.weights
        bounds = np.array(
            [float(many * each.bound) for each in self.features] + [float(few * self.target.bound)]
        )
        whole = np.zeros((len(bounds), len(bounds)))
        rows, columns = np.triu_indices(len(bounds))
        whole[rows, columns] = whole[columns, rows] = answer.values[:, 0] / (bounds[rows] * bounds[columns])
        least = float(bounds[:-1].min())
        noise = answer.deviation / least**2, answer.deviation / (least * float(bounds[-1]))
        return whole[:-1, :-1], noise[0], whole[:-1, -1], noise[1]


def build_cross_block(
    features: Sequence[Feature], target: Feature, norm: int | None, share: Fraction
) -> SumBlock:
    """Return the block of Σ v·y, where a row adds a vector of norm ‖v‖·|y|."""
    terms = tuple(Multiply(each.value, target.value) for each in features)
    reach = [each.bound * target.bound for each in features]
    l1, l2_squared = sum(reach), sum(each * each for each in reach)
    if norm is not None:
        l2_squared = min(l2_squared, norm**2 * target.bound**2)
        l1 = min(l1, _root_up(len(features) * l2_squared))
    return SumBlock(terms, l1, l2_squared, share, moves=list_moves(reach, l1))


def build_sum_block(features: Sequence[Feature], norm: int | None, share: Fraction) -> SumBlock:
    """Return the block of Σ v. A row moves at most one of the indicators of each group."""
    grouped: dict[str, int] = {}
    for each in features:
        if each.group:
            grouped[each.group] = max(each.bound, grouped.get(each.group, 0))
    reach = [*(each.bound for each in features if not each.group), *grouped.values()]
    l1, l2_squared = sum(reach), sum(each * each for each in reach)
    if norm is not None:
        l2_squared = min(l2_squared, norm**2)
        l1 = min(l1, _root_up(len(features) * l2_squared))
    terms = tuple(each.value for each in features)
    # Rows of one unit may move different indicators of a group: together they are worst in a single sum.
    moves = () if grouped else list_moves(reach, l1)
    return SumBlock(terms, l1, l2_squared, share, moves=moves)


def _pairs(size: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(size), 2))


def _root_up(square: int) -> int:
    root = math.isqrt(square)
    return root + (root * root < square)
