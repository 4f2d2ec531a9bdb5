"""The sums that an aggregate is computed from, each with the most that one row adds to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.columns import STEPS
from sfumato.curator.catalog.domains import Numbers, is_countable
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    add_integer,
    multiply_by_integer,
    require_number,
    round_to_grid,
)
from sfumato.curator.lower.reals import GRID, coarsen_real
from sfumato.curator.question import relation as asked
from sfumato.curator.question.measurement import (
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)
from sfumato.engines import program as engine
from sfumato.engines.values import Add, Choose, Constant, Double, Lookup, Missing, Multiply, Value, Whole
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked, require_field
from sfumato.privacy.canonical import canonical_json, tagged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.question.relation import Expression

FINEST = 28
"""A sum whose rows reach further than 2^FINEST steps is taken on a coarser grid, to keep integers small.

Privacy does not depend on it: bounds follow the grid."""
_KEPT = 30
"""The bits of that grid, and of that of sums of rounded numbers, for all rows of a unit together."""


@tagged("Summand", "term", "bound", "step", "centre", "slack", "signed")
@dataclass(frozen=True, slots=True)
@checked
class Summand:
    """A term to sum: a row adds at most `bound` steps of size `step`, measured from `centre` steps."""

    term: engine.Term
    bound: int
    step: Fraction
    centre: int = 0
    slack: Fraction = Fraction(0)
    """Number of steps that a row may lie above or below what it adds, where it was rounded."""
    signed: bool = False
    """Whether a row can add less than nothing."""

    def __post_init__(self) -> None:
        require_field(self.bound >= 0, self, "bound", "0 or more")
        require_field(self.step > 0, self, "step", "above 0")
        require_field(self.slack >= 0, self, "slack", "0 or more")


ROWS = Summand(engine.Counted(), 1, Fraction(1))


def order_summands(summands: Iterable[Summand]) -> tuple[Summand, ...]:
    """Return sums in the order of their canonical form, so that equal questions are equal."""
    found = tuple(summands)
    if len(found) < 2:
        return found  # forms take time to write
    return tuple(sorted(found, key=lambda each: (canonical_json(each.term), canonical_json(each))))


def is_sum_over_rows(summand: Summand) -> bool:
    """Return whether every row adds to it by itself, as numbers of different units or values do not."""
    return not isinstance(summand.term, engine.CountedUnits | engine.CountedValues)


def list_summands(aggregate: SummedAggregate, source: RowSource) -> tuple[Summand, ...]:
    """Return the sums that an aggregate needs; the number of rows comes last."""
    match aggregate:
        case CountOf(None):
            return (ROWS,)
        case CountOf(of) if of is not None:
            return (_present(lower_expression(of, source.scope)),)
        case DistinctUnits(of):
            return (_distinct(of, source),)
        case SumOf(of):
            return (_total(_taken(of, source, "The argument of SUM"), source.max_rows),)
        case MeanOf(of):
            part = _taken(of, source, "The argument of AVG")
            return (_deviations(part, source.max_rows), _present(part))
        case VarianceOf(of):
            part = _taken(of, source, "The argument of VARIANCE")
            deviation = _deviations(part, source.max_rows)
            return (_product(deviation, deviation), deviation, _present(part))
        case CovarianceOf():
            return _covariance(aggregate, source)
    raise AssertionError(aggregate)


def noise_weights(aggregate: SummedAggregate, sums: int) -> list[Fraction]:
    """Return what the noise of each sum of an aggregate does to it, squared.

    Deviations are measured from the middle of the bounds. How many rows there are matters to an average as
    far as it lies from there: squared, a third of the range on the average over all places.
    """
    rows = Fraction(1, 3) if isinstance(aggregate, MeanOf | VarianceOf | CovarianceOf) else Fraction(1)
    return [*[Fraction(1)] * (sums - 1), rows]


def _taken(of: Expression, source: RowSource, what: str) -> LoweredValue:
    """Return the number that is aggregated, or refuse one that is always NULL."""
    part = require_number(lower_expression(of, source.scope), what)[0]
    if part is MISSING:
        raise PolicyError("SF-Q134", f"{what} is always NULL.", try_="a column")
    return part


def _distinct(of: Expression, source: RowSource) -> Summand:
    """Return the number of different units, or of different values: a row adds at most one to either."""
    if not isinstance(of, asked.Name) or not source.scope.is_unit(of):
        part = lower_expression(of, source.scope)
        if part is MISSING:
            raise PolicyError("SF-Q134", "The argument of COUNT is always NULL.", try_="a column")
        size = part.domain.size if is_countable(part.domain) else None
        return Summand(engine.CountedValues(part.value, size), 1, Fraction(1))
    # Where a unit has one row, units are rows: both questions are then the same request.
    return ROWS if source.max_rows == 1 else Summand(engine.CountedUnits(), 1, Fraction(1))


def _present(part: LoweredValue) -> Summand:
    """Return the count of values; where nothing can be missing it is the count of rows."""
    return ROWS if part.present else Summand(engine.Present(_source_of(part.value)), 1, Fraction(1))


def _source_of(value: Any) -> Any:
    """Return a simpler value that is missing in exactly the same rows."""
    match value:
        case Add(inner, Constant(int())) | Multiply(inner, Constant(int())) | Whole(inner) | Double(inner):
            return _source_of(inner)
        case Lookup(inner, entries) if None not in entries:
            return _source_of(inner)
    return value


def _total(part: LoweredValue, rows: int) -> Summand:
    """Return the plain sum of a number, of which a unit has so many rows at most."""
    kept = _coarse(part, rows)
    grid = _grid(kept)
    return Summand(
        engine.Total(_value(kept)), max(1, grid.bound), grid.step, slack=_slack(kept), signed=grid.low < 0
    )


def _deviations(part: LoweredValue, rows: int) -> Summand:
    """Return the sum of deviations from the middle of the bounds, in half steps if need be.

    From there one row adds least, which is half the sensitivity of the plain sum.
    """
    kept = _coarse(part, rows)
    grid, value = _grid(kept), _value(kept)
    if (grid.low + grid.high) % 2:
        kept = kept.with_value(
            multiply_by_integer(value, 2), Numbers(2 * grid.low, 2 * grid.high, grid.step / 2)
        )
        grid, value = _grid(kept), _value(kept)
    centre = (grid.low + grid.high) // 2
    bound = max(1, grid.high - centre)
    term = engine.Total(add_integer(value, -centre))
    return Summand(term, bound, grid.step, centre, _slack(kept), signed=True)


def _product(one: Summand, other: Summand) -> Summand:
    """Return the sum of products of two deviations, rounded to a grid of at most 2^STEPS steps."""
    bound = one.bound * other.bound
    shift = max(0, bound.bit_length() - STEPS)
    # Squares are not negative, which limits what replacing a unit can change.
    square = one == other
    domain = Numbers(0 if square else -bound, bound, one.step * other.step)
    value = _multiplied(_of(one), _of(other))
    part = round_to_grid(LoweredValue(value, domain), domain, shift)
    # What the factors may be off moves the mean product, and as much again the product of the means.
    moved = 2 * (one.slack * other.bound + other.slack * one.bound + one.slack * other.slack)
    return Summand(
        engine.Total(_value(part)),
        max(1, _grid(part).bound),
        _grid(part).step,
        slack=Fraction(moved, 2**shift) + (Fraction(1, 2) if shift else 0),
        signed=not square,
    )


def _multiplied(one: Value, other: Value) -> Value:
    """Return the product; the square of a listed number is listed too, which engines compute faster."""
    if isinstance(one, Lookup) and one == other:
        return replace(one, entries=tuple(None if each is None else each**2 for each in one.entries))
    return Multiply(one, other)


def _covariance(aggregate: CovarianceOf, source: RowSource) -> tuple[Summand, ...]:
    """Return products, both deviations, for a correlation both squares, and rows.

    All of them are over the rows where neither number is missing.
    """
    parts = [_taken(of, source, "An argument of a covariance") for of in (aggregate.of, aggregate.other)]
    present = [_where_present(a, b) for a, b in (parts, reversed(parts))]
    one, other = (_deviations(part, source.max_rows) for part in present)
    squares = (_product(one, one), _product(other, other)) if aggregate.scaled else ()
    # A sum is missing where one of its parts is, so it stands for "neither is missing".
    values = list(dict.fromkeys(_source_of(part.value) for part in parts if not part.present))
    both = (
        LoweredValue(values[0] if len(values) == 1 else Add(*values), Numbers(0, 0)) if values else parts[0]
    )
    return (_product(one, other), one, other, *squares, _present(both))


def _where_present(part: LoweredValue, other: LoweredValue) -> LoweredValue:
    if other.present or part == other:
        return part
    absent = Missing(_source_of(other.value))
    value = Choose(absent, Constant(None), _value(part))
    return replace(part.with_value(value), present=False)


def _coarse(part: LoweredValue, rows: int) -> LoweredValue:
    """Return a number on a grid on which noise that hides so many rows has a scale that can be drawn."""
    kept = max(STEPS, _KEPT - (rows - 1).bit_length())
    if part.real is not None:
        return coarsen_real(part, part.real, min(kept, GRID))
    domain = _grid(part)
    bits = domain.bound.bit_length()
    return round_to_grid(part, domain, bits - kept) if part.error or bits > FINEST else part


def _slack(part: LoweredValue) -> Fraction:
    """Return the error of a number in its steps, to a thousandth of one upwards."""
    return Fraction(math.ceil(Fraction(part.error) / _grid(part).step * 1024), 1024)


def _grid(part: LoweredValue) -> Numbers:
    if not isinstance(part.domain, Numbers):
        raise AssertionError(part)
    return part.domain


def _value(part: LoweredValue) -> Value:
    return part.value


def _of(summand: Summand) -> Value:
    if not isinstance(summand.term, engine.Total):
        raise AssertionError(summand)
    return summand.term.value
