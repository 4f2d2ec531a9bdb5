"""What people get before paying: the price, the expected error, and what would be left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import viz
from sfumato.curator.answers.answer import Noisy, laws
from sfumato.curator.answers.intervals import ranked
from sfumato.curator.answers.post_processing import interval, steady
from sfumato.curator.answers.rank_error import rank_error
from sfumato.curator.plan.plan import priced
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import Choices, DiscoveredKeys
from sfumato.curator.question.measurement import CovarianceOf, MeanOf, QuantileOf, VarianceOf
from sfumato.errors import PolicyError, UsageError
from sfumato.noise import ExtremeMechanism, QuantilesMechanism, TruncatedGeometric
from sfumato.noise.additive import LARGEST
from sfumato.privacy.exact import format_short, positive, whole

if TYPE_CHECKING:
    from sfumato.curator.answers.noise_law import Floats
    from sfumato.curator.plan.plan import Plan, ResolvedQuestion
    from sfumato.curator.question.measurement import Figure

_MILLION = 10**6
_OF_ROWS = MeanOf | VarianceOf | CovarianceOf
"""Whose error depends on how many rows there are."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Price and expected error of a question. Making one reads no data and spends nothing."""

    plan: Plan
    share: float
    """Of the budget, that this question would take."""
    left: Fraction
    """The largest pure-ε question still possible before this one."""
    left_after: Fraction | None
    """The same after it; none when it would be refused."""
    free: bool
    """Whether the same question was answered before, so that it costs nothing."""
    given: dict[str, int]

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε it would cost; none where the noise is Gaussian."""
        return Fraction(0) if self.free else self.plan.event.pure()

    @property
    def admitted(self) -> bool:
        return self.left_after is not None

    def error(self, confidence: float = 0.95) -> dict[str, float | None]:
        """For each number of the answer, half the width of its interval, where it is known beforehand.

        Of quantiles it is in rows: how far off in rank. Of means, variances and correlations it is for a
        given n; of products and quotients it is known with the answer.
        """
        asked = self.plan.question.figures
        return {name: self._half_width(figure, confidence) for name, figure in asked.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.plan.table.name,
            "unit": self.plan.table.population,
            "price": "nothing" if self.free else str(self.plan.spend),
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "free": self.free,
            "share": self.share,
            "left": float(self.left),
            "left_after": None if self.left_after is None else float(self.left_after),
            "expected_error": self.error(),
            "bias": list(self.plan.bias),
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return viz.definition_table(self._lines())

    # ---- parts ----

    def _lines(self) -> list[tuple[str, str]]:
        after = (
            "refused: not enough is left"
            if self.left_after is None
            else f"ε = {format_short(self.left_after)}"
        )
        asked = self.plan.question.figures
        return [
            ("price", self._price()),
            ("left before", f"ε = {format_short(self.left)}"),
            ("left after", after),
            *((f"± {name} (95 %)", self._error_text(figure)) for name, figure in asked.items()),
            *(("groups", text) for text in self._groups()),
            *(("not in ±", text) for text in self.plan.bias),
        ]

    def _price(self) -> str:
        if self.free:
            return "nothing: it was answered before"
        parts = self._shared_by()
        split = f", shared by {parts}" if self.plan.resolved.needs.items > 1 else ""
        share = f"{self.share:.1%} of the budget{split}"
        return f"{self.plan.spend} for {self.plan.table.population} ({share})"

    def _shared_by(self) -> str:
        sums = sum(1 for each in self.plan.measured if each.noise is not None)
        choices = sum(1 for step in self.plan.steps if isinstance(step, Choices))
        named = [
            _counted(sums, "sum"),
            _counted(choices, "choice"),
            "the keys" if self.plan.resolved.discovers_keys else "",
        ]
        return " and ".join(each for each in named if each)

    def _groups(self) -> list[str]:
        """From how many units on a group is shown, where groups are bought."""
        return [_shown_from(step) for step in self.plan.steps if isinstance(step, DiscoveredKeys)]

    def _error_text(self, figure: Figure) -> str:
        half = self._half_width(figure, 0.95)
        if isinstance(figure, QuantileOf):
            return f"about {half:,.4g} rows in rank"
        if half is not None:
            return f"{half:,.4g}"
        if isinstance(figure, MeanOf) or (isinstance(figure, VarianceOf) and not figure.root):
            total = self.plan.measured[self.plan.sums(figure)[0]]
            width = total.noise.half_width(0.95) if total.noise is not None else 0
            return f"about {width * float(total.of.step):,.4g} / rows of the group"
        if isinstance(figure, _OF_ROWS):
            return 'depends on the rows of the group: given={"n": …}'
        return "known only with the answer"

    def _half_width(self, figure: Figure, confidence: float) -> float | None:
        if isinstance(figure, QuantileOf):
            return self._rank_error(figure, confidence)
        if steady(figure):
            return self._width(figure, np.zeros((len(self.plan.measured), 1)), confidence) / 2
        if isinstance(figure, _OF_ROWS) and "n" in self.given:
            return self._width(figure, self._typical(figure), confidence) / 2
        return None

    def _rank_error(self, quantile: QuantileOf, confidence: float) -> float:
        choices = [step for step in self.plan.steps if isinstance(step, Choices)]
        step = choices[ranked(self.plan.resolved, quantile)[0]]
        return rank_error(step.mechanism, quantile, step.program.size, confidence)

    def _width(self, figure: Figure, sums: Floats, confidence: float) -> float:
        noisy = Noisy(sums, laws(self.plan), (), None, 1)
        low, high = interval(self.plan, figure, noisy, confidence)
        return float(high[0] - low[0])

    def _typical(self, aggregate: MeanOf | VarianceOf | CovarianceOf) -> Floats:
        """For a group of the given size: a mean halfway from the middle of the bounds to one of them, a
        variance of half the largest around the middle, and two numbers that do not vary together."""
        at, rows = self.plan.sums(aggregate), self.given["n"]
        typical = np.zeros((len(self.plan.measured), 1))
        half = (3, 4) if isinstance(aggregate, CovarianceOf) and aggregate.scaled else (0,)
        for place in () if isinstance(aggregate, CovarianceOf) and not aggregate.scaled else half:
            typical[at[place]] = self.plan.measured[at[place]].of.bound * rows / 2
        typical[at[-1]] = rows
        return typical


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}" if count else ""


def _shown_from(step: DiscoveredKeys) -> str:
    if isinstance(step.keys, TruncatedGeometric):
        always = step.keys.always
        return f"shown from about {always // 2 + 1:,} units on, and always from {always:,}"
    return f"shown from about {step.keys.threshold:,} units on"


def cheapest(resolved: ResolvedQuestion, error: Any, given: dict[str, int]) -> PureSpend:
    """The smallest pure ε, in millionths, whose half-widths at 95 % are within the errors asked for."""
    figures = resolved.question.figures
    halves = error if isinstance(error, dict) else {}
    wanted = {name: float(positive(half, name)) for name, half in halves.items()}
    if set(wanted) - set(figures) or not wanted:
        raise UsageError(
            "SF-N114", "error names numbers of the answer.", numbers=", ".join(figures), try_='{"n": 25}'
        )
    if resolved.discovers_keys:
        raise PolicyError(
            "SF-Q143",
            "The groups of this question are not listed, and which there are must be bought with a delta.",
            why="an error alone does not say how much delta to spend",
            try_="release(epsilon=1, delta=1e-8)",
        )

    def meets(millionths: int) -> bool:
        plan = priced(resolved, PureSpend(Fraction(millionths, _MILLION)))
        quote = Quote(plan, 0.0, Fraction(0), None, False, given)
        return all(_known(name, figures[name], quote) <= half for name, half in wanted.items())

    low, high = _millionths(resolved), 1000 * _MILLION
    if not meets(high):
        raise UsageError("SF-N115", "No ε up to 1000 gives an error as small as this.", try_="a larger error")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return PureSpend(Fraction(high, _MILLION))


def _millionths(resolved: ResolvedQuestion) -> int:
    """Below the least ε whose noise can still be drawn. Scales are in inverse proportion to ε."""
    plan = priced(resolved, PureSpend(Fraction(1000)))
    scales = [each.noise.spread for each in plan.measured if each.noise is not None]
    for step in plan.steps:
        if isinstance(step, Choices) and isinstance(step.mechanism, ExtremeMechanism):
            scales.append(step.mechanism.scale)
        elif isinstance(step, Choices) and isinstance(step.mechanism, QuantilesMechanism):
            finest = math.lcm(*(share.denominator for share in step.mechanism.shares))
            scales.append(2 * finest * step.mechanism.levels / step.mechanism.epsilon)
    return math.ceil(max(scales, default=Fraction(0)) * 1000 * _MILLION / LARGEST)


def _known(name: str, figure: Figure, quote: Quote) -> float:
    half = quote._half_width(figure, 0.95)
    if half is not None:
        return half
    if isinstance(figure, _OF_ROWS):
        raise UsageError(
            "SF-N116",
            f"The error of '{name}' depends on how many rows it is of.",
            try_='given={"n": 1000}, the rows of a group',
        )
    raise UsageError(
        "SF-N116",
        f"The error of '{name}' is known only with the answer.",
        try_="an error for what it is made of",
    )


def checked_given(given: Any) -> dict[str, int]:
    """Public guesses that only a quote uses."""
    if given is not None and (not isinstance(given, dict) or set(given) - {"n"}):
        raise UsageError("SF-N108", "given takes n, the rows of a group.", try_='given={"n": 1000}')
    return {name: whole(value, name) for name, value in (given or {}).items()}
