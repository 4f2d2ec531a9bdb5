"""How far off an answer is likely to be, from public facts, and the cheapest spend for a wished error."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.answer import NoisyAnswer, noise_laws
from sfumato.curator.answers.intervals import find_choice
from sfumato.curator.answers.noise_law import combined_half_width
from sfumato.curator.answers.ordered.rank_error import rank_error
from sfumato.curator.answers.post_processing import explain_by_noise, is_linear
from sfumato.curator.answers.together.estimates import PoolEstimates
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import ChoiceStep, DiscoveredKeys
from sfumato.curator.question.measurement import (
    ChosenAggregate,
    CovarianceOf,
    MeanOf,
    ModeOf,
    QuantileOf,
    VarianceOf,
)
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError, UsageError
from sfumato.errors.numbers import format_error
from sfumato.noise import QuantilesMechanism, SimplicesNoise, TruncatedGeometric
from sfumato.noise.additive import LARGEST
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.curator.answers.noise_law import Floats, NoiseLaw
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.measurement import Figure

_MILLION = 10**6
_SHOWN = 0.95
"""Confidence of the intervals that a quote shows."""
_ONE = PureSpend(Fraction(1))
_OF_ROWS = MeanOf | VarianceOf | CovarianceOf
"""Aggregates whose error depends on how many rows there are."""


@dataclass(frozen=True, slots=True)
class SentenceError:
    """An expected error that is said in one sentence."""

    sentence: str

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return nothing: the sentence says it all."""
        return {}

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return nothing: the sentence says it all."""
        return []

    def facts(self) -> list[tuple[str, str]]:
        """Return the sentence under its name."""
        return [("expected error", self.sentence)]

    def shared_by(self) -> str:
        """Return nothing: the spend has one use."""
        return ""


@dataclass(frozen=True)
class QuestionError:
    """The expected error of each number of a question, as far as it is known before the answer."""

    plan: QuestionPlan
    given: dict[str, int]
    """Public guesses: n, the rows of a group."""
    laws: tuple[tuple[NoiseLaw, ...], ...] = ()
    """The laws of its sums at each level, where they are measured together with others."""

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval, None where that is known only with the answer."""
        return dict(self._shown) if confidence == _SHOWN else self._find_half_widths(confidence)

    @cached_property
    def _shown(self) -> dict[str, float | None]:
        """Half the widths that a quote shows, which it is asked for several times."""
        return self._find_half_widths(_SHOWN)

    def _find_half_widths(self, confidence: float) -> dict[str, float | None]:
        asked = self.plan.question.figures
        return {name: self.half_width(figure, confidence) for name, figure in asked.items()}

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return each column with its error and what the error assumes."""
        asked = self.plan.question.figures
        if self.plan.is_empty:
            return [(name, "exact", "") for name in asked]
        if self.plan.question.levels:
            return [
                (f"{name} {by}", error, note)
                for by, own in self._levels()
                for name, error, note in own.error_rows()
            ]
        return [
            (name, self._error_text(asked[name], half), self._assumption(asked[name]))
            for name, half in self._shown.items()
        ]

    def facts(self) -> list[tuple[str, str]]:
        """Return from how many units on a group is shown, where keys are discovered."""
        if self.plan.question.levels:
            return [(f"{name} {by}", text) for by, own in self._levels() for name, text in own.facts()]
        return [("groups", text) for text in self._groups()]

    def _levels(self) -> Iterator[tuple[str, QuestionError]]:
        """Yield the name and the error of each level: every one of them has a separate part of the spend."""
        names = [str(key) if isinstance(key, Name) else "a computed key" for key in self.plan.question.keys]
        for places, own in zip(self.plan.question.levels, self.each_level(), strict=True):
            yield "by " + ", ".join(names[at] for at in places) if places else "in all", own

    def _assumption(self, figure: Figure) -> str:
        if isinstance(figure, QuantileOf) and "n" not in self.given and self.plan.table.public_rows is None:
            return "says nothing about a group of fewer rows"
        if not isinstance(figure, _OF_ROWS) or "n" not in self.given:
            return ""
        return f"assuming {self.given['n']:,} rows" + (" per group" if self.plan.question.keys else "")

    def each_level(self) -> list[QuestionError]:
        """Return the error of each level alone."""
        laws = self.laws
        if not laws and self.plan.pooled_steps:
            estimates = PoolEstimates(self.plan.pool, self.plan.strategy, self.plan.spend)
            laws = tuple(estimates.list_laws(self.plan.resolved))
        known = zip(laws, strict=True) if laws else itertools.repeat(())
        pairs = zip(self.plan.levels, known, strict=False)
        return [QuestionError(level, self.given, own) for level, own in pairs]

    def shared_by(self) -> str:
        """Return what the spend is split over, in words; nothing where it has one use."""
        sums = sum(1 for each in self.plan.measured if each.noise is not None)
        # Levels that are measured together are no sums of their own.
        sums = min(sums, len(self.plan.summands)) if self.plan.pooled_steps else sums
        if self.plan.is_empty or self.plan.needs.items < 2:
            return ""
        choices = len(self.plan.resolved.choices)
        named = [
            _counted(sums, "sum"),
            _counted(choices, "choice"),
            "the keys" if self.plan.resolved.discovers_keys else "",
        ]
        levels = f"{len(self.plan.question.levels)} levels of " if self.plan.question.levels else ""
        return levels + " and ".join(each for each in named if each)

    def _groups(self) -> list[str]:
        """Say from how many units on a group is shown, where keys are discovered."""
        return [_shown_from(step) for step in self.plan.steps if isinstance(step, DiscoveredKeys)]

    def _error_text(self, figure: Figure, half: float | None) -> str:
        if half is not None:
            if isinstance(figure, ModeOf):
                return f"at most {format_error(half)} rows fewer than the most frequent value"
            if isinstance(figure, QuantileOf) and figure.is_end:
                return f"at most {format_error(half)} rows beyond it"
            if isinstance(figure, ChosenAggregate):
                return f"about {format_error(half)} rows in rank"
            return f"± {format_error(half)}"
        if isinstance(figure, MeanOf) or (isinstance(figure, VarianceOf) and not figure.root):
            # The error of an average is about that of its sum, spread over the rows; those are not known yet.
            at = self.plan.sums(figure)[0]
            width = combined_half_width([(float(self.plan.summands[at].step), self._laws[at])], _SHOWN)
            return f"± {format_error(float(width.max()))} / rows of the group"
        if isinstance(figure, _OF_ROWS):
            return 'depends on the rows of the group: given={"n": …}'
        return "known only with the answer"

    def half_width(self, figure: Figure, confidence: float) -> float | None:
        """Return half the width of a number's interval; of a choice, how many rows it is off."""
        if self.plan.is_empty:
            return 0.0
        if self.plan.question.levels:
            halves = [level.half_width(figure, confidence) for level in self.each_level()]
            known = [half for half in halves if half is not None]
            return max(known) if len(known) == len(halves) else None
        if isinstance(figure, ChosenAggregate):
            return self._rank_error(figure, confidence)
        if is_linear(figure):
            return self._width(figure, np.zeros((len(self.plan.summands), 1)), confidence) / 2
        if isinstance(figure, _OF_ROWS) and "n" in self.given:
            return self._width(figure, self._typical(figure), confidence) / 2
        return None

    def _rank_error(self, chosen: ChosenAggregate, confidence: float) -> float:
        choices = [step for step in self.plan.steps if isinstance(step, ChoiceStep)]
        step = choices[find_choice(self.plan.resolved, chosen)[0]]
        return rank_error(step.mechanism, chosen, step.size, confidence)

    def _width(self, figure: Figure, sums: Floats, confidence: float) -> float:
        noisy = NoisyAnswer(sums, self._laws, (), None, 1)
        low, high = explain_by_noise(self.plan, figure, noisy, confidence)
        return float(high[0] - low[0])

    @cached_property
    def _laws(self) -> tuple[NoiseLaw, ...]:
        return self.laws[0] if self.laws else noise_laws(self.plan)

    def _typical(self, aggregate: MeanOf | VarianceOf | CovarianceOf) -> Floats:
        """Return typical sums of a group of the given size.

        The mean is halfway from the middle of the bounds to one of them, the variance half the largest around
        the middle, and two numbers do not vary together.
        """
        at, rows = self.plan.sums(aggregate), self.given["n"]
        typical = np.zeros((len(self.plan.summands), 1))
        half = (3, 4) if isinstance(aggregate, CovarianceOf) and aggregate.scaled else (0,)
        for place in () if isinstance(aggregate, CovarianceOf) and not aggregate.scaled else half:
            typical[at[place]] = self.plan.summands[at[place]].bound * rows / 2
        typical[at[-1]] = rows
        return typical


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}" if count else ""


