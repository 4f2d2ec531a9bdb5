"""Public candidates for bounds: few, and further apart the larger they are. Nothing here reads a row."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import STEPS, NumberColumn, choose_exponent
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.catalog.columns import UnboundedColumn
    from sfumato.privacy.bound_choice import BoundChoice

MOST_ROWS = Fraction(10_000)
LARGEST_VALUE = Fraction(10**6)
"""Largest candidates where none is named. Privacy does not depend on them."""
_DECADES = 6
"""Powers of ten that the candidates of a column span."""
_FINER = 4
"""Binary digits by which values are kept finer than the smallest candidate while a bound is chosen."""


def list_counts(most: int) -> tuple[int, ...]:
    """Return candidates for a number of rows or groups, ascending: 1, 2, 3, 5, 8, 13, … and the largest."""
    return (*takewhile(lambda rows: rows < most, _count_in_fibonacci()), most)


def list_sizes(most: Fraction, least: Fraction) -> tuple[Fraction, ...]:
    """Return candidates for a size, ascending: 1, 2, 5, 10, 20, … from `least` on, and the largest."""
    return (*(size for size in _count_in_decades(most) if least <= size < most), most)


def list_row_candidates(choice: BoundChoice) -> tuple[int, ...]:
    """Return the candidates for `max_rows`, ascending: 1, 2, 3, 5, 8, 13, … up to the largest allowed."""
    most = math.floor(choice.up_to or MOST_ROWS)
    if most < 2 or most > LARGEST_VALUE:
        raise UsageError(
            "SF-N101",
            "up_to must be from 2 to a million for rows of a unit.",
            got=format_number(choice.up_to or MOST_ROWS),
            try_="sf.choose(epsilon=0.05, up_to=1000)",
        )
    return list_counts(most)


def list_value_candidates(column: UnboundedColumn) -> tuple[Fraction, ...]:
    """Return the candidates for the bounds of a column: zero and 1, 2, 5, 10, 20, … with both signs."""
    most = column.choice.up_to or LARGEST_VALUE
    step = Fraction(0) if column.step is None else parse_positive(column.step, "step")
    least = max(most / 10**_DECADES, step)
    above = tuple(size for size in list_sizes(most, least) if size == most or _fits(size, step))
    try:
        column.bounded_by(-most, most)
        column.bounded_by(Fraction(0), above[0])
    except UsageError as problem:
        raise UsageError(
            "SF-N101", "up_to does not suit the step of this column.", why=problem.sentence, try_="up_to=1000"
        ) from None
    return (*(-size for size in reversed(above)), Fraction(0), *above)


def widen_column(column: UnboundedColumn) -> NumberColumn:
    """Return the column with all values that a candidate can be: what is kept while its bounds are chosen."""
    ends = list_value_candidates(column)
    finest = min(size for size in ends if size > 0)
    exponent = choose_exponent(finest) + STEPS - _FINER
    return NumberColumn(ends[0], ends[-1], Fraction(2) ** exponent, False, None, column.constant)


def _count_in_fibonacci() -> Iterator[int]:
    one, other = 1, 2
    while True:
        yield one
        one, other = other, one + other


def _count_in_decades(most: Fraction) -> Iterator[Fraction]:
    """Yield 1, 2, 5 times the powers of ten below a number, ascending, from far below it on."""
    top = math.floor(math.log10(most)) + 1
    for power in range(top - _DECADES - 2, top + 1):
        yield from (digit * Fraction(10) ** power for digit in (1, 2, 5))


def _fits(size: Fraction, step: Fraction) -> bool:
    return not step or size % step == 0
