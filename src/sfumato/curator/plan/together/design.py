"""Which marginals to measure, with which part of a spend, so that all that is asked has little noise.

A marginal is a set of keys: sums by these keys are sums over the others of any finer grouping. A table is the
sum of its residuals, one for each set of keys, and these are estimated one by one, so the variance of every
sum has a closed form.

Because : docs/proofs/workloads.md
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Marginal = tuple[int, ...]
"""Places of keys, ascending."""
Floats = NDArray[np.float64]

MOST_RESIDUALS = 1024
"""Sets of keys that a workload may have; one marginal of ten keys has as many. It bounds time and memory."""

_ROUNDS = 400
"""Steps of an optimisation. It is off by less than a hundredth then (benchmarks/together.py)."""
_RAISED = 12
"""Times that the weight of what would be worse than alone is raised."""
_LEAST_SHARE = 1 / 128
"""Share of a spend below which a marginal is rather not measured."""
_FLOOR = 1e-7
_SINGULAR = 1e-13
_TOLERANCE = 0.01
"""Share by which a variance may be above that alone: half a hundredth in the width of an interval."""
_LOST = 1e-9
"""Share of a sum that may be lost with what is known of nothing, for rounding."""
# Privacy depends on none of these: whatever is measured is priced as it is measured.


def list_subsets(keys: Marginal) -> list[Marginal]:
    """Return all subsets of a set of keys, the empty one first."""
    return [part for size in range(len(keys) + 1) for part in itertools.combinations(keys, size)]


def count_cells(sizes: Sequence[int], keys: Iterable[int]) -> int:
    """Return the number of cells of a marginal."""
    return math.prod(sizes[key] for key in keys)


@dataclass(frozen=True, slots=True, eq=False)
class MeasurableForms:
    """Numbers that can be measured in every cell of a marginal, with noise that is independent by cell."""

    keys: Marginal
    forms: Floats
    """One row a number, one column a base sum: what the number is in terms of these sums."""
    variance: float
    """Variance of the noise of each, if it had the whole spend; where it is free, its variance as it is."""
    free: bool = False
    """Whether no unit moves these numbers, so that they have no noise and no part of the spend."""
    covariance: Floats | None = None
    """Covariance of the noise in units of `variance`; None where that of different numbers is independent."""

    @property
    def weights(self) -> Floats:
        """The forms, each number weighed by its precision: least squares add these up."""
        whitened = self.forms if self.covariance is None else np.linalg.solve(self.covariance, self.forms)
        return np.asarray(whitened / self.variance)


@dataclass(frozen=True, slots=True, eq=False)
class AskedSum:
    """A sum that is asked for in every cell of a marginal."""

    keys: Marginal
    at: int
    """Place of the sum among all that are asked for."""
    form: Floats
    """What it is in terms of the base sums."""
    weight: float
    """Harm of its variance, relative to that of all others."""
    alone: float
    """Variance that it would have if every question were asked alone for an equal part of the spend."""


@dataclass(frozen=True, slots=True, eq=False)
class JointLimit:
    """What one question asks for in a cell of a marginal, as numbers that alone have variance 1 each.

    Alone their noise is uncorrelated. So if no eigenvalue of their covariance is above 1, no linear function
    of the question's sums has a larger variance than alone.
    """

    keys: Marginal
    forms: Floats
    """One row a number, one column a base sum."""
    weights: Floats
    """Harm of their covariance: a matrix."""

    @classmethod
    def of_one(cls, asked: AskedSum) -> JointLimit:
        """Return the limit of one sum by itself."""
        form = asked.form[None, :] / math.sqrt(asked.alone)
        return cls(asked.keys, form, np.array([[asked.weight * asked.alone]]))

    def raise_weights(self, values: Floats, vectors: Floats) -> JointLimit:
        """Return the limit with more weight in the directions in which noise is worse than alone."""
        present = np.einsum("ij,ik,kj->j", vectors, self.weights, vectors)
        more = present * (np.maximum(values, 1.0) ** 3 - 1)
        return JointLimit(self.keys, self.forms, self.weights + (vectors * more) @ vectors.T)


class WorkloadDesign:
    """Variances of what is asked, for any parts of the spend."""

    def __init__(
        self,
        sizes: Sequence[int],
        measurable: Sequence[MeasurableForms],
        asked: Sequence[AskedSum],
        limits: Sequence[JointLimit] | None = None,
    ) -> None:
        self._sizes, self.measurable, self.asked = tuple(sizes), tuple(measurable), tuple(asked)
        self._limits = tuple(map(JointLimit.of_one, asked) if limits is None else limits)
        self.residuals = sorted({part for each in asked for part in list_subsets(each.keys)})
        self.places = {part: at for at, part in enumerate(self.residuals)}
        self._sums = measurable[0].forms.shape[1]
        self._dilution = np.array(
            [[self._dilute(each, part) for part in self.residuals] for each in measurable]
        )
        self._squares = np.array([each.forms.T @ each.weights for each in measurable])
        self._free = np.array([each.free for each in measurable])

    def _dilute(self, each: MeasurableForms, part: Marginal) -> float:
        """Return what one cell's precision is worth for a residual: sums over cells add up their noise."""
        if not set(part) <= set(each.keys):
            return 0.0
        return 1 / count_cells(self._sizes, set(each.keys) - set(part))

    @cached_property
    def _spreads(self) -> Floats:
        """The variance of each asked sum, one row each, for a residual of variance 1, one column each."""
        return np.array([self._spread(each.keys) for each in self.asked])

    def _spread(self, keys: Marginal) -> Floats:
        """Return the variance in a cell of a marginal for a residual of variance 1, for each of them."""
        found = np.zeros(len(self.residuals))
        for part in list_subsets(keys):
            rest = count_cells(self._sizes, set(keys) - set(part))
            found[self.places[part]] = math.prod(1 - 1 / self._sizes[key] for key in part) / rest**2
        return found

    def invert(self, precisions: Floats) -> Floats:
        """Return the covariance of the sums in each residual: one matrix a residual.

        `precisions` has a number for each of `measurable`, relative to what the whole spend would give.
        """
        scaled, scales = self._scale_information(precisions)
        inverse = np.linalg.pinv(scaled, rcond=_SINGULAR, hermitian=True)
        return np.asarray(inverse * scales[:, :, None] * scales[:, None, :])

    def _scale_information(self, precisions: Floats) -> tuple[Floats, Floats]:
        """Return the information on the sums of each residual with ones on its diagonal, and their scales.

        Otherwise sums that are known far better than others, as those without noise, would make these look
        as if nothing were known of them.
        """
        used = np.where(self._free, 1.0, precisions)
        information = np.einsum("i,it,iab->tab", used, self._dilution, self._squares)
        diagonal = np.einsum("taa->ta", information)
        scales = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
        return information * scales[:, :, None] * scales[:, None, :], scales

    @property
    def keeps_all_asked(self) -> bool:
        """Whether all that is asked is known from all of `measurable` with the variances that they have."""
        return self.keeps_asked(np.ones(len(self.measurable)))

    def keeps_asked(self, precisions: Floats) -> bool:
        """Return whether all that is asked is within what `invert` keeps: nothing of it is taken for 0."""
        scaled, scales = self._scale_information(precisions)
        values, vectors = np.linalg.eigh(scaled)
        dropped = np.abs(values) <= _SINGULAR * np.abs(values).max(axis=1, keepdims=True)
        for each in self.asked:
            at = [self.places[part] for part in list_subsets(each.keys)]
            form = scales[at] * each.form
            lost = np.where(dropped[at], np.einsum("ta,tab->tb", form, vectors[at]), 0.0)
            unknown = (scales[at] == 0) & (each.form != 0)
            if unknown.any() or (np.abs(lost).max(axis=1) > _LOST * np.linalg.norm(form, axis=1)).any():
                return False
        return True

    def gains(self, at: int, precision: float, covariances: Floats) -> Floats:
        """Return the weights of the numbers of one of `measurable` in each sum, for every residual."""
        each = self.measurable[at]
        factor = self._dilution[at] * (1.0 if each.free else precision)
        return np.asarray(covariances @ each.weights.T * factor[:, None, None])

    def variances(self, precisions: Floats) -> Floats:
        """Return the variance of each asked sum, in one cell."""
        covariances = self.invert(precisions)
        pairs = zip(self._spreads, self.asked, strict=True)
        return np.array([row @ (covariances @ each.form @ each.form) for row, each in pairs])

    def covary(self, keys: Marginal, forms: Floats, covariances: Floats) -> Floats:
        """Return the covariance of forms of the base sums in one cell of a marginal."""
        inside = np.tensordot(self._spread(keys), covariances, axes=1)
        return np.asarray(forms @ inside @ forms.T)

    def is_no_worse(self, precisions: Floats) -> bool:
        """Return whether all that is asked is known, and no question's numbers have more noise than alone."""
        if not np.isfinite(precisions).all() or not self.keeps_asked(precisions):
            return False
        return self._find_worst(precisions) <= 1 + _TOLERANCE

    def _find_worst(self, precisions: Floats) -> float:
        """Return the largest variance over that alone, of any linear function of a question's sums."""
        return max(float(values.max(initial=0.0)) for values, _ in self._judge(precisions))

    def _judge(self, precisions: Floats) -> list[tuple[Floats, Floats]]:
        """Return eigenvalues and eigenvectors of the covariance of each question's numbers, alone 1."""
        covariances = self.invert(precisions)
        found = (self.covary(each.keys, each.forms, covariances) for each in self._limits)
        return [(values, vectors) for values, vectors in map(np.linalg.eigh, found)]

    def can_estimate(self, precisions: Floats) -> bool:
        """Return whether all that is asked follows from what is measured with a precision above 0."""
        measured = (precisions > 0) | self._free
        for each in self.asked:
            unit = each.form
            for part in list_subsets(each.keys):
                use = measured & (self._dilution[:, self.places[part]] > 0)
                forms = [item.forms for item, used in zip(self.measurable, use, strict=True) if used]
                stacked = np.concatenate([np.zeros((1, self._sums)), *forms])
                if np.linalg.norm(np.linalg.pinv(stacked) @ stacked @ unit - unit) > 1e-6:
                    return False
        return True

    # ---- the least noise ----

    def optimise(self, start: Floats, *, squares: bool) -> Floats | None:
        """Return shares of the spend, which add up to 1, with a small weighted variance.

        With `squares`, precisions are in proportion to the squares of shares, as those of Laplace noise are;
        without, to the shares themselves, as those of Gaussian noise, and the result is the least up to
        rounding. None where something would be worse than alone.
        """
        limits = self._limits
        for _ in range(_RAISED):
            harms = self._harms(limits)
            shares = self._prune(self._descend(start, harms, squares), harms, squares)
            judged = self._judge(shares**2 if squares else shares)
            if max(float(values.max(initial=0.0)) for values, _ in judged) <= 1 + _TOLERANCE / 2:
                return shares
            limits = tuple(each.raise_weights(*own) for each, own in zip(limits, judged, strict=True))
        return None

    def _descend(self, start: Floats, harms: Floats, squares: bool) -> Floats:
        """Return shares near to a minimum, by multiplying each with a power of what it is worth."""
        shares, best, least = start, start, math.inf
        for _ in range(_ROUNDS):
            covariances = self.invert(shares**2 if squares else shares)
            total = _weigh(harms, covariances)
            if total < least:
                best, least = shares, total
            # By rounding, what is worth nothing can seem to be worth less.
            worth = np.maximum(self._worth(covariances, harms), 0.0)
            factor = (worth * shares) ** 0.25 if squares else np.sqrt(worth)
            grown = np.where(self._free, 0.0, shares * factor)
            if not 0 < grown.sum() < math.inf:
                break
            grown = np.where(start > 0, np.maximum(grown / grown.sum(), _FLOOR), 0.0)
            if np.abs(grown - shares).max() < 1e-6:
                break
            shares = grown / grown.sum()
        return np.asarray(best)

    def _harms(self, limits: Sequence[JointLimit]) -> Floats:
        """Return how much the covariance of the sums in each residual matters: one matrix a residual."""
        harms = np.zeros((len(self.residuals), self._sums, self._sums))
        for each in limits:
            harms += self._spread(each.keys)[:, None, None] * (each.forms.T @ each.weights @ each.forms)
        return harms

    def _worth(self, covariances: Floats, harms: Floats) -> Floats:
        """Return by how much one more unit of precision of each lowers the weighted variance."""
        moved = covariances @ harms @ covariances
        return np.asarray(np.einsum("it,iab,tab->i", self._dilution, self._squares, moved))

    def _prune(self, shares: Floats, harms: Floats, squares: bool) -> Floats:
        """Return the shares without very small ones, where that costs next to nothing."""
        kept = np.where(shares >= _LEAST_SHARE, shares, 0.0)
        if not kept.any() or not self.can_estimate(kept):
            return shares
        again = self._descend(kept / kept.sum(), harms, squares)
        before, after = (_weigh(harms, self.invert(each**2 if squares else each)) for each in (shares, again))
        return again if after <= 1.005 * before else shares


def _weigh(harms: Floats, covariances: Floats) -> float:
    """Return the weighted variance of all that is asked."""
    return float(np.einsum("tab,tab->", harms, covariances))
