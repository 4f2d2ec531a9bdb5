"""Nearest neighbours by kernel votes: each class has one noisy prototype, and predictions see no row.

A row votes for its class with a weight that falls with its distance. Random Fourier features turn the sum of
all such weights into a product of two vectors: one of the point, and one of the class (Rahimi and Recht,
2007). The vectors of the classes are sums over rows, so they are paid for once, and predictions are free.

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
from sfumato.learn.first_look import look_first, measure_score_lead, wants_look
from sfumato.oracle.blocks import Add, CellKey, Constant, Divide, Lookup, Multiply, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.oracle.feature_spread import measure_spread
from sfumato.privacy.events import list_moves
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

_LARGEST_VOTE = 2**10
"""Votes of the check are whole numbers up to this, times the height of a wave."""
# Privacy depends on none of these: noise is for the largest entries of the tables below.
_PERIOD = 2**24
"""The whole number that stands for one period of a wave."""
_LARGEST_STEP = 2.0**31
"""Steps along a wave are cut off here, so that every place on it fits into 64 bits."""
_PHASES = 2**8
"""Phases of a wave that are told apart."""
_HEIGHT = 2**8
"""The whole number that stands for a cosine of 1."""
_WIDTH = 0.55
"""Width of the kernel, in root mean squares of a row's distance from the mean."""
_SPREAD_SHARE = Fraction(1, 10)
"""Share of the spend for that distance, where no width is given."""
_WAVES, _WAVES_PURE = 128, 64
"""Number of waves; fewer for Laplace noise, which is for the ℓ1 norm and so grows faster with them."""
_TOGETHER = 8
"""Waves that are computed at a time, so that intermediate values are not kept for all of them."""


