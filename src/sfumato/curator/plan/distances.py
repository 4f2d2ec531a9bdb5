"""How few units must change until a property holds: a number that one unit moves by one at most.

To change is to add a unit with any rows it may have, or to remove one. That the distance to any set of tables
moves by at most one when one unit is added or removed is the triangle inequality. Why each formula here is
that distance is in docs/proofs/distances.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.domains import Listed
from sfumato.curator.lower.expressions import lower_condition, lower_expression
from sfumato.curator.lower.lowered_value import require_number
from sfumato.curator.lower.simplify import simplify_predicate
from sfumato.curator.plan.caveats import describe_truncation
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.question.relation import Case, Comparison, Expression, Literal
from sfumato.engines.program import CellKey, CellSums, Counted, CountedUnits, Total, UnitFigures
from sfumato.engines.rows import Present
from sfumato.engines.values import Every
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.noise import LaplaceNoise
from sfumato.privacy.canonical import tagged
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.plan.spend import Spend
    from sfumato.engines.rows import Figure
    from sfumato.privacy.events import Event


# ---- properties, in the analyst's names --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
@checked
class CountReaches:
    """COUNT(*) ≥ least, or ≤ most."""

    bound: int
    at_least: bool


@dataclass(frozen=True, slots=True)
@checked
class SumReaches:
    """SUM(of) ≥ bound, or ≤ bound."""

    of: Expression
    bound: Fraction
    at_least: bool


@dataclass(frozen=True, slots=True)
@checked
class ShareReaches:
    """The share of rows for which `of` is true is ≥ bound, or ≤ bound. Of no rows it is both."""

    of: Expression
    bound: Fraction
    at_least: bool


@dataclass(frozen=True, slots=True)
@checked
class QuantileBelow:
    """At least this share of the rows where `of` is not missing has it ≤ bound (or ≥ bound)."""

    of: Expression
    share: Fraction
    bound: Fraction
    below: bool


@dataclass(frozen=True, slots=True)
@checked
class ModeIs:
    """No listed value is more frequent than this one."""

    of: Expression
    value: Any


@dataclass(frozen=True, slots=True)
@checked
class Unique:
    """Exactly one unit has a row with this value."""

    of: Expression
    value: Any


Property = CountReaches | SumReaches | ShareReaches | QuantileBelow | ModeIs | Unique


# ---- what is computed once it is paid ----------------------------------------------------------------------


@tagged("Linear", "weights", "goal", "gain")
@dataclass(frozen=True, slots=True)
@checked
class Linear:
    """The property that Σ over units of a score is at least `goal`.

    A unit that is added adds at most `gain`; removing one takes its own score away. `weights` make a unit's
    score out of its figures.
    """

    weights: tuple[int, ...]
    goal: int
    gain: int

    def __post_init__(self) -> None:
        require_field(self.gain >= 0, self, "gain", "0 or more")

    def distance(self, exact: NDArray[Any]) -> int:
        """Return the fewest units that must change."""
        # Python integers: weights times figures may not fit into 64 bits.
        scores = sum(
            weight * figure.astype(object) for weight, figure in zip(self.weights, exact, strict=True)
        )
        scores = np.asarray(scores, dtype=object).reshape(-1)
        short = self.goal - int(scores.sum()) if scores.size else self.goal
        # Removing the units with the most negative scores first is the cheapest way up.
        taken = sorted((-int(score) for score in scores if score < 0), reverse=True)
        return _fewest(short, taken, self.gain)


def _fewest(short: int, taken: list[int], gain: int) -> int:
    """Return how many changes close the gap: removals worth more than an added unit first, then additions."""
    changes = 0
    for worth in taken:
        if short <= 0 or worth <= gain:
            break
        short, changes = short - worth, changes + 1
    if short <= 0:
        return changes
    if gain > 0:
        return changes + math.ceil(Fraction(short, gain))
    return changes + 1  # out of reach; priced as one more than removing everyone


@tagged("Mode", "place", "rows")
@dataclass(frozen=True, slots=True)
@checked
class Mode:
    """The property that no cell has more rows than one of them. An added unit can put `rows` rows there."""

    place: int
    rows: int

    def __post_init__(self) -> None:
        require_field(self.place >= 0, self, "place", "0 or more")
        require_positive(self, "rows")

    def distance(self, exact: NDArray[Any]) -> int:
        """Return the fewest units that must change."""
        counts = exact[0]
        return math.ceil(Fraction(int(max(counts)) - int(counts[self.place]), self.rows))


@tagged("Single")
@dataclass(frozen=True, slots=True)
@checked
class Single:
    """The property that exactly one unit has a row."""

    def distance(self, exact: NDArray[Any]) -> int:
        """Return the fewest units that must change."""
        return abs(int(exact[0][0]) - 1)


@tagged("Distance", "program", "formula", "noise", "changes")
@dataclass(frozen=True, slots=True)
@checked
class Distance:
    """A distance with noise. Neighbours are one change apart, or two where a unit is replaced."""

    program: UnitFigures | CellSums
    formula: Linear | Mode | Single
    noise: LaplaceNoise
    changes: int

    def __post_init__(self) -> None:
        require_field(self.changes in (1, 2), self, "changes", "1 or 2")

    def event(self) -> Event:
        """Return what one unit's presence can cost."""
        return self.noise.event(self.changes)

    def release(self, exact: NDArray[Any]) -> int:
        """Return the distance plus noise."""
        distance = np.array([self.formula.distance(exact)], dtype=object)
        return int(self.noise.release(distance, l1=self.changes)[0])


