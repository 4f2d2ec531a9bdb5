"""The columns behind the sums of a question: which rows have a value, and between which ends it lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.plan.summands import ROWS, Summand, is_sum_over_rows, list_summands, order_summands
from sfumato.curator.question.measurement import (
    CovarianceOf,
    MeanOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)
from sfumato.engines.program import Counted, Present, Total
from sfumato.engines.values import Add, Constant, Lookup, Multiply
from sfumato.errors.checked import checked
from sfumato.noise.bodies.shaped import MOST_SUMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.lower.row_source import RowSource


@dataclass(frozen=True, slots=True)
@checked
class SummedColumn:
    """A sum that, with `shift` for each row counted by `rows`, lies between 0 and its span in every row."""

    summand: Summand
    shift: int
    width: int
    rows: Summand
    divisor: int = 1
    """What divides the shifted number in every row."""

    @property
    def span(self) -> int:
        """The greatest shifted number of a row."""
        return self.width * self.divisor


@dataclass(frozen=True, slots=True)
@checked
class DerivedTotal:
    """A total that follows from deviations: `times` their sum, and `centre` for each row that is counted."""

    times: Fraction
    deviations: Summand
    centre: Fraction
    rows: Summand


@dataclass(frozen=True, slots=True)
class GroupedColumns:
    """The columns of a question by the sum that counts their rows, all in canonical order.

    A row that is counted has a value in each of its columns. Rows counted by `ROWS` are all.
    """

    groups: Mapping[Summand, Sequence[SummedColumn]]
    derived: Mapping[Summand, DerivedTotal]
    asked: Sequence[Summand]
    """The sums over rows that the question needs."""


def find_columns(
    summands_of: Mapping[SummedAggregate, tuple[Summand, ...]], source: RowSource
) -> GroupedColumns | None:
    """Return the columns of the sums over rows that a question needs; None where these are one or too many.

    Numbers of different units or values are no sums over rows.
    """
    every = {each for parts in summands_of.values() for each in parts}
    asked = order_summands(each for each in every if is_sum_over_rows(each))
    if not 2 <= len(asked) <= MOST_SUMS:
        return None
    found = _Finder(source, asked)
    for aggregate, parts in summands_of.items():
        found.add(aggregate, parts)
    return found.group()


class _Finder:
    """Collects the columns of a question."""

    def __init__(self, source: RowSource, asked: Sequence[Summand]) -> None:
        self._source, self._asked = source, asked
        self._columns: dict[Summand, SummedColumn] = {}
        self._totals: dict[Summand, SumOf] = {}
        self._counts = {each for each in asked if isinstance(each.term, Counted | Present)}

    def add(self, aggregate: SummedAggregate, parts: tuple[Summand, ...]) -> None:
        match aggregate:
            case SumOf():
                self._totals[parts[0]] = aggregate
            case MeanOf(of):
                self._add_deviations(of, parts[0], parts[1])
            case VarianceOf(of):
                self._add_deviations(of, parts[1], parts[2])
                self._add_product(parts[0], parts[2])
            case CovarianceOf():
                self._add_deviations(aggregate.of, parts[1], parts[-1])
                self._add_deviations(aggregate.other, parts[2], parts[-1])
                for each in (parts[0], *parts[3:-1]):
                    self._add_product(each, parts[-1])

    def _add_deviations(self, of: object, deviations: Summand, rows: Summand) -> None:
        # Deviations in half steps are odd in every row, and so is their bound: both together are even.
        (total,) = list_summands(SumOf(of), self._source)  # type: ignore[arg-type]
        # Beside another number the grid may be another one, so their form must say that they are odd, too.
        halves = 2 if total.step == 2 * deviations.step and _is_odd(deviations) else 1
        width = 2 * deviations.bound // halves
        self._columns[deviations] = SummedColumn(deviations, deviations.bound, width, rows, halves)

    def _add_product(self, product: Summand, rows: Summand) -> None:
        shift = product.bound if product.signed else 0
        self._columns[product] = SummedColumn(product, shift, product.bound + shift, rows)

    def group(self) -> GroupedColumns:
        """Return all columns by the sum that counts their rows."""
        derived: dict[Summand, DerivedTotal] = {}
        for total, aggregate in self._totals.items():
            self._add_total(total, aggregate, derived)
        # In canonical order: a kept answer is read by whoever asks for the same sums, in any order.
        counts = {*self._counts, *(each.rows for each in self._columns.values())}
        groups: dict[Summand, list[SummedColumn]] = {each: [] for each in order_summands(counts)}
        for summand in order_summands(self._columns):
            groups[self._columns[summand].rows].append(self._columns[summand])
        return GroupedColumns(groups, derived, self._asked)

    def _add_total(self, total: Summand, aggregate: SumOf, derived: dict[Summand, DerivedTotal]) -> None:
        deviations, rows = list_summands(MeanOf(aggregate.of), self._source)
        halves = int(total.step / deviations.step)
        centre = Fraction(deviations.centre, halves)
        if deviations in self._columns:
            # Between bounds that are symmetric about 0 both are one sum.
            if total != deviations:
                derived[total] = DerivedTotal(Fraction(1, halves), deviations, centre, rows)
            return
        low = math.floor(Fraction(deviations.centre - deviations.bound, halves))
        high = math.ceil(Fraction(deviations.centre + deviations.bound, halves))
        if rows not in self._counts:
            # A missing number adds nothing, as 0 does.
            low, high, rows = min(low, 0), max(high, 0), ROWS
        self._columns[total] = SummedColumn(total, -low, high - low, rows)


def _is_odd(deviations: Summand) -> bool:
    """Return whether a sum adds up odd integers within an odd bound, as its form shows."""
    value = deviations.term.value if isinstance(deviations.term, Total) else None
    match value:
        case Add(Multiply(_, Constant(2)), Constant(int(number))):
            odd = number % 2 == 1
        case Lookup(_, entries):
            odd = all(each is None or each % 2 == 1 for each in entries)
        case _:
            odd = False
    return odd and deviations.bound % 2 == 1
