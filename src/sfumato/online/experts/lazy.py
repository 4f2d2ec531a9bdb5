"""Low switching: an expert is kept while a coin allows it, and only switches are paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp
from sfumato.online.experts.method import GRID, ExpertMethod, Play, hedge_bound
from sfumato.online.experts.rates import calibrate_rate, lazy_event, round_rate
from sfumato.privacy.bisection import find_largest
from sfumato.privacy.exact import parse_positive, parse_whole, round_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.online.experts.method import Losses
    from sfumato.privacy.events import Sequential

_FACTORS = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32)
"""Multiples of the least `extra` that are tried. Any choice is private."""

_MOST_EXTRA = 2**40
"""With it, the loss of a batch and the extra still fit into 64 bits."""


@dataclass(frozen=True)
class LazyMajority(ExpertMethod):
    """Keeps its expert after each batch with probability e^(−rate·(its loss in the batch + extra)).

    Otherwise it draws one ∝ e^(−rate · loss so far). After `switches` draws it keeps its expert for good.

    Privacy
    -------
    Protects : one loss vector in [0, 1]^n, replaced, at one step; losses may depend on earlier choices.
    Costs    : Pure(ln(1 + 1/extra)) for the one coin that a loss vector moves, or Pure(rate) if that is more,
               and one Exponential(2·rate) for each of `switches` draws.
    Because  : docs/proofs/experts.md
    Assumes  : losses lie in [0, 1] and are whole steps of the grid; how long a choice takes is not observed.
               The bound on regret, not privacy, needs losses that do not depend on choices (oblivious).
    """

    rate: Fraction
    batch: int
    extra: Fraction
    switches: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rate", "extra"):
            object.__setattr__(self, name, parse_positive(getattr(self, name), name))
        for name in ("batch", "switches"):
            object.__setattr__(self, name, parse_whole(getattr(self, name), name))
        if (self.extra * GRID).denominator != 1 or self.extra > _MOST_EXTRA:
            raise UsageError("SF-N101", "extra must be whole steps of the grid of losses, and at most 2^40.")

    @classmethod
    def calibrated(cls, experts: int, horizon: int, epsilon: Fraction, delta: Fraction) -> LazyMajority:
        """Return the batch, the extra and the rate of least proven regret that (ε, δ) allows."""
        least = 1 / math.expm1(min(float(epsilon), 20.0))
        found: tuple[float, LazyMajority] | None = None
        for factor in _FACTORS:
            extra = Fraction(math.ceil(least * factor * GRID), GRID)
            for batch in (2**power for power in range(max(1, horizon.bit_length() - 2))):
                method = _fill_budget(cls, experts, horizon, epsilon, delta, batch, extra)
                bound = math.inf if method is None else float(method.proven_regret(np.array(horizon)))
                if method is not None and (found is None or bound < found[0]):
                    found = bound, method
        if found is None:
            raise UsageError("SF-N316", "This method has no setting for so small a price.")
        return found[1]

    def event(self) -> Sequential:
        """Return the price of all choices together."""
        return lazy_event(max(coin_price(self.extra), self.rate), self.rate, self.switches)

    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bound for losses that were fixed beforehand, with the chance of too many switches."""
        batches = -(-self.horizon // self.batch)
        rare = excess_chance(batches, self._largest_chance, self.switches)
        return hedge_bound(self.experts, float(self.rate), steps, self.batch) + steps * rare

    @property
    def _largest_chance(self) -> float:
        return -math.expm1(-float(self.rate * (self.batch + self.extra)))

    def start(self, source: BitSource) -> LazyInPlay:
        """Return a play whose first choice is uniform."""
        return LazyInPlay(self, source)


class LazyInPlay(Play):
    """Lazy majority in use: losses so far and at the end of the last batch, and how many draws are left."""

    def __init__(self, method: LazyMajority, source: BitSource) -> None:
        super().__init__(method, source)
        self._sampler = build_bernoulli_exp(GRID / method.rate)
        self._batch, self._extra = method.batch, int(method.extra * GRID)
        self._sums = self._ended = np.zeros(method.experts, dtype=np.int64)
        self._steps, self._left = 0, method.switches

    def _choose_after(self, losses: Losses) -> NDArray[np.intp]:
        sums = np.cumsum(losses, axis=0) + self._sums
        first = self._batch - 1 - self._steps % self._batch
        ends = np.arange(first, len(losses), self._batch)
        marks = np.concatenate([self._ended[None], sums[ends]])
        changes = [(0, self.choice), *((int(ends[at]), to) for at, to in self._switch(marks))]
        self._sums, self._ended, self._steps = sums[-1], marks[-1], self._steps + len(losses)
        starts = [at for at, _ in changes]
        counts = np.diff([*starts, len(losses)])
        self.choice = changes[-1][1]
        return np.repeat([to for _, to in changes], counts)

    def _switch(self, marks: Losses) -> Iterator[tuple[int, int]]:
        """Yield each batch at whose end an expert is drawn, and the expert; `marks` are sums at the ends."""
        at, ahead, held = 0, 64, self.choice
        while self._left and at < len(marks) - 1:
            column = marks[at : at + ahead + 1, held]
            kept = self._sampler.flip((np.diff(column) + self._extra).view(np.uint64), self.source)
            if kept.all():
                at, ahead = at + kept.size, 2 * ahead
                continue
            at, ahead = at + int(kept.argmin()) + 1, 64
            gaps = marks[at] - marks[at].min()
            held, self._left = self._sampler.pick(gaps.view(np.uint64), self.source), self._left - 1
            yield at - 1, held


def coin_price(extra: Fraction) -> Fraction:
    """Return ln(1 + 1/extra), rounded up."""
    return round_up(math.log1p(1 / float(extra)))


def excess_chance(batches: int, chance: float, switches: int) -> float:
    """Return Bernstein's bound on the chance of more than `switches` heads, each of at most this chance."""
    if switches >= batches:
        return 0.0
    mean = batches * chance
    over = switches + 1 - mean
    return math.exp(-(over**2) / (2 * mean + 2 * over / 3)) if over > 0 else 1.0


def _fill_budget(
    kind: type[LazyMajority],
    experts: int,
    horizon: int,
    epsilon: Fraction,
    delta: Fraction,
    batch: int,
    extra: Fraction,
) -> LazyMajority | None:
    """Return the method with the largest rate that (ε, δ) allows, or None; the best rate if it is less."""
    beside, batches = coin_price(extra), -(-horizon // batch)
    if beside >= epsilon or extra > _MOST_EXTRA:
        return None
    best = min(math.sqrt(8 * math.log(experts) / horizon / batch), float(beside))

    def count(rate: float) -> int:
        return _count_switches(batches, -math.expm1(-rate * float(batch + extra)), horizon)

    def allowed(rate: float) -> bool:
        return rate <= min(best, calibrate_rate(count(rate), beside, epsilon, delta))

    found = best if allowed(best) else find_largest(allowed, 0.0, best / 2, precision=1e-4)
    if not found:
        return None
    rate = round_rate(found)
    return kind(experts, horizon, rate, batch, extra, count(float(rate)))


def _count_switches(batches: int, chance: float, horizon: int) -> int:
    """Return how many switches suffice, except with a chance of at most one over the horizon."""
    mean, tail = batches * chance, math.log(horizon + 1)
    return max(1, min(batches, math.ceil(mean + tail / 3 + math.sqrt(tail**2 / 9 + 2 * mean * tail))))
