"""What a quote says beside the error of each number: bounds that nobody chose, and answers that say nothing.

Everything here follows from public facts. Bounds are *chosen* if they were declared, or if the question clips
to them; those that follow from an expression of several columns may be far wider than what its values are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
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
from sfumato.curator.question.relation import (
    Alias,
    Case,
    Extension,
    Filter,
    FunctionCall,
    GroupByUnit,
    IsNull,
    Join,
    Literal,
    Name,
    Negation,
    Projection,
    UnitAggregate,
    UnitWindow,
)
from sfumato.engines.program import CountedValues
from sfumato.engines.rows import Bounded, Computed, Ordered, PerUnit, Scan, UnitSizes
from sfumato.errors import SfumatoError
from sfumato.errors.numbers import format_bound, format_decimal, format_error, format_number, format_typed
from sfumato.privacy.exact import parse_exact
from sfumato.queries.clips import spell_clipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.resolved import Tables
    from sfumato.curator.question.measurement import Figure
    from sfumato.curator.question.relation import Expression, Relation
    from sfumato.engines.rows import Rows

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
            for part in _list_arguments(aggregate)
            if not all(_has_chosen_ends(getattr(aggregate, part), question.relation))
        ]

    def _describe_bounds(self, name: str, figure: Figure, aggregate: Any, part: str) -> str:
        of, source = getattr(aggregate, part), self.noise.plan.resolved.source
        low, high = aggregate_range(MeanOf(of), list_summands(MeanOf(of), source)[:1])
        said = f"{_show(low)} to {_show(high)}, derived from the expression and not declared"
        least, most = _propose_ends(parse_exact(low, "low"), parse_exact(high, "high"))
        present = lower_expression(of, source.scope).present
        clipped = replace(aggregate, **{part: _clip(of, least, most, present)})
        share = self._find_share(figure, aggregate, clipped)
        if share < _WORTH:
            return said
        spelled = spell_clipped(self.text, name, _write(least), _write(most), present=present)
        typed = spelled or f"LEAST(GREATEST(…, {_write(least)}), {_write(most)})"
        ends = f"{_show(float(least))} to {_show(float(most))}"
        return (
            f"{said}. If values lie from {ends}, {format_decimal(share * 100, 0)} "
            f"% of the error goes with {typed}"
        )

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


# ---- which bounds are chosen -------------------------------------------------------------------------------


def _list_arguments(aggregate: object) -> list[str]:
    """Return the fields of an aggregate whose bounds its noise follows from."""
    if isinstance(aggregate, ChosenAggregate) or not isinstance(
        aggregate, SumOf | MeanOf | VarianceOf | CovarianceOf
    ):
        return []
    return [each.name for each in fields(aggregate) if each.name in ("of", "other")]


def _has_chosen_ends(node: Any, relation: Relation | None) -> tuple[bool, bool]:
    """Return whether the lower and the upper bound of an expression were declared or clipped to.

    A function of one column has the range that follows from the column's, and no wider one.
    """
    match node:
        case Name():
            return _follow_name(node, relation)
        case FunctionCall("least" | "greatest" as function, arguments):
            parts = [_has_chosen_ends(each, relation) for each in arguments if not isinstance(each, Literal)]
            clips = len(parts) < len(arguments)
            low, high = all(low for low, _ in parts), all(high for _, high in parts)
            return (low, high or clips) if function == "least" else (low or clips, high)
        case FunctionCall(_, arguments):
            columns = [each for each in arguments if not isinstance(each, Literal)]
            if len(columns) > 1:
                return False, False
            return _has_chosen_ends(columns[0], relation) if columns else (True, True)
        case Case(branches, otherwise):
            ends = [_has_chosen_ends(each, relation) for each in (*(then for _, then in branches), otherwise)]
            return all(low for low, _ in ends), all(high for _, high in ends)
        case UnitAggregate(figure, of):
            # A total is of as many rows as a unit may have.
            chosen = of is None or figure == "count"
            return (
                (False, False)
                if figure == "sum"
                else (True, True)
                if chosen
                else _has_chosen_ends(of, relation)
            )
        case UnitWindow(_, of):
            return (True, True) if of is None else _has_chosen_ends(of, relation)
    return True, True


def _follow_name(name: Name, relation: Relation | None) -> tuple[bool, bool]:
    """Return whether the ends of a column are chosen: declared, or those of what a subquery computes."""
    match relation:
        case Filter(of) | Alias(of):
            return _follow_name(name, of)
        case Projection(of, columns) | Extension(of, columns) | GroupByUnit(of, _, columns):
            computed = next((each for own, each in columns if own.casefold() == name.column.casefold()), None)
            if computed is not None and computed != name:
                return _has_chosen_ends(computed, of)
            return _follow_name(name, of)
        case Join(left, right):
            ends = [_follow_name(name, side) for side in (left, right)]
            return all(low for low, _ in ends), all(high for _, high in ends)
    return True, True


# ---- clips that are proposed -------------------------------------------------------------------------------


def _propose_ends(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Return round ends around a tenth of a range, on the side of it that is nearer to zero."""
    if low < 0 < high:
        end = _round_up(max(-low, high) / 10)
        return max(low, -end), min(high, end)
    width = _round_up((high - low) / 10)
    return (low, min(high, low + width)) if low >= 0 else (max(low, high - width), high)


def _round_up(number: Fraction) -> Fraction:
    """Return the least of 1, 2, 5, 10, 20, … and of their decimal fractions that is not below a number."""
    power = Fraction(1)
    while power > number:
        power /= 10
    while power * 10 <= number:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= number)


def _clip(of: Expression, low: Fraction, high: Fraction, present: bool) -> Expression:
    """Return an expression within these ends, missing where it is: LEAST and GREATEST pass over that."""
    clipped = FunctionCall("least", (FunctionCall("greatest", (of, Literal(low))), Literal(high)))
    return clipped if present else Case(((Negation(IsNull(of)), clipped),))


def _write(end: Fraction) -> str:
    """Return a number as SQL has it."""
    return str(end.numerator) if end.denominator == 1 else format_typed(float(end), 15)


def _show(number: float) -> str:
    return (
        format_number(number, 6).replace("-", "−")
        if abs(number) < 10**6
        else format_decimal(number, 0).replace("-", "−")
    )
