"""The black-box audit: sample a mechanism on two neighbouring inputs and compare how likely output sets are.

A quarter of the samples chooses an output set and a direction. The others measure it, by the bounds of
Clopper and Pearson, so the choice does not bias the result and the verdict is wrong with probability at most
`alpha` (docs/proofs/audit.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.claims import Claim, log_ratio
from sfumato.audit.confidence import lower_bound, upper_bound
from sfumato.audit.outcomes import draw_outputs, output_columns, require_outputs
from sfumato.audit.search import Goal, OutputSet, find_best_set
from sfumato.audit.verdict import Verdict
from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.audit.outcomes import Columns

    Sampler = Callable[[int], Any]
    Samples = tuple[Columns, Columns]

ALPHA = 1e-4
"""Default probability of a false alarm."""
FEWEST = 1000
"""Fewest samples of an audit."""

_CAREFUL = 1e-3  # level of the bounds that choose a set, so that none is chosen for its luck
_SURE = 1.2816  # standard deviations that a normal number stays below nine times in ten


@dataclass(frozen=True, slots=True)
class Hits:
    """How often the output set was hit among so many fresh outputs of either input."""

    likely: float
    unlikely: float
    trials: int

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Return a lower bound on the first probability and an upper bound on the second, both at once."""
        return (
            float(lower_bound(self.likely, self.trials, alpha / 2)),
            float(upper_bound(self.unlikely, self.trials, alpha / 2)),
        )


def compare_samplers(target: Any, claim: Claim, *, samples: int, alpha: float) -> Verdict:
    """Return the verdict on two samplers: each takes a number n and returns n independent outputs."""
    one, other = _samplers(target)
    drawn = draw_outputs(one, samples), draw_outputs(other, samples)
    require_outputs([each for outputs in drawn for each in outputs])
    return judge_columns(output_columns(*drawn), claim, samples, alpha)


def choosing_part(samples: int) -> int:
    """Return how many of the samples choose the output set; the others measure it."""
    return samples // 4


def judge_columns(columns: Samples, claim: Claim, samples: int, alpha: float) -> Verdict:
    """Return the verdict from columns of outputs on both inputs."""
    # The set is chosen on some outputs and measured on others, so choosing it cannot bias its probabilities.
    first, second = columns
    chosen = choosing_part(samples)
    training = _part(first, 0, chosen), _part(second, 0, chosen)
    _, flipped, test = choose_set(training, Goal(claim, min(alpha, _CAREFUL) / 2))
    fresh = _part(first, chosen, samples), _part(second, chosen, samples)
    hits = _measure(test, fresh[::-1] if flipped else fresh)
    event = f"{test}, likelier on the {'second' if flipped else 'first'}"
    return _verdict(claim, hits, event, samples, alpha)


def pair(release: Callable[[Any], Any], first: Any, second: Any) -> tuple[Sampler, Sampler]:
    """Return two samplers, from a function that adds noise to an array, entry by entry, and two inputs."""
    return _repeated(release, np.asarray(first)), _repeated(release, np.asarray(second))


def _repeated(release: Callable[[Any], Any], exact: Any) -> Sampler:
    return lambda count: release(np.broadcast_to(exact, (count, *exact.shape)).copy())


def parse_samples(samples: int) -> int:
    """Return how many samples to draw; too few are refused."""
    count = parse_whole(samples, "samples")
    if count < FEWEST:
        raise UsageError("SF-A104", f"An audit needs at least {FEWEST:,} samples.", got=str(count))
    return count


def require_rare(alpha: float) -> None:
    """Refuse a chance of false alarms that is not between 0 and 1/2."""
    if not 0 < alpha <= 0.5:
        raise UsageError(
            "SF-A107", "alpha must be above 0 and at most 1/2.", got=str(alpha)[:40], try_="1e-4"
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


def _verdict(claim: Claim, hits: Hits, event: str, samples: int, alpha: float) -> Verdict:
    p, q = hits.bounds(alpha)
    used = _used(claim, hits, alpha)
    return Verdict(
        claim=str(claim),
        broken=used > 1 + 1e-9,
        lower_bound=max(0.0, float(log_ratio(np.array(p), np.array(q), claim.delta))),
        used=used,
        shortfall=_shortfall(claim, hits, alpha),
        event=event,
        samples=samples,
        alpha=alpha,
        shares=(hits.likely / hits.trials, hits.unlikely / hits.trials),
    )


def _used(claim: Claim, hits: Hits, alpha: float) -> float:
    p, q = hits.bounds(alpha)
    return float(claim.used(np.array([p]), np.array([q]))[0])


def _shortfall(claim: Claim, hits: Hits, alpha: float) -> float | None:
    """Return the least share of missing noise that this output set would have revealed, by bisection."""
    caught, missed = 0.99, 0.0
    if _used(claim, _with_less_noise(hits, caught, claim), alpha) <= 1:
        return None
    for _ in range(30):
        share = (caught + missed) / 2
        found = _used(claim, _with_less_noise(hits, share, claim), alpha) > 1
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