Formula = tuple[UnitFigures | CellSums, Linear | Mode | Single]
"""What the engine computes, and how a distance follows from it."""


# ---- from a property to a step -----------------------------------------------------------------------------


def plan_distance(source: RowSource, wanted: Property, spend: Spend) -> Plan[Distance, None]:
    """Return the plan for how far a table is from having a property."""
    if not isinstance(spend, PureSpend):
        raise PolicyError("SF-N316", "A distance is released for epsilon alone.", try_="release(epsilon=0.1)")
    changes = 2 if source.table.neighbours is Neighbours.REPLACE_ONE else 1
    program, formula = _formula(source, wanted)
    step = Distance(program, formula, LaplaceNoise(changes / spend.epsilon), changes)
    return Plan(source.table, spend, (step,), None, describe_truncation(source.table), reads=source.tables)


def _formula(source: RowSource, wanted: Property) -> Formula:
    match wanted:
        case CountReaches(bound, at_least):
            return _linear(source, (Counted(),), (1,), bound, source.max_rows, at_least)
        case SumReaches(of, bound, at_least):
            return _sum(source, of, bound, at_least)
        case ShareReaches(of, bound, at_least):
            return _share(source, of, bound, at_least)
        case QuantileBelow(of, share, bound, below):
            holds = Comparison(of, "<=" if below else ">=", Literal(bound))
            met = Case(((holds, Literal(Fraction(1))),))
            return _share_of(source, Present(lower_expression(of, source.scope).value), met, share)
        case ModeIs(of, value):
            return _mode(source, of, value)
        case Unique(of, value):
            return _single(source, of, value)


def _linear(
    source: RowSource,
    figures: tuple[Figure, ...],
    weights: tuple[int, ...],
    goal: int,
    most: int,
    at_least: bool,
    least: int = 0,
) -> Formula:
    """Return the distance to a sum ≥ goal. For ≤ the signs are turned.

    `most` and `least` bound a unit's score; a unit without a row scores 0.
    """
    program = UnitFigures(source.rows, source.where, figures)
    if at_least:
        return program, Linear(weights, goal, max(most, 0))
    return program, Linear(tuple(-weight for weight in weights), -goal, max(-least, 0))


def _sum(source: RowSource, of: Expression, bound: Fraction, at_least: bool) -> Formula:
    part, domain = require_number(lower_expression(of, source.scope), "The argument of SUM")
    # On the grid a sum is at least the bound exactly where it is at least the next grid point.
    goal = math.ceil(bound / domain.step) if at_least else math.floor(bound / domain.step)
    most, least = max(domain.high, 0) * source.max_rows, min(domain.low, 0) * source.max_rows
    total = Total(part.value)
    return _linear(source, (total,), (1,), goal, most, at_least, least)


def _share(source: RowSource, of: Expression, bound: Fraction, at_least: bool) -> Formula:
    met = Case(((Comparison(of, "=", Literal(True)), Literal(Fraction(1))),))
    counted = Present(lower_expression(of, source.scope).value)
    if at_least:
        return _share_of(source, counted, met, bound)
    missed = Case(((Comparison(of, "=", Literal(False)), Literal(Fraction(1))),))
    return _share_of(source, counted, missed, 1 - bound)


def _share_of(source: RowSource, counted: Figure, met: Case, share: Fraction) -> Formula:
    """Return the distance to denominator · (rows that meet it) − numerator · rows ≥ 0."""
    if not 0 <= share <= 1:
        raise PolicyError("SF-Q105", "A share lies between 0 and 1.", try_="AVG(age >= 65) >= 0.3")
    figures = (Present(lower_expression(met, source.scope).value), counted)
    weights = (share.denominator, -share.numerator)
    most = (share.denominator - share.numerator) * source.max_rows
    return _linear(source, figures, weights, 0, most, True)


def _mode(source: RowSource, of: Expression, value: Any) -> Formula:
    part = lower_expression(of, source.scope)
    if not isinstance(part.domain, Listed) or value not in part.domain.values:
        raise PolicyError("SF-Q112", "The mode is one of a column's listed values.", try_="MODE(ward) = 'A'")
    key = CellKey(part.value, part.domain.size)
    program = CellSums(source.rows, source.where, (key,), (Counted(),))
    return program, Mode(part.domain.values.index(value), source.max_rows)


def _single(source: RowSource, of: Expression, value: Any) -> Formula:
    holds = lower_condition(Comparison(of, "=", Literal(value)), source.scope)
    where = simplify_predicate(Every((source.where, holds)))
    return CellSums(source.rows, where, (), (CountedUnits(),)), Single()
