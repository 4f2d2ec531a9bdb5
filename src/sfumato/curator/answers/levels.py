"""Levels of groups that agree: noisy sums of ROLLUP, CUBE and GROUPING SETS, by least squares.

Because : docs/proofs/levels.md
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.noise_law import Draw, NoiseLaw
from sfumato.engines.program import CountedUnits, CountedValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.noise.additive import Noise

    Places = tuple[int, ...]

_LEAST = 1e-300
"""Least variance that is divided by: sums without noise are taken as they are."""
MOST_TABLE = 10**7
"""Number of cells of all keys together up to which levels are put together."""


def agree_levels(plan: QuestionPlan, answers: Sequence[Sequence[Sequence[int]]]) -> NDArray[Any]:
    """Return the sums of all levels, one row a sum and level after level, that add up to each other."""
    levels, sizes = plan.question.levels, [key.size for key in plan.resolved.keys]
    rows = []
    for at, summand in enumerate(plan.summands):
        noisy = [np.array(answer[at], dtype=np.float64) for answer in answers]
        variances = [_variance(noise) for noise in _noises(plan, at)]
        # A unit or a value can be in several groups, so that their numbers do not add up.
        apart = isinstance(summand.term, CountedUnits | CountedValues)
        whole = not apart and math.prod(sizes) <= MOST_TABLE
        found = put_together(sizes, levels, noisy, variances) if whole else noisy
        rows.append(np.concatenate([each.reshape(-1) for each in found]))
    return np.array(rows, dtype=np.float64).reshape(len(rows), plan.resolved.cells)


def _noises(plan: QuestionPlan, at: int) -> list[Noise | None]:
    """Return the noise of a sum at each level; where there are levels, no sums share a noise."""
    return [level.measured_alone[at].noise for level in plan.levels]


def _variance(noise: Noise | None) -> float:
    return _LEAST if noise is None else max(_LEAST, float(noise.moments.variance))


def put_together(
    sizes: Sequence[int], levels: Sequence[Places], noisy: Sequence[Floats], variances: Sequence[float]
) -> list[Floats]:
    """Return whole numbers for all levels that are sums of one table, near to the noisy ones.

    A level is the table summed over the keys that it has not. The table is split into one part for each set
    of keys: what is left of its sums over the other keys, once all smaller sets are taken away. These parts
    are orthogonal, so least squares are a weighted mean in each of them.
    """
    table = np.zeros(sizes)
    for keys in sorted({part for level in levels for part in _subsets(level)}):
        found, weights = np.zeros([sizes[key] for key in keys]), 0.0
        for level, sums, variance in zip(levels, noisy, variances, strict=True):
            if not set(keys) <= set(level):
                continue
            summed = _sum_over(sums.reshape([sizes[key] for key in level]), level, keys)
            weight = 1 / (variance * math.prod(sizes[key] for key in level if key not in keys))
            found, weights = found + weight * _effect(summed), weights + weight
        others = math.prod(size for key, size in enumerate(sizes) if key not in keys)
        shape = [size if key in keys else 1 for key, size in enumerate(sizes)]
        table += (found / weights / others).reshape(shape)
    every = tuple(range(len(sizes)))
    if every in levels:
        whole = _round_together(table)
        return [_sum_over(whole, every, level) for level in levels]
    # Without a level of all keys there are no finest numbers to round: each level is rounded by itself.
    return [_round_together(_sum_over(table, every, level)) for level in levels]


def _subsets(level: Places) -> set[Places]:
    keys = sorted(level)
    return {part for size in range(len(keys) + 1) for part in itertools.combinations(keys, size)}


def _sum_over(sums: Floats, has: Places, keep: Places) -> Floats:
    """Return sums over the keys that are not kept, with the kept ones in ascending order."""
    rest = tuple(axis for axis, key in enumerate(has) if key not in keep)
    kept = [key for key in has if key in keep]
    found = sums.sum(axis=rest) if rest else sums
    return np.transpose(found, np.argsort(kept)) if kept else np.asarray(found)


def _effect(sums: Floats) -> Floats:
    """Return what is left when the mean over each key is taken away."""
    for axis in range(sums.ndim):
        sums = sums - sums.mean(axis=axis, keepdims=True)
    return sums


def _round_together(table: Floats) -> Floats:
    """Return whole numbers whose sums over cells in a row are within one of what they were."""
    # Rounding what was added up so far moves no sum far, where rounding each cell would let errors add up.
    upto = np.rint(np.cumsum(table.reshape(-1)))
    return np.diff(upto, prepend=0.0).reshape(table.shape)


# ---- laws and keys -----------------------------------------------------------------------------------------


def level_laws(plan: QuestionPlan) -> tuple[NoiseLaw, ...]:
    """Return the law of the noise in each sum: in each cell that of its level, which agreeing narrows."""
    cells = [level.resolved.cells for level in plan.levels]
    of_level = np.repeat(np.arange(len(cells)), cells)
    found = []
    for at in range(len(plan.summands)):
        known = [(place, noise) for place, noise in enumerate(_noises(plan, at)) if noise is not None]
        weights = np.array([of_level == place for place, _ in known], dtype=np.float64)
        draws = tuple(Draw(noise, (at, place)) for place, noise in known)
        found.append(NoiseLaw(draws, weights.reshape(len(known), of_level.size)))
    return tuple(found)


def level_keys(plan: QuestionPlan, columns: Sequence[Sequence[Sequence[Any]]]) -> list[list[Any]]:
    """Return what each key is in every cell of all levels, and then whether its level has it not: 1 or 0."""
    found: list[list[Any]] = [[] for _ in plan.resolved.keys]
    absent: list[list[int]] = [[] for _ in plan.resolved.keys]
    for places, level, shown in zip(plan.question.levels, plan.levels, columns, strict=True):
        own, cells = dict(zip(places, shown, strict=True)), level.resolved.cells
        for place, (column, mark) in enumerate(zip(found, absent, strict=True)):
            column += own.get(place, [None] * cells)
            mark += [int(place not in own)] * cells
    return found + absent
