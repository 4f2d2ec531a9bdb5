"""What a quote says beside the error of each number: bounds that nobody chose, and answers that say nothing.

Everything here follows from public facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.expected_error import QuestionError
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.per_unit import rebuild_node
from sfumato.curator.plan.aggregates import aggregate_range
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.summands import list_summands
from sfumato.curator.question.measurement import (
    ChosenAggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    SumOf,
    VarianceOf,
    list_aggregates,
)
from sfumato.engines.program import CountedValues
from sfumato.engines.rows import Bounded, Computed, Ordered, PerUnit, Scan, UnitSizes
from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_bound, format_decimal, format_error, format_number, format_typed
from sfumato.lab.bounds.derived_bounds import (
    clip_expression,
    has_chosen_ends,
    list_arguments,
    propose_ends,
)
from sfumato.privacy.bound_choice import QUESTIONS_EACH
from sfumato.privacy.exact import parse_exact
from sfumato.queries.clips import spell_clipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import Tables
    from sfumato.curator.question.measurement import Figure
    from sfumato.engines.rows import Rows
    from sfumato.lab.bounds.clipping import AutoClip

_CONFIDENCE = 0.95
_WHOLE = 0.99
"""Share of the possible range from which on an interval within it says nothing."""
_MANY = 10**6
"""Rows for which errors of averages are compared where nothing is known: each then goes with its bounds."""
_WORTH = 0.05
"""Share of the error from which on a clip is proposed."""
_DIGITS = 2
"""Digits of the price from which on an answer says something."""


@dataclass(frozen=True, slots=True)
class Repricing:
    """Prices the same question at another amount of what is spent."""

    symbol: str
    amount: Fraction
    price: Callable[[Fraction], QuestionPlan]


@dataclass(frozen=True, slots=True)
class AdvisedError:
    """The expected error of a question, with what should be known before it is paid for."""

    noise: QuestionError
    text: str
    """The question as it was typed."""
    tables: Tables
    repricing: Repricing | None = None
    auto: AutoClip | None = None
    """What clip="auto" would choose, if it can be used."""

    def half_widths(self, confidence: float) -> dict[str, float | None]:
        """Return half the width of each number's interval."""
        return self.noise.half_widths(confidence)

    def error_rows(self) -> list[tuple[str, str, str]]:
        """Return each column with its error and what the error assumes."""
        return self.noise.error_rows()

    def shared_by(self) -> str:
        """Return what the spend is split over, in words."""
        return self.noise.shared_by()

    def facts(self) -> list[tuple[str, str]]:
        """Return what is uninformative at this price, derived bounds, and what else is known."""
        if self.noise.plan.is_empty:
            return []
        found = find_uninformative(self.noise)
        warning = [("warning", self._describe_price(found))] if found else []
        return [*warning, *self._list_derived_bounds(), *self.noise.facts()]

    # ---- answers that say nothing ----

    def _describe_price(self, names: dict[str, str]) -> str:
        what = " and ".join(f"{name} ({why})" for name, why in names.items())
        return f"uninformative at this price: {what}; {self._find_price()}"

    def _find_price(self) -> str:
        """Return the least price, rounded up, at which every number says something."""
        asked = self.repricing
        if asked is None:
            return "spend more"

        def informs(amount: Fraction) -> bool:
            return not find_uninformative(replace(self.noise, plan=asked.price(amount), laws=()))

        try:
            low, high = asked.amount, 2 * asked.amount
            while not informs(high):
                low, high = high, 2 * high
            while high > low * Fraction(101, 100):
                middle = (low + high) / 2
                low, high = (low, middle) if informs(middle) else (middle, high)
            least = Fraction(format_bound(high, _DIGITS, up=True))
            if informs(least):
                return f"needs {asked.symbol} ≥ {format_number(least)}"
        except SfumatoError:  # no price as high as that can be asked for
            pass
        return "no price helps"

    # ---- derived bounds ----

    def _list_derived_bounds(self) -> list[tuple[str, str]]:
        question = self.noise.plan.question
        return [
            (f"bounds of {name}", self._describe_bounds(name, figure, aggregate, part))
            for name, figure in question.figures.items()
            for aggregate in list_aggregates(figure)
            for part in list_arguments(aggregate)
            if not all(has_chosen_ends(getattr(aggregate, part), question.relation))
        ]

    def _describe_bounds(self, name: str, figure: Figure, aggregate: Any, part: str) -> str:
        of, source = getattr(aggregate, part), self.noise.plan.resolved.source
        low, high = aggregate_range(MeanOf(of), list_summands(MeanOf(of), source)[:1])
        said = f"{_show(low)} to {_show(high)}, derived from the expression and not declared"
        least, most = propose_ends(parse_exact(low, "low"), parse_exact(high, "high"))
        present = lower_expression(of, source.scope).present
        clipped = replace(aggregate, **{part: clip_expression(of, least, most, present)})
        share = self._find_share(figure, aggregate, clipped)
        if share < _WORTH:
            return said
        spelled = spell_clipped(self.text, name, _write(least), _write(most), present=present)
        typed = spelled or f"LEAST(GREATEST(…, {_write(least)}), {_write(most)})"
        ends = f"{_show(float(least))} to {_show(float(most))}"
        auto = ' clip="auto" chooses other bounds privately, for a tenth of ε.' if self._offers(share) else ""
        return (
            f"{said}.{auto} If values lie from {ends}, {format_decimal(share * 100, 0)} "
            f"% of the error goes with {typed}"
        )

    def _offers(self, share: float) -> bool:
        """Return whether clip="auto" is expected to lower the error, of which a clip removes a share."""
        if self.auto is None or 1 - (1 - share) / (1 - 1 / QUESTIONS_EACH) < _WORTH:
            return False
        rows = _find_most_rows(self.noise)
        return rows is None or self.auto.count_least_seen() < rows

    def _find_share(self, figure: Figure, aggregate: Any, clipped: Any) -> float:
        """Return which share of the error is gone if an aggregate is replaced by one of clipped values."""
        plan = self.noise.plan

        def change(node: Any) -> Any:
            return clipped if node == aggregate else rebuild_node(node, change)

        shown = {each: change(getattr(plan.question, each)) for each in ("outputs", "having", "order")}
        narrow = ResolvedQuestion(self.tables, replace(plan.question, **shown))
        given = self.noise.given or {"n": _MANY}
        errors = [
            QuestionError(each, given, laws).half_width(asked, _CONFIDENCE)
            for each, laws, asked in (
                (plan, self.noise.laws, figure),
                (price_question(narrow, plan.spend), (), change(figure)),
            )
        ]
        if errors[0] is None or errors[1] is None or not errors[0]:
            return 0.0
        return 1 - errors[1] / errors[0]


