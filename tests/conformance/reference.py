"""A plain reading of what an engine is asked, row by row in Python, written from the stated meanings.

The statements are those of `engines/values.py`, `rows.py` and `program.py`. Nothing here is fast.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sfumato.engines import program as asked
from sfumato.engines.rows import (
    MOST_COUNTED,
    Bounded,
    Counted,
    Joined,
    Largest,
    Ordered,
    PerUnit,
    Present,
    Rows,
    Scan,
    Smallest,
    Total,
    UnitSizes,
)
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Double,
    Either,
    Every,
    Folded,
    Greatest,
    Least,
    Length,
    Less,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Power,
    Quotient,
    RealConstant,
    RealFunction,
    Same,
    Some,
    Spelled,
    Whole,
)


@dataclass(frozen=True, slots=True)
class Row:
    """Whose it is, its place in the keyed order of its unit, and its columns by source and name."""

    unit: str
    place: int
    columns: dict[tuple[int, str], Any]


Snapshots = Callable[[str], tuple[list[str], list[int], list[dict[str, Any]]]]
Numbers = Callable[[str], list[tuple[str, int]]]
Reading = Callable[[dict[tuple[int, str], Any]], Any]


# ---- values ------------------------------------------------------------------------------------------------


def _of_all(compute: Callable[..., Any], *parts: Any) -> Reading:
    """Missing where a part is."""
    readings = [value(part) for part in parts]

    def read(row: dict[tuple[int, str], Any]) -> Any:
        found = [reading(row) for reading in readings]
        return None if None in found else compute(*found)

    return read


def value(part: Any) -> Reading:
    match part:
        case Column(at, name):
            return lambda row: row[at, name]
        case Constant(number):
            return lambda row: number
        case Either(first, second):
            one, other = value(first), value(second)
            return lambda row: other(row) if one(row) is None else one(row)
        case Choose(when, then, otherwise):
            holds, yes, no = condition(when), value(then), value(otherwise)
            return lambda row: yes(row) if holds(row) is True else no(row)
        case Least(left, right, True) | Greatest(left, right, True):
            one, other, choose = value(left), value(right), _OF_TWO[type(part)]
            return lambda row: _of_present(choose, one(row), other(row))
        case Add() | Multiply() | Divide() | Quotient() | Least() | Greatest():
            return _of_all(_OF_TWO[type(part)], part.left, part.right)
        case _:
            return _of_one(part)


_OF_TWO: dict[Any, Callable[[int, int], int | None]] = {
    Add: lambda a, b: a + b,
    Multiply: lambda a, b: a * b,
    Divide: lambda a, b: int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)) if b else None,
    Quotient: lambda a, b: a / b if b else None,
    Least: min,
    Greatest: max,
}


def _of_present(choose: Any, one: int | None, other: int | None) -> Any:
    return other if one is None else one if other is None else choose(one, other)


def _of_one(part: Any) -> Reading:
    match part:
        case Lookup(of, entries):
            return _of_all(lambda place: entries[place] if 0 <= place < len(entries) else None, of)
        case Calendar(days, name):
            return _of_all(lambda number: _field(date(1970, 1, 1) + timedelta(days=number), name), days)
        case RealConstant(digits):
            return lambda row: float(digits)
        case Double(of):
            return _of_all(float, of)
        case RealFunction(name, of):
            return _of_all(lambda number: _curve(name, number), of)
        case Power(base, RealConstant(digits)):
            return _of_all(lambda number: _power(number, float(digits)), base)
        case Whole():
            return _of_all(lambda number: _whole(part, number), part.part)
        case Length(text):
            return _of_all(len, text)
        case Folded(text, upper):
            return _of_all(lambda word: _fold(word, upper), text)
    raise TypeError(part)


def _curve(name: str, number: float) -> float | None:
    if (number < 0 and name == "sqrt") or (number <= 0 and name in ("ln", "log2", "log10")):
        return None
    if name == "round":
        return math.copysign(math.floor(abs(number) + 0.5), number)
    return float(_CURVES[name](number))


_CURVES: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "abs": abs,
    "floor": math.floor,
    "trunc": math.trunc,
}


def _power(number: float, exponent: float) -> float | None:
    return None if number < 0 or (number == 0 and exponent < 0) else number**exponent


def _whole(part: Whole, number: float) -> int | None:
    number *= 2.0**-part.exponent
    match part.rule:
        case "even":
            found = round(number)
        case "away":
            found = int(math.copysign(math.floor(abs(number) + 0.5), number))
        case "floor":
            found = math.floor(number)
        case _:
            found = math.trunc(number)
    return found if not part.checked or part.low <= found <= part.high else None


def _field(day: date, name: str) -> int:
    return day.isoweekday() if name == "weekday" else int(getattr(day, name))


def _fold(word: str, upper: bool) -> str:
    small, large = range(ord("a"), ord("z") + 1), range(ord("A"), ord("Z") + 1)
    return word.translate(dict(zip(small, large, strict=True) if upper else zip(large, small, strict=True)))


# ---- conditions --------------------------------------------------------------------------------------------


def condition(part: Any) -> Reading:
    match part:
        case Missing(of):
            reading = value(of)
            return lambda row: reading(row) is None
        case Not(of):
            return _negated(condition(of))
        case Every(parts):
            return _all([condition(each) for each in parts])
        case Some(parts):
            return _negated(_all([_negated(condition(each)) for each in parts]))
        case Less(left, right):
            return _of_all(lambda a, b: a < b, left, right)
        case Same(left, right):
            return _of_all(lambda a, b: a == b, left, right)
        case _:
            return _test(part)


def _test(part: Any) -> Reading:
    match part:
        case AtLeast(of, bound):
            return _of_all(lambda number: number >= bound, of)
        case AtMost(of, bound):
            return _of_all(lambda number: number <= bound, of)
        case Among(of, values):
            return _of_all(lambda number: number in values, of)
        case Spelled(text, words):
            return _of_all(lambda word: word in words, text)
        case Matches(text, pattern):
            expression = re.compile(_pattern(pattern), re.DOTALL)
            return _of_all(lambda word: expression.fullmatch(word) is not None, text)
    raise TypeError(part)


def _negated(holds: Reading) -> Reading:
    return lambda row: None if (found := holds(row)) is None else not found


def _all(parts: list[Reading]) -> Reading:
    def read(row: dict[tuple[int, str], Any]) -> bool | None:
        found = [part(row) for part in parts]
        return False if False in found else None if None in found else True

    return read


def _pattern(pattern: str) -> str:
    made, letters = "", iter(pattern)
    for letter in letters:
        made += {"%": ".*", "_": "."}.get(letter) or re.escape(next(letters) if letter == "\\" else letter)
    return made


# ---- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """Answers programs from the rows of snapshots."""

    snapshots: Snapshots
    sizes: Numbers

    def rows(self, rows: Rows) -> list[Row]:
        match rows:
            case Scan(snapshot, at):
                units, places, fields = self.snapshots(snapshot)
                named = [{(at, name): of for name, of in row.items()} for row in fields]
                return [Row(*each) for each in zip(units, places, named, strict=True)]
            case UnitSizes(snapshot, at):
                return [
                    Row(unit, 1, {(at, "rows"): min(rows, MOST_COUNTED)})
                    for unit, rows in self.sizes(snapshot)
                ]
            case Joined():
                return self._joined(rows)
            case PerUnit():
                return self._per_unit(rows)
            case Bounded():
                return self._bounded(rows)
            case Ordered():
                return self._ordered(rows)

    def _joined(self, rows: Joined) -> list[Row]:
        left, right = self.rows(rows.left), self.rows(rows.right)
        ours, theirs = ([value(pair[side]) for pair in rows.on] for side in (0, 1))
        partners = defaultdict(list)
        for row in right:
            key = (row.unit if rows.same_unit else None, *(read(row.columns) for read in theirs))
            if None not in key[1:]:
                partners[key].append(row.columns)
        nothing = dict.fromkeys(right[0].columns if right else self._names(rows.right))
        made = []
        for row in left:
            key = (row.unit if rows.same_unit else None, *(read(row.columns) for read in ours))
            found = [] if None in key[1:] else partners.get(key, [])
            made += [
                Row(row.unit, row.place, row.columns | other)
                for other in found or ([nothing] if rows.optional else [])
            ]
        return made

    def _names(self, rows: Rows) -> Any:
        if isinstance(rows, PerUnit):
            keys = [(rows.at, f"k{i}") for i in range(len(rows.keys))]
            return keys + [(rows.at, f"f{i}") for i in range(len(rows.figures))]
        raise AssertionError(f"no rows to learn the columns from: {rows}")

    def _per_unit(self, rows: PerUnit) -> list[Row]:
        holds, keys = condition(rows.where), [value(key) for key in rows.keys]
        groups = defaultdict(list)
        for row in self.rows(rows.rows):
            if holds(row.columns) is True:
                groups[row.unit, *(key(row.columns) for key in keys)].append(row)
        figures = [figure(each) for each in rows.figures]
        return [
            Row(
                unit,
                min(row.place for row in group),
                {(rows.at, f"k{i}"): of for i, of in enumerate(key)}
                | {(rows.at, f"f{i}"): of(group) for i, of in enumerate(figures)},
            )
            for (unit, *key), group in groups.items()
        ]

    def _ordered(self, rows: Ordered) -> list[Row]:
        holds, units = condition(rows.where), defaultdict(list)
        for row in self.rows(rows.rows):
            if holds(row.columns) is True:
                units[row.unit].append(row)
        return [made for own in units.values() for made in _in_order(own, rows)]

    def _bounded(self, rows: Bounded) -> list[Row]:
        holds, cell = condition(rows.where), [value(part) for part in rows.cell]
        kept: list[Row] = []
        cells: dict[str, Counter[Any]] = defaultdict(Counter)
        for row in sorted(self.rows(rows.rows), key=lambda row: row.place):
            if holds(row.columns) is not True:
                continue
            key, seen = tuple(part(row.columns) for part in cell), cells[row.unit]
            if (key in seen or len(seen) < rows.groups) and seen[key] < rows.rows_each:
                seen[key] += 1
                kept.append(row)
        return kept

    # ---- what is asked ----

    def run(self, program: asked.EngineProgram[Any]) -> Any:
        holds = condition(program.where)
        rows = [row for row in self.rows(program.rows) if holds(row.columns) is True]
        match program:
            case asked.CellSums():
                return _program(program, rows)
            case asked.CellHistogram():
                return _tally(program, rows)
            case asked.CellHistograms():
                return _tallies(program, rows)
            case asked.KeyedSums():
                return _keyed(program, rows)
            case asked.UnitFigures():
                groups = defaultdict(list)
                for row in rows:
                    groups[row.unit].append(row)
                return sorted([figure(each)(group) for each in program.figures] for group in groups.values())


def _in_order(own: list[Row], rows: Ordered) -> list[Row]:
    """The rows of one unit, each with its positions: missing values last, then the keyed order."""
    by = [(value(each), -1 if falls else 1) for each, falls in rows.order]

    def key(row: Row) -> tuple[Any, ...]:
        found = [(read(row.columns), sign) for read, sign in by]
        return tuple((1, 0) if number is None else (0, sign * number) for number, sign in found)

    ranked = sorted(own, key=lambda row: (*key(row), row.place))
    keys = [key(row) for row in ranked]
    different = sorted(set(keys))
    reads = [None if each.value is None else value(each.value) for each in rows.positions]

    def position(at: int, each: Any, read: Any) -> Any:
        match each.function:
            case "row_number":
                return at + 1
            case "rank":
                return keys.index(keys[at]) + 1
            case "dense_rank":
                return different.index(keys[at]) + 1
        place = {"lag": at - each.offset, "lead": at + each.offset, "first_value": 0}[each.function]
        return read(ranked[place].columns) if 0 <= place < len(ranked) else None

    return [
        Row(
            row.unit,
            row.place,
            row.columns
            | {
                (rows.at, f"v{i}"): position(at, each, read)
                for i, (each, read) in enumerate(zip(rows.positions, reads, strict=True))
            },
        )
        for at, row in enumerate(ranked)
    ]


def figure(term: Any) -> Callable[[list[Row]], Any]:
    match term:
        case Counted():
            return len
        case asked.CountedUnits():
            return lambda rows: len({row.unit for row in rows})
    read = value(term.value)

    def there(rows: list[Row]) -> list[Any]:
        return [found for row in rows if (found := read(row.columns)) is not None]

    match term:
        case Present():
            return lambda rows: len(there(rows))
        case asked.CountedValues():
            return lambda rows: len(set(there(rows)))
        case Total():
            return lambda rows: sum(there(rows))
        case Smallest():
            return lambda rows: min(there(rows), default=None)
        case Largest():
            return lambda rows: max(there(rows), default=None)
    raise TypeError(term)


def _place(key: asked.CellKey, found: int | None) -> int | None:
    """The place of a row in one key: the last where the value is missing, if that has a place."""
    if not key.nulls:
        return found
    return key.size - 1 if found is None else None if found == key.size - 1 else found


def _cells(keys: tuple[asked.CellKey, ...], rows: list[Row]) -> dict[int, list[Row]]:
    """The rows of each cell; those of no cell are left out."""
    readings, found = [value(key.value) for key in keys], defaultdict(list)
    for row in rows:
        places = [_place(key, read(row.columns)) for key, read in zip(keys, readings, strict=True)]
        if all(place is not None and 0 <= place < key.size for place, key in zip(places, keys, strict=True)):
            cell = 0
            for place, key in zip(places, keys, strict=True):
                cell = cell * key.size + place
            found[cell].append(row)
    return found


def _program(program: asked.CellSums, rows: list[Row]) -> list[list[int]]:
    cells = _cells(program.keys, rows)
    size = math.prod(key.size for key in program.keys)
    sums = [[0] * size for _ in program.terms]
    for term, dense in zip(program.terms, sums, strict=True):
        over = figure(term)
        for cell, group in cells.items():
            dense[cell] = over(group)
    return sums


def _tally(program: asked.CellHistogram, rows: list[Row]) -> list[list[int]]:
    read = value(program.value)
    counts: Counter[tuple[int, int]] = Counter()
    for cell, group in _cells(program.keys, rows).items():
        counts.update((cell, found) for row in group if (found := read(row.columns)) is not None)
    inside = sorted((*key, n) for key, n in counts.items() if 0 <= key[1] < program.size)
    return [list(row) for row in zip(*inside, strict=True)] if inside else [[], [], []]


def _tallies(program: asked.CellHistograms, rows: list[Row]) -> list[list[int]]:
    """Each value by itself; its cells stand beside those of the others."""
    found, many = [], len(program.values)
    for at, each in enumerate(program.values):
        one = _tally(asked.CellHistogram(program.rows, program.where, program.keys, each, program.size), rows)
        found += [(cell * many + at, place, count) for cell, place, count in zip(*one, strict=True)]
    return [list(row) for row in zip(*sorted(found), strict=True)] if found else [[], [], []]


def _keyed(program: asked.KeyedSums, rows: list[Row]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Keys, each with its units and its sums."""
    readings, groups = [value(key) for key in program.keys], defaultdict(list)
    for row in rows:
        key = tuple(read(row.columns) for read in readings)
        if all(part is not None or place in program.nulls for place, part in enumerate(key)):
            groups[key].append(row)
    return {
        key: tuple(figure(term)(group) for term in (asked.CountedUnits(), *program.terms))
        for key, group in groups.items()
    }
