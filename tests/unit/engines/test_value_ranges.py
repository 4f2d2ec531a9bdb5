"""No row makes a value leave its range, on which the reach of sums and 64-bit arithmetic rest."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator

import pytest

from sfumato.engines.value_ranges import NARROW, ValueRanges, value_range
from sfumato.engines.values import (
    WIDEST,
    Add,
    AtLeast,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Greatest,
    Least,
    Lookup,
    Missing,
    Multiply,
    UnitBlock,
    Value,
)

A, B = Column(0, "a"), Column(0, "b")
RANGES = {A: (-5, 9), B: (0, 2**20)}
BOTH: dict[type, Callable[[int, int], int]] = {
    Add: operator.add,
    Multiply: operator.mul,
    Least: min,
    Greatest: max,
}


def composed(rng: random.Random, depth: int) -> Value:
    """A random value; parts are now and then shared, as in squares."""
    if depth == 0:
        leaves = [A, B, Constant(rng.randrange(-(2**30), 2**30)), Constant(None)]
        entries = tuple(rng.choice([None, rng.randrange(-99, 99)]) for _ in range(12))
        return rng.choice([*leaves, Lookup(A, entries)])
    left = composed(rng, depth - 1)
    right = left if rng.random() < 0.2 else composed(rng, depth - 1)
    match rng.randrange(4):
        case 0:
            return Divide(left, Constant(rng.randrange(1, 50)))
        case 1:
            return Choose(AtLeast(A, 2), left, right)
        case 2:
            return Either(left, right)
    kind = rng.choice(list(BOTH))
    if kind in (Least, Greatest) and rng.random() < 0.5:
        return kind(left, right, skips=True)
    return kind(left, right)


def evaluated(value: Value, row: dict[Column, int | None], seen: list[int]) -> int | None:
    """The value of one row; every integer on the way is noted, but for places in lookup tables."""
    found: int | None
    match value:
        case Column():
            found = row[value]
        case Constant(number):
            found = number
        case Lookup(part, entries):
            place = evaluated(part, row, [])
            found = entries[place] if place is not None and 0 <= place < len(entries) else None
        case Choose(AtLeast(part, bound), one, other):
            ends = [evaluated(each, row, seen) for each in (one, other)]
            tested = evaluated(part, row, [])
            found = ends[0] if tested is not None and tested >= bound else ends[1]
        case Either(one, other):
            ends = [evaluated(each, row, seen) for each in (one, other)]
            found = ends[1] if ends[0] is None else ends[0]
        case Divide(left, Constant(int(number))):
            part_ = evaluated(left, row, seen)
            found = None if part_ is None else _divided(part_, number)
        case Least(left, right, True) | Greatest(left, right, True):
            sides = [evaluated(left, row, seen), evaluated(right, row, seen)]
            known = [each for each in sides if each is not None]
            found = (min if isinstance(value, Least) else max)(known, default=None)
        case Add(left, right) | Multiply(left, right) | Least(left, right) | Greatest(left, right):
            one_, other_ = evaluated(left, row, seen), evaluated(right, row, seen)
            found = None if one_ is None or other_ is None else BOTH[type(value)](one_, other_)
        case _:
            raise TypeError(value)
    seen += [] if found is None else [found]
    return found


def _divided(number: int, by: int) -> int:
    return abs(number) // by * (1 if number >= 0 else -1)


def rows() -> Iterator[dict[Column, int | None]]:
    for a in (None, -5, -1, 0, 2, 9):
        for b in (None, 0, 1, 3, 2**20):
            yield {A: a, B: b}


def test_no_row_leaves_the_range() -> None:
    rng = random.Random(3)
    narrow = 0
    for _ in range(2000):
        value = composed(rng, rng.randrange(5))
        low, high = value_range(value, RANGES)
        fits = ValueRanges(RANGES).is_narrow(value)
        narrow += fits
        for row in rows():
            seen: list[int] = []
            found = evaluated(value, row, seen)
            assert found is None or low <= found <= high
            assert not fits or all(abs(each) < NARROW for each in seen)
    assert 500 < narrow < 2000


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Add(A, Constant(-5)), (-10, 4)),
        (Multiply(A, A), (0, 81)),
        (Multiply(A, Column(0, "a")), (-45, 81)),
        (Divide(A, Constant(2)), (-2, 4)),
        (Divide(A, B), (-9, 9)),
        (Least(A, B), (-5, 9)),
        (Greatest(A, B), (0, 2**20)),
        (Least(A, B, skips=True), (-5, 2**20)),
        (Greatest(A, B, skips=True), (-5, 2**20)),
        (Least(A, Constant(3), skips=True), (-5, 3)),
        (Greatest(Least(A, Constant(3), skips=True), B, skips=True), (-5, 2**20)),
        (Lookup(A, (None, 3, -2)), (-2, 3)),
        (Lookup(A, (None,)), (0, 0)),
        (UnitBlock(0, 8), (0, 8)),
        (Calendar(A, "year"), (-(2**32), 2**32)),
    ],
)
def test_ranges(value: Value, found: tuple[int, int]) -> None:
    assert value_range(value, RANGES) == found


def test_a_column_of_no_known_range_is_refused_or_taken_to_be_wide() -> None:
    unknown = Column(1, "a")
    with pytest.raises(KeyError):
        value_range(Add(unknown, A), RANGES)
    ranges = ValueRanges(RANGES, unknown=(-WIDEST, WIDEST))
    assert ranges.find(unknown) == (-WIDEST, WIDEST)
    assert not ranges.is_narrow(Divide(unknown, Constant(WIDEST)))
    assert ranges.is_narrow(A)
    assert not ValueRanges({}).is_narrow(Constant(1))


def test_factors_may_be_multiplied_in_any_order() -> None:
    """Spark multiplies constants first, and leaves out choices that it sees are none."""
    ranges = ValueRanges({B: (0, 2**40)})
    nothing = Multiply(B, Constant(0))
    chosen = Choose(Missing(B), Constant(None), nothing)
    assert ranges.is_narrow(nothing)
    for each in (nothing, chosen, Either(nothing, Constant(3))):
        assert not ranges.is_narrow(Multiply(each, each))
    halved = Divide(Multiply(B, Constant(2**20)), Constant(2**40))
    assert ranges.is_narrow(Multiply(halved, halved))


def test_addends_may_be_added_in_any_order() -> None:
    ranges = ValueRanges({B: (2**61, 2**61 + 5)})
    small = Add(B, Constant(-(2**61) + 7))
    assert ranges.find(Add(small, small)) == (14, 24)
    assert not ranges.is_narrow(Add(small, small))