def _shown_from(step: DiscoveredKeys) -> str:
    if isinstance(step.keys, TruncatedGeometric):
        always = step.keys.always
        return f"shown from about {always // 2 + 1:,} units on, and always from {always:,}"
    return f"shown from about {step.keys.threshold:,} units on"


def find_cheapest_spend(
    resolved: ResolvedQuestion,
    error: Any,
    given: dict[str, int],
    one: PureSpend = _ONE,
) -> PureSpend:
    """Return the smallest pure ε, in millionths, whose half-widths at 95 % are within the wished errors.

    `one` is the spend of ε = 1, which says what noise sums have.
    """
    figures = resolved.question.figures
    wanted = parse_wished(error, figures)
    if resolved.discovers_keys:
        raise PolicyError(
            "SF-Q143",
            "The groups of this question are not listed, and discovering which there are costs a delta.",
            why="an error alone does not say how much delta to spend",
            try_="release(epsilon=1, delta=1e-8)",
        )

    # What is measured of levels together does not depend on ε.
    strategy = price_question(resolved, one).strategy

    def meets(epsilon: Fraction) -> bool:
        plan = price_question(resolved, replace(one, epsilon=epsilon), strategy=strategy)
        expected = QuestionError(plan, given)
        return all(require_known(name, figures[name], expected) <= half for name, half in wanted.items())

    return replace(one, epsilon=bisect_spend(meets, _millionths(resolved)))


