"""The law of the noise in several sums that draws of many cells are in: those of one question agree in it.

Because : docs/proofs/workloads.md#intervals
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import AddedDraws, BodyCoordinate, NormalNoise
from sfumato.curator.answers.noise_law import Draw, NoiseLaw
from sfumato.noise import GaussianNoise, SimplicesNoise

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.answers.laws.drawn_noise import RoundingNoise
    from sfumato.curator.answers.noise_law import Floats
    from sfumato.noise.additive import Noise

_KNOWN_APART = 12
"""Draws of a number that are followed one by one; all smaller ones together are all but normal."""
_NOTHING = 1e-6
"""Share of a number's variance below which a draw is left out."""
_LEAST = 1e-300
"""Least variance that is divided by."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginalDraws:
    """Independent draws of one noise, in as many cells, that have the same weights in what is asked."""

    noise: Noise | SimplicesNoise
    weights: Floats
    """One row an asked sum, one column a coordinate of what was measured."""
    many: int
    source: Hashable

    @property
    def covariance(self) -> Floats:
        """What they add to the covariance of the asked sums."""
        if isinstance(self.noise, SimplicesNoise):
            return np.asarray(self.many * self.weights @ self.noise.covariance @ self.weights.T)
        return np.asarray(self.many * float(self.noise.moments.variance) * self.weights @ self.weights.T)

    def split(self) -> Iterator[MarginalDraws]:
        """Yield those of each coordinate; all at once where their noise is not independent."""
        if isinstance(self.noise, SimplicesNoise):
            yield self
            return
        for at, own in enumerate(self.weights.T):
            if own.any():
                yield MarginalDraws(self.noise, own[:, None], self.many, (self.source, at))

    @property
    def can_be_followed(self) -> bool:
        """Whether the law of each draw is known; many draws of a shape together are taken to be normal."""
        return self.many == 1 or not isinstance(self.noise, SimplicesNoise)

    def list_draws(self) -> Iterator[tuple[Draw, Floats]]:
        """Yield each draw with its weights in the asked sums."""
        if isinstance(self.noise, SimplicesNoise):
            places = range(len(self.weights.T))
            draws = [Draw(BodyCoordinate(self.noise, at), self.source) for at in places]
        else:
            draws = [Draw(self.noise if self.many == 1 else AddedDraws(self.noise, self.many), self.source)]
        yield from zip(draws, self.weights.T, strict=True)


class JointDraws:
    """The draws of all noise in the sums that a question asks for in a cell of a marginal.

    The largest are followed one by one, and what is left is normal, with the covariance that it has.
    `roundings` says what rounding moves each sum by, and `named` which rest this is.
    """

    def __init__(
        self, draws: Sequence[MarginalDraws], roundings: Sequence[RoundingNoise | None], named: Hashable
    ) -> None:
        self._draws, self._named = draws, named
        size = len(roundings)
        self._covariances = np.array([each.covariance for each in draws]).reshape(-1, size, size)
        variances = np.einsum("dii->di", self._covariances)
        self._shares = variances / np.maximum(variances.sum(axis=0), _LEAST)
        # A sum without noise is not rounded either.
        pairs = zip(roundings, variances.any(axis=0).tolist(), strict=True)
        self._roundings = [each if noisy else None for each, noisy in pairs]

    def find_laws(self) -> tuple[NoiseLaw, ...]:
        """Return the law of the noise of each sum; they have their draws in common."""
        apart = self._choose_apart()
        kept = self._shares.max(axis=1, initial=0.0) > _NOTHING
        rest = self._covariances[kept & ~apart].sum(axis=0)
        found = [pair for each in np.flatnonzero(apart).tolist() for pair in self._draws[each].list_draws()]
        found += [*self._list_normal(rest), *self._list_roundings()]
        return tuple(_make_law([(draw, weights[at]) for draw, weights in found]) for at in range(len(rest)))

    def _choose_apart(self) -> NDArray[np.bool_]:
        """Return which draws are followed one by one: the largest of each sum, if they are not normal.

        A draw that is all the noise of a sum is followed whichever it is.
        """
        found = np.zeros(len(self._draws), dtype=np.bool_)
        for own in self._shares.T:
            largest = np.argsort(-own, kind="stable")[: np.count_nonzero(own > _NOTHING)].tolist()
            only = len(largest) == 1 and self._draws[largest[0]].many == 1
            for at in largest[:_KNOWN_APART]:
                found[at] |= only or not isinstance(self._draws[at].noise, GaussianNoise)
        can_be = np.array([each.can_be_followed for each in self._draws], dtype=np.bool_)
        return np.asarray(found & can_be)

    def _list_normal(self, covariance: Floats) -> list[tuple[Draw, Floats]]:
        """Return independent normal draws whose weighted sums have this covariance."""
        scales = np.sqrt(np.maximum(np.diagonal(covariance), _LEAST))
        values, vectors = np.linalg.eigh(covariance / np.outer(scales, scales))
        weights = scales[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
        return [
            (Draw(NormalNoise(1.0), (self._named, at)), own)
            for at, own in enumerate(weights.T)
            if values[at] > _NOTHING
        ]

    def _list_roundings(self) -> list[tuple[Draw, Floats]]:
        """Return what rounding moves each sum by, independently of all others."""
        own = np.eye(len(self._roundings))
        return [
            (Draw(each, (self._named, "rounding", at)), own[at])
            for at, each in enumerate(self._roundings)
            if each is not None
        ]


def _make_law(pairs: Sequence[tuple[Draw, float]]) -> NoiseLaw:
    """Return the law of a weighted sum of draws, without those of no weight."""
    used = [(draw, weight) for draw, weight in pairs if weight]
    return NoiseLaw(tuple(draw for draw, _ in used), np.array([[w] for _, w in used]).reshape(-1, 1))
