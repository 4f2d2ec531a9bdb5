"""Where the targets of a regression lie: bought first, so that noise is for their spread, not their bounds.

Declared bounds are often far wider than targets are. A few histograms, each within what the last one found,
show the part that holds nearly all of them; the mean is then taken there.

Because : docs/proofs/learners.md#targets
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.cells import clip_value
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Divide, Multiply, SumBlock, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Feature
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners_unseen.py, on its development tables. Privacy depends on none of these.
_CELLS = 16
_LOOKS, _NARROWER = 3, 1.5
"""Histograms at most, each of a range that is up to five times narrower; and by how much a range must have
become narrower for another one."""
_FEATURE_LOOKS = 2
_WORTH_CLIPPING = 2
"""A feature is clipped to its range only if that is so much narrower than its bounds."""
_CLEAR_ROWS = 24.0
"""Rows, in deviations of a cell's noise, from which on a histogram decides anything."""
_TAIL = 0.01
"""Share of the rows that may lie beyond either end of the range."""
_MEAN_ERROR = 0.04
"""Deviation that the noise of a mean may have, in reaches."""
_LEAST_SHARE = 0.02
_PRIOR = 0.25
"""Prior deviation of the mean of the targets, in reaches."""
_DOUBT = 1.0
"""Deviations of noise beyond the tail that are taken for nothing."""


@dataclass(frozen=True, slots=True)
class TargetRange:
    """The range that holds nearly all targets, in whole steps from the middle of their bounds."""

    centre: int
    reach: int

    def clip(self, target: Feature) -> Value:
        """Return how far a target lies from the centre, clipped to the range; in steps."""
        if self == TargetRange(0, target.bound):
            return target.value  # targets lie within their bounds already
        return clip_value(Add(target.value, Constant(-self.centre)), self.reach)

    def scale(self, target: Feature, unit: int) -> Value:
        """Return the clipped target in whole numbers from −unit to unit."""
        above = Add(self.clip(target), Constant(self.reach))
        return Add(Divide(Multiply(above, Constant(unit)), Constant(self.reach)), Constant(-unit))


@dataclass(frozen=True, slots=True)
class TargetMean:
    """A noisy number of rows and mean of their clipped targets, from Σ (r + y)/2r and Σ (r − y)/2r."""

    rows: float
    """At least what noise alone could have made."""
    mean: float
    """In reaches, from −1 to 1."""
    noise: float
    """Deviation of the noise of the mean, in reaches."""

    @property
    def shrunk(self) -> float:
        """The mean, shrunk towards the middle of the range as far as the noise reaches."""
        return self.mean * _PRIOR**2 / (_PRIOR**2 + self.noise**2)


def build_mean_block(target: Feature, found: TargetRange, out_of: Spend | None = None) -> SumBlock:
    """Return Σ (r + y) and Σ (r − y), y clipped to ±r around the centre: a row adds 2r to both together.

    Their sum is the number of rows, so count and mean come from one noise for a contribution of 1.
    """
    clipped, reach = found.clip(target), found.reach
    # Neither term is ever negative, so the ℓ1 norm of both is their sum, 2·reach, whatever the row.
    terms = (Add(clipped, Constant(reach)), Add(Multiply(clipped, Constant(-1)), Constant(reach)))
    return SumBlock(terms, 2 * reach, (2 * reach) ** 2, out_of=out_of)


def read_mean(answer: SumAnswer, found: TargetRange) -> TargetMean:
    """Read the answer to `build_mean_block`."""
    upper, lower = (answer.values[:, 0] / (2 * found.reach)).tolist()
    noise = math.sqrt(2) * answer.deviation / (2 * found.reach)
    rows = max(1.0, noise, upper + lower)
    return TargetMean(rows, min(1.0, max(-1.0, (upper - lower) / rows)), noise / rows)


def share_for_mean(oracle: Oracle, target: Feature, rows: float) -> Fraction:
    """Return the share of the spend for which the mean of so many rows is off by `_MEAN_ERROR`."""
    whole = TargetRange(0, target.bound)
    (noise,) = oracle.noise([build_mean_block(target, whole)], oracle.budget.main)
    needed = math.sqrt(2) * noise.deviation / (2 * whole.reach) / (_MEAN_ERROR * rows)
    return _to_share(max(_LEAST_SHARE, _share_ratio(oracle, needed)))


def share_for_look(oracle: Oracle, rows: float, least: Fraction) -> Fraction:
    """Return the share, at least this, for which a histogram of so many targets decides anything."""
    (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], share_of(oracle.budget.main, least))
    needed = _CLEAR_ROWS * noise.deviation / max(1.0, rows)
    return max(least, _to_share(float(least) * _share_ratio(oracle, needed)))


def _share_ratio(oracle: Oracle, noise: float) -> float:
    """Return how many times the share makes noise so many times smaller.

    Laplace noise falls with the share, Gaussian noise with its root.
    """
    return noise if isinstance(oracle.budget.main, PureSpend) else noise**2


