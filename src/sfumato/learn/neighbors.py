"""Nearest neighbours without looking any up: each class is one noisy prototype, and points are told by votes.

A row votes for its class with a weight that falls with its distance. Waves in random directions turn the sum
of all such weights into a product of two vectors: one of the point, and one of the class (Rahimi and Recht,
2007). The vectors of the classes are sums over rows, so they are bought once, and predictions are free.

Because : docs/proofs/prototypes.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from sfumato.curator.lower.computed import sum_values
from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.oracle.blocks import Add, CellKey, Constant, Divide, Lookup, Multiply, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.oracle.feature_spread import measure_spread
from sfumato.privacy.exact import positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_PERIOD = 2**24
"""So many whole numbers make one wave."""
_PLACES = 2**8
"""Of a wave, so many places are told apart."""
_HEIGHT = 2**8
_WIDTH = 0.55
"""How far a vote reaches, beside the root of the variance of all features together."""
_SPREAD = Fraction(1, 10)
"""Of the spend, where that variance is asked for."""
_WAVES, _WAVES_PURE = 128, 64
_TOGETHER = 8
"""So many waves are computed at a time, so that what is on the way is not kept for all of them."""


@dataclass(frozen=True, slots=True)
class Waves:
    """Waves over features, one row of whole numbers each: how far one step of a feature goes along it."""

    steps: NDArray[np.int64]
    bounds: tuple[int, ...]

    @classmethod
    def drawn(cls, declared: Declared, count: int, width: float, rng: Any) -> Waves:
        """Public: from the declaration and a seed."""
        bounds = declared.bounds
        slopes = rng.normal(size=(count, len(bounds))) / width
        steps = np.rint(slopes * _PERIOD / (2 * math.pi * bounds)).astype(np.int64)
        return cls(steps, tuple(feature.bound for feature in declared.features))

    @property
    def slopes(self) -> Floats:
        """In radians for a feature that goes from the middle of its bounds to one of them."""
        found: Floats = self.steps * np.array(self.bounds) * (2 * math.pi / _PERIOD)
        return found

    def block(self, terms: tuple[Value, ...] = ()) -> SumBlock:
        """A row has one place of every wave: cos² + sin² ≤ 1, rounded towards nothing."""
        both = [abs(c) + abs(s) for c, s in zip(_COSINES, _SINES, strict=True)]
        squares = [c * c + s * s for c, s in zip(_COSINES, _SINES, strict=True)]
        return SumBlock(terms, len(self.steps) * max(both), len(self.steps) * max(squares))

    def places(self, oracle: Oracle) -> tuple[Oracle, list[Value]]:
        """Where in each wave a row is, as columns."""
        found: list[Value] = []
        for at in range(0, len(self.steps), _TOGETHER):
            oracle, along = oracle.with_columns(
                [self._along(oracle.declared, row) for row in self.steps[at : at + _TOGETHER].tolist()]
            )
            oracle, places = oracle.with_columns(list(map(_place, along)))
            found += places
        return oracle, found

    def _along(self, declared: Declared, row: list[int]) -> Value:
        """How far a row is along a wave, and so many whole waves that it is not negative."""
        furthest = sum(abs(step) * bound for step, bound in zip(row, self.bounds, strict=True))
        whole_waves = -(-furthest // _PERIOD) * _PERIOD
        parts: list[Value] = [
            Multiply(feature.value, Constant(step))
            for feature, step in zip(declared.features, row, strict=True)
        ]
        return Add(sum_values(parts), Constant(whole_waves))


def _place(along: Value) -> Value:
    """Without whole waves, in steps of 1/256 of one."""
    waves = Divide(along, Constant(_PERIOD))
    return Add(Divide(along, Constant(_PERIOD // _PLACES)), Multiply(waves, Constant(-_PLACES)))


def _table(wave: Any) -> tuple[int, ...]:
    middles = (np.arange(_PLACES) + 0.5) * (2 * math.pi / _PLACES)
    return tuple(int(each) for each in np.trunc(wave(middles) * _HEIGHT).tolist())


_COSINES, _SINES = _table(np.cos), _table(np.sin)


class NearestNeighbors(PrivateClassifier):
    """The class that most rows nearby have, where nearer ones count more.

    A row at distance r votes with weight exp(−r² / 2·width²), distances in half bounds; without a `width`, a
    tenth of the spend buys one that suits how widely rows lie. The votes are those
    of a noisy prototype of each class, which is bought once: predictions cost nothing and see no row.
    `waves` is how many random waves the prototype is made of. Which they are follows from `random_state`,
    and is public.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the fit; nothing for predictions.
    Because  : docs/proofs/prototypes.md
    Assumes  : the bounds and the classes are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        classes: Any = None,
        width: Any = None,
        waves: Any = None,
        random_state: Any = 0,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.width = width
        self.waves = waves
        self.random_state = random_state
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        declared, (width, left) = oracle.declared, self._reach(oracle)
        waves = Waves.drawn(declared, self._count(oracle), width, check_random_state(self.random_state))
        oracle, places = waves.places(oracle)
        terms = tuple(Lookup(place, table) for table in (_COSINES, _SINES) for place in places)
        of = require_labels(declared)
        (answer,) = oracle.sums([waves.block(terms)], [CellKey(of.value, len(of.classes))], share=left)
        self.prototypes_ = answer.values.T / _HEIGHT
        self.width_ = width
        self.slopes_ = waves.slopes
        self.noise_ = answer.deviation / _HEIGHT / math.sqrt(len(places))
        self.middles_ = declared.middles
        self.halves_ = declared.halves

    def _count(self, oracle: Oracle) -> int:
        usual = _WAVES_PURE if isinstance(oracle.budget.main, PureSpend) else _WAVES
        return usual if self.waves is None else whole(self.waves, "waves")

    def _reach(self, oracle: Oracle) -> tuple[float, Fraction]:
        """The width, and the share of the spend that is left."""
        if self.width is not None:
            return float(positive(self.width, "width")), Fraction(1)
        found = measure_spread(oracle, _SPREAD)
        return _WIDTH * float(np.linalg.norm(found.deviation)), 1 - _SPREAD

    def votes(self, X: Any) -> Floats:  # noqa: N803
        """The noisy weight of all rows nearby, one column a class; `noise_` is about its deviation."""
        return self._votes(self._rows(X))

    def _votes(self, rows: Floats) -> Floats:
        unit = np.clip((rows - self.middles_) / self.halves_, -1.0, 1.0)
        along = np.where(np.isnan(unit), 0.0, unit) @ self.slopes_.T
        waves = np.hstack([np.cos(along), np.sin(along)])
        found: Floats = waves @ self.prototypes_.T / len(self.slopes_)
        return found

    def _log_scores(self, rows: Floats) -> Floats:
        """Votes below what noise makes of none count as that; the first of equals wins by a hair."""
        votes = self._votes(rows)
        floor = max(self.noise_, 1e-9)
        smooth = floor * np.logaddexp(0.0, votes / floor)
        found: Floats = np.log(np.maximum(smooth, 1e-300))
        return found