def find_uninformative(expected: QuestionError) -> dict[str, str]:
    """Return the numbers whose error exceeds the range that they can have by public facts, and why."""
    found = {}
    for name, figure in expected.plan.question.figures.items():
        why = _explain_useless(expected, figure)
        if why:
            found[name] = why
    return found


def _explain_useless(expected: QuestionError, figure: Figure) -> str:
    plan, rows = expected.plan, _find_most_rows(expected)
    if isinstance(figure, MeanOf | VarianceOf | CovarianceOf):
        if rows is None:
            return ""
        half = replace(expected, given={"n": rows}).half_width(figure, _CONFIDENCE)
        low, high = aggregate_range(figure, [plan.summands[at] for at in plan.sums(figure)])
        # Its interval ends at the bounds, and says nothing if it reaches both.
        if half is None or 2 * half < _WHOLE * (high - low):
            return ""
        return f"anywhere from {_show(low)} to {_show(high)}"
    most = _find_reach(plan, figure, rows)
    half = None if most is None else expected.half_width(figure, _CONFIDENCE)
    if most is None or half is None or half <= most:
        return ""
    if isinstance(figure, ChosenAggregate):
        return f"off by up to {format_error(half)} rows, of {format_error(most)}"
    return f"± {format_error(half)}, of at most {format_error(most)}"


def _find_reach(plan: QuestionPlan, figure: Figure, rows: int | None) -> float | None:
    """Return how far apart two values of a number can be by public facts; None if that is not known."""
    match figure:
        case DistinctUnits():
            term = plan.summands[plan.sums(figure)[0]].term
            size = term.size if isinstance(term, CountedValues) else None
            return min((each for each in (size, rows) if each is not None), default=None)
        case CountOf():
            return rows
        case SumOf():
            summand = plan.summands[plan.sums(figure)[0]]
            each = float(summand.bound * summand.step) * (2 if summand.signed else 1)
            return None if rows is None else rows * each
    return rows if isinstance(figure, ChosenAggregate) else None


def _find_most_rows(expected: QuestionError) -> int | None:
    """Return how many rows a group has at most: the guess that was given, or what is public of the table."""
    if "n" in expected.given:
        return expected.given["n"]
    rows = expected.plan.resolved.source.rows
    return expected.plan.table.public_rows if _is_of_one_table(rows) else None


def _is_of_one_table(rows: Rows) -> bool:
    match rows:
        case Scan() | UnitSizes():
            return True
        case Bounded(inner) | Computed(inner) | Ordered(inner) | PerUnit(inner):
            return _is_of_one_table(inner)
    return False


def _write(end: Fraction) -> str:
    """Return a number as SQL has it."""
    return str(end.numerator) if end.denominator == 1 else format_typed(float(end), 15)


def _show(number: float) -> str:
    return (
        format_number(number, 6).replace("-", "−")
        if abs(number) < 10**6
        else format_decimal(number, 0).replace("-", "−")
    )