def _to_share(share: float) -> Fraction:
    return Fraction(min(1.0, share)).limit_denominator(10**6)


def locate_target(
    oracle: Oracle, target: Feature, rows: float, share: Fraction
) -> tuple[TargetRange, Fraction]:
    """Return where nearly all targets lie, and the share that was spent."""
    (found,), spent = locate_values(oracle, [target], rows, share, _LOOKS)
    return found, spent


def locate_values(
    oracle: Oracle, features: Sequence[Feature], rows: float, share: Fraction, looks: int
) -> tuple[list[TargetRange], Fraction]:
    """Return where nearly all values of each feature lie, and what was spent: `share` for each look.

    Nothing is asked where so few rows, by a noisy number of them, could not be told from noise.
    """
    found, spent = [TargetRange(0, each.bound) for each in features], Fraction(0)
    counted = SumBlock((COUNT,), len(features), len(features))
    (noise,) = oracle.noise([counted], share_of(oracle.budget.main, share))
    while rows > _CLEAR_ROWS * noise.deviation and spent < looks * share:
        # Where the range stayed as it was, cells that differ make it another question, with noise of its own:
        # behind the curator the same one would have the answer it had before.
        before, found = found, _look_closer(oracle, features, found, share, wider=int(spent / share))
        spent += share
        narrower = any(
            now.reach * _NARROWER < was.reach and now.reach >= _CELLS
            for now, was in zip(found, before, strict=True)
        )
        # Noise far out can hide once that values are narrow, and hardly twice.
        if not narrower and (spent > share or all(each.reach < _CELLS for each in found)):
            break
    return found, spent


def _look_closer(
    oracle: Oracle, features: Sequence[Feature], ranges: Sequence[TargetRange], share: Fraction, wider: int
) -> list[TargetRange]:
    """Count values by cells of each range, and return the part that holds nearly all of them.

    Cells are so many steps wider than they need to be.
    """
    widths = [2 * each.reach // _CELLS + 1 + wider for each in ranges]
    keys = [
        [
            CellKey(
                Divide(Add(each.clip(of), Constant(each.reach)), Constant(width)), 2 * each.reach // width + 1
            )
        ]
        for of, each, width in zip(features, ranges, widths, strict=True)
    ]
    found = oracle.histograms(keys, [COUNT], share=share)
    return [
        _narrow(each, answer, width) for each, (answer,), width in zip(ranges, found, widths, strict=True)
    ]


def _narrow(found: TargetRange, answer: SumAnswer, width: int) -> TargetRange:
    """Return the part of a range that nearly all values were counted in."""
    first, last = _find_shortest(answer.values[:, 0], answer.deviation)
    # One cell more on either side, so that the tails are not cut off at their root.
    low = max(0, first - 1) * width - found.reach
    high = min(2 * found.reach, (last + 2) * width) - found.reach
    reach = max(1, (high - low) // 2)
    return TargetRange(found.centre + low + reach, reach)


def tighten_bounds(oracle: Oracle, rows: float, share: Fraction) -> tuple[Oracle, Fraction]:
    """Return the same rows with the bounds that nearly all values lie within, and the share that was spent.

    A feature is clipped to them, which a row does by itself.
    """
    features = oracle.declared.features
    if oracle.declared.norm is not None:
        return oracle, Fraction(0)
    found, spent = locate_values(oracle, features, rows, share, _FEATURE_LOOKS)
    places = [at for at, each in enumerate(found) if _is_narrow(each, features[at])]
    if not places:
        return oracle, spent
    oracle, values = oracle.with_columns([found[at].clip(features[at]) for at in places])
    tight = list(features)
    for at, value in zip(places, values, strict=True):
        tight[at] = _narrow_feature(features[at], found[at], value)
    return oracle.with_features(tight), spent


def _is_narrow(found: TargetRange, feature: Feature) -> bool:
    """Say whether a range is worth clipping to. An indicator of a listed value stays as it is."""
    return not feature.group and found.reach * _WORTH_CLIPPING <= feature.bound


def _narrow_feature(feature: Feature, found: TargetRange, value: Value) -> Feature:
    return replace(
        feature,
        value=value,
        bound=found.reach,
        middle=feature.middle + feature.half * found.centre / feature.bound,
        half=feature.half * found.reach / feature.bound,
    )


def _find_shortest(counts: Floats, noise: float) -> tuple[int, int]:
    """Return the first and the last of the fewest cells in a row beyond which next to nothing lies.

    Noise in a cell beyond them must not widen the range, so as much as noise makes is taken for nothing.
    """
    cells, rows = len(counts), float(counts.sum())
    total = np.concatenate([[0.0], np.cumsum(counts)])
    for size in range(1, cells):
        inside = total[size:] - total[:-size]
        most = int(inside.argmax())
        if rows - inside[most] <= 2 * _TAIL * rows + _DOUBT * noise * math.sqrt(cells - size):
            return most, most + size - 1
    return 0, cells - 1