def parse_wished(error: Any, figures: Mapping[str, Figure]) -> dict[str, float]:
    """Return the wished half-width of each number, or refuse names that the answer does not have."""
    halves = error if isinstance(error, dict) else {}
    wanted = {name: float(parse_positive(half, name)) for name, half in halves.items()}
    if set(wanted) - set(figures) or not wanted:
        raise UsageError(
            "SF-N112", "error must name numbers of the answer.", numbers=", ".join(figures), try_='{"n": 25}'
        )
    return wanted


def bisect_spend(meets: Callable[[Fraction], bool], low: int = 0) -> Fraction:
    """Return the smallest ε, in millionths, that meets a wish; no number of millionths up to `low` does."""
    # Errors fall as ε grows, so bisection finds the least ε.
    high = 1000 * _MILLION
    if not meets(Fraction(high, _MILLION)):
        raise UsageError("SF-N312", "No ε up to 1000 gives an error as small as this.", try_="a larger error")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(Fraction(middle, _MILLION)) else (middle, high)
    return Fraction(high, _MILLION)


def _millionths(resolved: ResolvedQuestion) -> int:
    """Return a number of millionths below the least ε whose noise can still be drawn.

    Scales are in inverse proportion to ε, so one plan, at ε = 1000, tells all others.
    """
    plan = price_question(resolved, PureSpend(Fraction(1000)))
    noises = [each.noise for each in plan.measured if each.noise is not None]
    scales = [each.scale if isinstance(each, SimplicesNoise) else each.spread for each in noises]
    for step in plan.steps:
        if not isinstance(step, ChoiceStep):
            continue
        if not isinstance(step.mechanism, QuantilesMechanism):
            scales.append(step.mechanism.scale)
        else:
            finest = math.lcm(*(share.denominator for share in step.mechanism.shares))
            scales.append(2 * finest * step.mechanism.levels / step.mechanism.epsilon)
    return math.ceil(max(scales, default=Fraction(0)) * 1000 * _MILLION / LARGEST)


def require_known(name: str, figure: Figure, expected: QuestionError) -> float:
    """Return the half-width of a number at 95 %, or refuse one that is known only with the answer."""
    half = expected.half_width(figure, _SHOWN)
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


def check_given(given: Any) -> dict[str, int]:
    """Return public guesses that only expected errors use, or refuse what is none."""
    if given is not None and (not isinstance(given, dict) or set(given) - {"n"}):
        raise UsageError("SF-N116", "given takes n, the rows of a group.", try_='given={"n": 1000}')
    return {name: parse_whole(value, name) for name, value in (given or {}).items()}