@dataclass(frozen=True, slots=True)
class FourierFeatures:
    """Random waves in whole numbers: a row of `steps` is how far a step of each feature goes along a wave."""

    steps: NDArray[np.int64]
    bounds: tuple[int, ...]

    @classmethod
    def draw(cls, declared: Declared, count: int, width: float, rng: Any) -> FourierFeatures:
        """Draw frequencies of a Gaussian kernel; they are public, from the declaration and a seed."""
        bounds = declared.bounds
        frequencies = rng.normal(size=(count, len(bounds))) / width
        steps = np.clip(frequencies * _PERIOD / (2 * math.pi * bounds), -_LARGEST_STEP, _LARGEST_STEP)
        return cls(
            np.rint(np.nan_to_num(steps)).astype(np.int64),
            tuple(feature.bound for feature in declared.features),
        )

    @property
    def frequencies(self) -> Floats:
        """Radians for a feature that goes from the middle of its bounds to one of them."""
        found: Floats = self.steps * np.array(self.bounds) * (2 * math.pi / _PERIOD)
        return found

    def build_block(self, terms: tuple[Value, ...] = ()) -> SumBlock:
        """Return the sums of cosines and sines: a row has one phase of every wave, and cos² + sin² ≤ 1."""
        both = [abs(c) + abs(s) for c, s in zip(_COSINES, _SINES, strict=True)]
        squares = [c * c + s * s for c, s in zip(_COSINES, _SINES, strict=True)]
        waves, most, each = len(self.steps), max(both), max(map(abs, (*_COSINES, *_SINES)))
        moves = list_moves([each, most - each] * waves)
        return SumBlock(terms, waves * most, waves * max(squares), moves=moves)

    def compute_phases(self, oracle: Oracle) -> tuple[Oracle, list[Value]]:
        """Return the phase of each wave at a row, as columns of the returned oracle."""
        found: list[Value] = []
        for at in range(0, len(self.steps), _TOGETHER):
            oracle, along = oracle.with_columns(
                [self._along(oracle.declared, row) for row in self.steps[at : at + _TOGETHER].tolist()]
            )
            oracle, phases = oracle.with_columns(list(map(_phase, along)))
            found += phases
        return oracle, found

    def _along(self, declared: Declared, row: list[int]) -> Value:
        """Return how far a row is along a wave, plus so many whole periods that it is never negative."""
        furthest = sum(abs(step) * bound for step, bound in zip(row, self.bounds, strict=True))
        periods = -(-furthest // _PERIOD) * _PERIOD
        parts: list[Value] = [
            Multiply(feature.value, Constant(step))
            for feature, step in zip(declared.features, row, strict=True)
        ]
        return Add(sum_values(parts), Constant(periods))


def _tabulate_votes(phases: Sequence[Value], answer: SumAnswer) -> list[Value]:
    """Return the votes of each class for a row, in whole numbers: a table has what a phase of a wave adds."""
    waves = len(phases)
    shape = np.rint(answer.values / max(1.0, float(np.abs(answer.values).max())) * _LARGEST_VOTE)
    tables = np.array(_COSINES), np.array(_SINES)
    return [
        sum_values(
            [
                Lookup(
                    phase,
                    tuple(
                        np.rint(shape[at, k] * tables[0] + shape[waves + at, k] * tables[1])
                        .astype(int)
                        .tolist()
                    ),
                )
                for at, phase in enumerate(phases)
            ]
        )
        for k in range(shape.shape[1])
    ]


def _phase(along: Value) -> Value:
    """Return the place within the period, in 1/256 of it."""
    periods = Divide(along, Constant(_PERIOD))
    return Add(Divide(along, Constant(_PERIOD // _PHASES)), Multiply(periods, Constant(-_PHASES)))


def _tabulate(wave: Any) -> tuple[int, ...]:
    """Return the wave at every phase in whole numbers, rounded towards 0 so that none is longer than 1."""
    middles = (np.arange(_PHASES) + 0.5) * (2 * math.pi / _PHASES)
    return tuple(int(each) for each in np.trunc(wave(middles) * _HEIGHT).tolist())


_COSINES, _SINES = _tabulate(np.cos), _tabulate(np.sin)


class NearestNeighbors(PrivateClassifier):
    """The class that most rows nearby have, where nearer ones count more.

    A row at distance r votes with weight exp(−r² / 2·width²), distances in half bounds; without a `width`, a
    tenth of the spend is for one that suits how widely rows lie. The votes are those of a noisy prototype of
    each class, which is paid for once: predictions cost nothing and see no row. `waves` is the number of
    random Fourier features that the prototype is made of. They are drawn from `random_state`, and public.

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
        missing: Any = None,
        verbose: Any = False,
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
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        declared, (width, left) = oracle.declared, self._choose_width(oracle)
        rng = check_random_state(self.random_state)
        features = FourierFeatures.draw(declared, self._choose_waves(oracle), width, rng)
        oracle, phases = features.compute_phases(oracle)
        terms = tuple(Lookup(phase, table) for table in (_COSINES, _SINES) for phase in phases)
        target = require_labels(declared)
        key = CellKey(target.value, len(target.classes))
        look = look_first(oracle, tighten=False) if wants_look(oracle, "auto") else None
        left -= 0 if look is None else 1 - look.for_fit
        (answer,) = oracle.sums([features.build_block(terms)], [key], share=left)
        self.prototypes_ = answer.values.T / _HEIGHT
        self.base_ = np.zeros(len(target.classes))
        if look is not None and measure_score_lead(oracle, _tabulate_votes(phases, answer), look) <= 0:
            # Every point gets the votes of the whole table: the commonest class has the most.
            self.prototypes_ = np.zeros_like(self.prototypes_)
            self.base_ = look.counts
        self.width_ = width
        self.slopes_ = features.frequencies  # under the name that saved models have
        self.noise_ = answer.deviation / _HEIGHT / math.sqrt(len(phases))
        self.middles_ = declared.middles
        self.halves_ = declared.halves

    def _choose_waves(self, oracle: Oracle) -> int:
        # The noise of a vote grows with the number of waves for Laplace noise only.
        usual = _WAVES_PURE if isinstance(oracle.budget.main, PureSpend) else _WAVES
        return usual if self.waves is None else parse_whole(self.waves, "waves")

    def _choose_width(self, oracle: Oracle) -> tuple[float, Fraction]:
        """Return the width of the kernel, and the share of the spend that is left."""
        if self.width is not None:
            return float(parse_positive(self.width, "width")), Fraction(1)
        found = measure_spread(oracle, _SPREAD_SHARE)
        return _WIDTH * float(np.linalg.norm(found.deviation)), 1 - _SPREAD_SHARE

    def votes(self, X: Any) -> Floats:  # noqa: N803
        """Return the noisy weight of all rows nearby, one column a class; `noise_` is about its deviation."""
        return self._votes(self._rows(X))

    def _votes(self, rows: Floats) -> Floats:
        unit = np.clip((rows - self.middles_) / self.halves_, -1.0, 1.0)
        along = np.where(np.isnan(unit), 0.0, unit) @ self.slopes_.T
        waves = np.hstack([np.cos(along), np.sin(along)])
        found: Floats = waves @ self.prototypes_.T / len(self.slopes_)
        return found

    def _log_scores(self, rows: Floats) -> Floats:
        """Return the logarithm of the votes, smoothly bounded from below by what noise alone makes."""
        votes = self._votes(rows) + getattr(self, "base_", 0.0)
        floor = max(self.noise_, 1e-9)
        # A softplus keeps the order of votes, also where noise made them negative.
        smooth = floor * np.logaddexp(0.0, votes / floor)
        found: Floats = np.log(np.maximum(smooth, 1e-300))
        return found
