"""The black-box audit: sample a mechanism on two neighbouring inputs and compare how likely output sets are.

Some of the samples choose an output set and a direction. The others measure it, by exact binomial bounds, so
the choice does not bias the result and the verdict is wrong with probability at most `alpha`
(docs/proofs/audit.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.claims import Claim, log_ratio
from sfumato.audit.confidence import lower_bound, upper_bound
from sfumato.audit.joint_region import Hits, approximate_jointly, bound_apart, bound_jointly
from sfumato.audit.outcomes import draw_outputs, output_columns, require_outputs
from sfumato.audit.search import Goal, OutputSet, find_best_set
from sfumato.audit.verdict import Verdict
from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.audit.confidence import Floats
    from sfumato.audit.outcomes import Columns

    Sampler = Callable[[int], Any]
    Samples = tuple[Columns, Columns]

ALPHA = 1e-4
"""Default probability of a false alarm."""
FEWEST = 1000
"""Fewest samples of an audit."""

_CAREFUL = 1e-4  # level of the bounds that choose a set, so that none is chosen for its luck
_FEW_HITS = 50  # expected hits below which a line gains little, and loses much if its slope is wrong
_UNLIKELY = 0.02  # level of the bounds that choose the slope
_HALVINGS = 16  # of the noise that could be missing
_SURE = 1.2816  # standard deviations that a normal number stays below nine times in ten


@dataclass(frozen=True, slots=True)
class _Measuring:
    """How an output set will be measured, decided before it is."""

    claim: Claim
    slope: float | None
    """Slope of the joint bound, or None where few hits are expected and two bounds apart are better."""
    alpha: float

    @classmethod
    def plan(cls, claim: Claim, tried: Hits, trials: int, alpha: float) -> _Measuring:
        """Return how to measure, from hits among the outputs that chose the set."""
        if min(tried.likely, tried.unlikely) * trials < _FEW_HITS * tried.trials:
            return cls(claim, None, alpha)
        # A slope that is too steep costs much more than one that is too flat, so luck must not make it steep.
        p = float(lower_bound(tried.likely, tried.trials, _UNLIKELY))
        q = float(upper_bound(tried.unlikely, tried.trials, _UNLIKELY))
        return cls(claim, claim.slope(p, q), alpha)

    def bound(self, hits: Hits) -> tuple[Floats, Floats]:
        """Return pairs of bounds, of which one holds except with probability alpha."""
        if self.slope is None:
            return bound_apart(hits, self.alpha)
        return bound_jointly(hits, self.slope, self.alpha)

    def expect_broken(self, hits: Hits) -> bool:
        """Return whether such hits, which need not be whole numbers, would break the claim."""
        if self.slope is None:
            pairs = bound_apart(hits, self.alpha)
        else:
            pairs = approximate_jointly(hits, self.slope, self.alpha)
        return float(self.claim.used(*pairs).min()) > 1


def compare_samplers(target: Any, claim: Claim, *, samples: int, alpha: float) -> Verdict:
    """Return the verdict on two samplers: each takes a number n and returns n independent outputs."""
    one, other = _samplers(target)
    drawn = draw_outputs(one, samples), draw_outputs(other, samples)
    require_outputs([each for outputs in drawn for each in outputs])
    return judge_columns(output_columns(*drawn), claim, samples, alpha)


def choosing_part(samples: int) -> int:
    """Return how many of the samples choose the output set; the others measure it."""
    return min(samples // 4, 5_000 + samples // 20)


def judge_columns(columns: Samples, claim: Claim, samples: int, alpha: float) -> Verdict:
    """Return the verdict from columns of outputs on both inputs."""
    # The set is chosen on some outputs and measured on others, so choosing it cannot bias its probabilities.
    first, second = columns
    chosen = choosing_part(samples)
    training = _part(first, 0, chosen), _part(second, 0, chosen)
    _, flipped, test = choose_set(training, Goal(claim, _CAREFUL))
    fresh = _part(first, chosen, samples), _part(second, chosen, samples)
    tried, hits = (_measure(test, each[::-1] if flipped else each) for each in (training, fresh))
    event = f"{test}, likelier on the {'second' if flipped else 'first'}"
    return _verdict(_Measuring.plan(claim, tried, hits.trials, alpha), hits, event, samples)


def pair(release: Callable[[Any], Any], first: Any, second: Any) -> tuple[Sampler, Sampler]:
    """Return two samplers, from a function that adds noise to an array, entry by entry, and two inputs."""
    return _repeated(release, np.asarray(first)), _repeated(release, np.asarray(second))


def _repeated(release: Callable[[Any], Any], exact: Any) -> Sampler:
    return lambda count: release(np.broadcast_to(exact, (count, *exact.shape)).copy())


def parse_samples(samples: int) -> int:
    """Return how many samples to draw; too few are refused."""
    count = parse_whole(samples, "samples")
    if count < FEWEST:
        raise UsageError("SF-A101", f"An audit needs at least {FEWEST:,} samples.", got=str(count))
    return count


def require_rare(alpha: float) -> None:
    """Refuse a chance of false alarms that is not between 0 and 1/2."""
    if not 0 < alpha <= 0.5:
        raise UsageError(
            "SF-N101", "alpha must be above 0 and at most 1/2.", got=str(alpha)[:40], try_="1e-4"
        )


def _samplers(target: Any) -> tuple[Sampler, Sampler]:
    if isinstance(target, tuple) and len(target) == 2 and all(callable(each) for each in target):
        return target
    raise UsageError(
        "SF-A101",
        "The target must be two samplers: the mechanism on one input and on a neighbouring one.",
        got=type(target).__name__,
        try_="(lambda n: noisy(count, n), lambda n: noisy(count + 1, n))",
    )


def _part(sample: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in sample.items()}


def choose_set(training: Samples, goal: Goal) -> tuple[float, bool, OutputSet]:
    """Return the best output set, what it uses of the claim, and whether it is likelier on the second."""
    ahead, test = find_best_set(training[0], training[1], goal)
    back, opposite = find_best_set(training[1], training[0], goal)
    return (back, True, opposite) if back > ahead else (ahead, False, test)


def _measure(test: OutputSet, fresh: Samples) -> Hits:
    likely, unlikely = (test.holds(sample) for sample in fresh)
    return Hits(int(likely.sum()), int(unlikely.sum()), len(likely))


def _verdict(measuring: _Measuring, hits: Hits, event: str, samples: int) -> Verdict:
    p, q = measuring.bound(hits)
    claim = measuring.claim
    used = float(claim.used(p, q).min())
    return Verdict(
        claim=str(claim),
        broken=used > 1 + 1e-9,
        lower_bound=max(0.0, float(log_ratio(p, q, claim.delta).min())),
        used=used,
        shortfall=_shortfall(measuring, hits),
        event=event,
        samples=samples,
        alpha=measuring.alpha,
        measured=hits.trials,
        shares=(hits.likely / hits.trials, hits.unlikely / hits.trials),
    )


def _shortfall(measuring: _Measuring, hits: Hits) -> float | None:
    """Return the least share of missing noise that this output set would have revealed, by bisection."""
    caught, missed = 0.99, 0.0
    if not measuring.expect_broken(_with_less_noise(hits, caught, measuring.claim)):
        return None
    for _ in range(_HALVINGS):
        share = (caught + missed) / 2
        found = measuring.expect_broken(_with_less_noise(hits, share, measuring.claim))
        caught, missed = (share, missed) if found else (caught, share)
    return caught


def _with_less_noise(hits: Hits, missing: float, claim: Claim) -> Hits:
    """Return the hits expected, nine times in ten, if the noise were smaller by this share."""
    # The privacy loss grows as the noise shrinks: the log ratio of the two probabilities where a pure ε is
    # claimed, and else the distance between their normal scores.
    # Half a hit keeps logarithms and normal scores finite.
    p, q = (min(max(k, 0.5), hits.trials - 0.5) / hits.trials for k in (hits.likely, hits.unlikely))
    q = min(p, q)
    p, q = (
        _steeper(p, q, 1 / (1 - missing))
        if claim.epsilon is None
        else (p, p * (q / p) ** (1 / (1 - missing)))
    )
    spread = [_SURE * (x * (1 - x) * hits.trials) ** 0.5 for x in (p, q)]
    likely, unlikely = max(p * hits.trials - spread[0], 0.0), min(q * hits.trials + spread[1], hits.trials)
    return Hits(likely, unlikely, hits.trials)


def _steeper(p: float, q: float, factor: float) -> tuple[float, float]:
    """Return both probabilities with their normal scores moved apart by this factor."""
    normal = NormalDist()
    scores = normal.inv_cdf(p), normal.inv_cdf(q)
    middle, half = sum(scores) / 2, (scores[0] - scores[1]) / 2 * factor
    return normal.cdf(middle + half), normal.cdf(middle - half)
