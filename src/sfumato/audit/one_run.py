"""The audit of a single run with many canaries: units that are each in the data by a fair coin of their own.

After the run every canary has a score, high where it looks as if it had been in. The highest are guessed to
be in and the lowest to be out, and the number of correct guesses bounds how private the run was
(docs/proofs/audit.md). One run is enough, because every canary is a trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.audit.blackbox import ALPHA, require_rare
from sfumato.audit.claims import parse_claim
from sfumato.audit.guesses import GuessCount, make_tradeoff, rejects_epsilon, rejects_tradeoff
from sfumato.audit.thresholds import ScoreThresholds
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.noise.sampling.bits import OS
from sfumato.privacy import gaussian
from sfumato.privacy.bisection import find_largest
from sfumato.privacy.events import Event
from sfumato.privacy.exact import parse_probability, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from sfumato.privacy.exact import Number

_SMALLEST_SHARE = 7
"""Guesses that are tried without being told: from a half of the canaries down to this power of a half."""


def draw_inclusion(canaries: int) -> NDArray[np.bool_]:
    """Return a fair coin for each canary, which says whether it is in the data."""
    return OS.words(parse_whole(canaries, "canaries")) < np.uint64(1 << 63)


def one_run(
    scores: ArrayLike,
    included: ArrayLike,
    claim: Event | Number,
    *,
    delta: Number = 0,
    guesses: tuple[int, int] | None = None,
    independent: bool = False,
    alpha: float = ALPHA,
) -> CanaryVerdict:
    """Try to break a claim by the canaries of one run, and return the verdict.

    `scores` has a number for each canary, and `included` the fair and independent coin that decided whether
    it was in. `guesses` says beforehand how many of the highest scores are guessed to be in, and of the
    lowest to be out; if it is left out, many numbers are tried and `alpha` is shared among them. With an
    event as `claim`, `delta` says only at which δ the bounds on ε are given.

    Leaks that touch all canaries at once must be allowed for, so that a run shows little. Where canaries are
    `independent` and alike, as gradient canaries are, it shows nearly everything.
    """
    event_given = isinstance(claim, Event)
    stated = parse_claim(claim, 0 if event_given else delta)
    side = float(parse_probability(delta, "delta"))
    require_rare(alpha)
    values, bits = _parse_canaries(scores, included)
    tradeoff = make_tradeoff(stated.event, alpha)
    counts = [_count(values, bits, *each) for each in _list_guesses(len(values), guesses)]
    share = alpha / len(counts)
    bounds = [_bound_epsilon(each, share, side) for each in counts]
    lowest, mu = max(bounds), max(_bound_mu(each, share) for each in counts)
    if independent:
        found = ScoreThresholds(values, bits, alpha)
        violates, lowest, mu = found.rejects(tradeoff), found.bound_epsilon(side), found.bound_mu()
    elif event_given:
        violates = any(rejects_tradeoff(each, share, tradeoff) for each in counts)
    else:
        violates = lowest > float(stated.epsilon or 0)
    return CanaryVerdict(
        claim=str(stated),
        violates=violates,
        lower_bound=lowest,
        gaussian_bound=gaussian.lower_epsilon_of(mu, side) if mu and side else 0.0,
        mu=mu,
        count=counts[int(np.argmax(bounds))],
        delta=side,
        alpha=alpha,
    )


@dataclass(frozen=True, slots=True, repr=False)
class CanaryVerdict(viz.NamedLines):
    """The outcome of a one-run audit. Only a violation is evidence; otherwise nothing was found."""

    claim: str
    violates: bool
    lower_bound: float
    """Lower bound on ε at `delta`, wrong with probability `alpha` at most."""
    gaussian_bound: float
    """Lower bound on ε at `delta` for mechanisms that are Gaussian DP, with the same confidence."""
    mu: float
    """Lower bound on the μ of such mechanisms."""
    count: GuessCount
    """Guesses that tell most without assuming that canaries are independent."""
    delta: float
    alpha: float

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.violates:
            return "violates"
        return (
            f"no violation found; ε is above {format_number(self.lower_bound)}, "
            f"or {format_number(self.gaussian_bound)} if Gaussian"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "claim": self.claim,
            "verdict": self.sentence,
            "violates": self.violates,
            "lower_bound": self.lower_bound,
            "gaussian_bound": self.gaussian_bound,
            "mu": self.mu,
            "canaries": self.count.canaries,
            "guesses": self.count.guesses,
            "correct": self.count.correct,
            "delta": self.delta,
            "alpha": self.alpha,
        }

    def plot(self) -> viz.Chart:
        """Return a chart of both lower bounds on ε."""
        return viz.bars(
            ["any mechanism", "Gaussian"],
            [self.lower_bound, self.gaussian_bound],
            title=f"ε that one run shows, against the claim {self.claim}",
            y=f"lower bound at δ = {format_number(self.delta)}",
        )

    def _lines(self) -> list[tuple[str, str]]:
        sure = f"at δ = {format_number(self.delta)}, with confidence 1 − {format_number(self.alpha)}"
        return [
            ("verdict", self.sentence),
            ("claim", self.claim),
            ("ε is above", f"{format_number(self.lower_bound)} {sure}"),
            ("ε if Gaussian", f"above {format_number(self.gaussian_bound)} {sure}"),
            (
                "guesses",
                f"{self.count.correct:,} of {self.count.guesses:,} correct, {self.count.canaries:,} canaries",
            ),
        ]


def _parse_canaries(scores: Any, included: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, bits = np.asarray(scores), np.asarray(included)
    right = values.ndim == 1 and values.shape == bits.shape and values.dtype.kind in "iuf"
    if not right or bits.dtype.kind not in "biu" or not np.isin(bits, (0, 1)).all():
        raise UsageError(
            "SF-A101",
            "Canaries need one score each, and one yes or no each.",
            try_="one_run(scores, included, claim) with two arrays of the same length",
        )
    if not len(values) or np.isnan(values).any():
        raise UsageError(
            "SF-A101", "There are no canaries, or some have no score.", try_="a number for each canary"
        )
    return values.astype(np.float64), bits.astype(bool)


def _list_guesses(canaries: int, stated: Any) -> list[tuple[int, int]]:
    """Return the numbers of guesses to try: what was stated, or halves, on both sides and above only."""
    if stated is None:
        sizes = {max(canaries >> power, 1) for power in range(1, _SMALLEST_SHARE + 1)}
        return [(size, below) for size in sorted(sizes) for below in (min(size, canaries - size), 0)]
    pair = stated if isinstance(stated, tuple | list) else ()
    sides = [int(each) for each in pair if isinstance(each, int | np.integer) and each >= 0]
    if len(pair) != 2 or len(sides) != 2 or not 0 < sum(sides) <= canaries:
        raise UsageError(
            "SF-A101",
            "Guesses are two whole numbers, together at least one and at most one for each canary.",
            canaries=f"{canaries:,}",
            try_=f"guesses=({canaries // 4}, {canaries // 4})",
        )
    return [(sides[0], sides[1])]


def _count(scores: NDArray[np.float64], included: NDArray[np.bool_], above: int, below: int) -> GuessCount:
    """Return how many guesses are correct; canaries with equal scores are guessed in the worst order."""
    high = np.lexsort((included, -scores))[:above]
    rising = np.lexsort((~included, scores))
    low = rising[~np.isin(rising, high)][:below]
    correct = int(included[high].sum() + (~included[low]).sum())
    return GuessCount(len(scores), above + below, correct)


def _bound_epsilon(count: GuessCount, alpha: float, delta: float) -> float:
    return _largest(lambda epsilon: rejects_epsilon(count, alpha, epsilon, delta))


def _bound_mu(count: GuessCount, alpha: float) -> float:
    return _largest(lambda mu: rejects_tradeoff(count, alpha, lambda level: gaussian.tradeoff_of(mu, level)))


def _largest(rejected: Callable[[float], bool]) -> float:
    """Return nearly the largest number that is rejected, or 0."""
    return find_largest(rejected, 0.0, 1.0, precision=1e-6) if rejected(0.0) else 0.0
