"""Values and conditions of a row as SQL, with the meaning that engines/values.py states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sfumato.engines.like import parse_like
from sfumato.engines.used_columns import BLOCK, DIGEST
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import (
    WIDEST,
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
    Predicate,
    Quotient,
    RealConstant,
    RealFunction,
    Same,
    Some,
    Spelled,
    UnitBlock,
    UnitDigest,
    Value,
    Whole,
    flatten_extremes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.engines.dialect import Dialect

    Name = Callable[[int, str], str]
    """The SQL name of a source's column."""
    FindTest = Callable[[Value | Predicate], str | None]
    """The column that holds the outcome of a test of a text, where the test was made before."""

_LIMIT = 2**62
"""Values lie well within ±2^62: comparing with more than this changes nothing."""
_SHORT = 20
"""Longer lists are written in a way of their own."""
_DOMAINS = {"sqrt": ">=", "ln": ">", "log2": ">", "log10": ">"}
"""How a double compares with 0 where a function of it has a value."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """Writes values and conditions in one dialect, over columns of these names."""

    dialect: Dialect
    name: Name
    ranges: ValueRanges = field(default_factory=lambda: ValueRanges({}))
    find_test: FindTest = lambda part: None
    present: frozenset[Column] = frozenset()
    """Columns that are never missing here."""

    # ---- integers and texts ----

    def write_value(self, part: Value) -> str:
        """Return a value as SQL: an integer or a text, NULL where it is missing."""
        match part:
            case Column(at, column):
                return self.name(at, column)
            case Constant(number):
                return self._constant(number, self.dialect.wide)
            case Add() | Multiply() | Divide() | Either() | Least() | Greatest():
                return self._of_two(part)
            case Lookup():
                return self._entry(part)
            case Choose():
                return self._chosen(part)
            case UnitBlock() | UnitDigest():
                return self._of_unit(part)
            case Calendar() | Length() | Folded():
                return self._of_one(part)
            case Double() | RealConstant() | Quotient() | RealFunction() | Power() | Whole():
                return self._double(part)

    def _entry(self, part: Lookup) -> str:
        if self.ranges.reach(part) > _LIMIT:
            raise OverflowError("an entry lies beyond 2^62")
        return self.dialect.write_entry(part.entries, self.write_value(part.part))

    def _of_unit(self, part: UnitBlock | UnitDigest) -> str:
        if isinstance(part, UnitDigest):
            return self.name(part.at, DIGEST)
        # A block is 16 random bits; this maps them to 0 … count − 1 without a division.
        return f"((CAST({self.name(part.at, BLOCK)} AS BIGINT) * {_bounded(part.count)}) >> 16)"

    def _chosen(self, part: Choose) -> str:
        match part:
            case Choose(Missing(Column() as column), _, value) if column in self.present:
                return self._as(value, self._kind(part))
            case Choose(Missing(other), Constant(None), value) if all(
                map(self.ranges.is_narrow, (part, other))
            ):
                # Missing where the other is: engines subtract far faster than they choose between branches.
                present = self.write_value(other)
                return f"({self._as(value, 'BIGINT')} + ({present} - {present}))"
            case Choose(when, then, otherwise):
                # Both branches in one type: engines choose the type of a CASE by rules of their own.
                one, other_one = (self._as(each, self._kind(part)) for each in (then, otherwise))
                return f"CASE WHEN {self.write_condition(when)} THEN {one} ELSE {other_one} END"

    def _of_two(self, part: Add | Multiply | Divide | Either | Least | Greatest) -> str:
        kind = self._kind(part)
        match part:
            case Least() | Greatest():
                return self._extreme(part)
            case Add(left, right):
                return f"({self._as(left, kind)} + {self._as(right, kind)})"
            case Multiply(left, right):
                return f"({self._as(left, kind)} * {self._as(right, kind)})"
            case Divide(left, Constant(int(number))) if self._is_shift(left, number, kind):
                return f"({self._as(left, kind)} >> {number.bit_length() - 1})"
            case Divide(left, Constant(int(number))) if number:
                return self.dialect.write_quotient(self._as(left, kind), self._constant(number, kind), kind)
            case Divide(left, right):
                return self.dialect.write_quotient(
                    self._as(left, kind), f"nullif({self._as(right, kind)}, 0)", kind
                )
            case Either(first, second):
                return f"COALESCE({self._as(first, kind)}, {self._as(second, kind)})"

    def _extreme(self, part: Least | Greatest) -> str:
        """Write a least or greatest value; engines' own pass over missing ones."""
        write = partial(self._as, kind="BIGINT") if self.ranges.is_narrow(part) else self.write_value
        if self.ranges.is_double(part):
            write = partial(self._as, kind=self.dialect.double)
        parts = [(each, write(each)) for each in flatten_extremes(part)]
        name = "least" if isinstance(part, Least) else "greatest"
        chosen = f"{name}({', '.join(text for _, text in parts)})"
        if part.skips:
            return chosen
        # Constants are never missing, so most comparisons test one column only.
        missing = [text for each, text in parts if not _is_known(each)]
        present = [f"{text} IS NOT NULL" for text in missing]
        return f"CASE WHEN {join_conditions('AND', present) or 'true'} THEN {chosen} END"

    # ---- doubles ----

    def _double(self, part: Double | RealConstant | Quotient | RealFunction | Power | Whole) -> str:
        """Write a double. Operands are sanitised, not operations: an optimiser may move either."""
        match part:
            case Whole():
                return self._whole(part)
            case Double(of):
                return f"CAST({self.write_value(of)} AS {self.dialect.double})"
            case RealConstant(digits):
                return self._real(float(digits))
            case Quotient(left, right, nonzero):
                below = self.write_value(right)
                below = below if nonzero else f"nullif({below}, {self._real(0.0)})"
                return f"({self.write_value(left)} / {below})"
            case RealFunction(name, of, total):
                inside = self._within(of, "" if total else _DOMAINS.get(name, ""))
                return self.dialect.write_function(name, inside)
            case Power(base, exponent, total):
                inside = self._within(base, "" if total else ">=" if float(exponent.digits) >= 0 else ">")
                return f"power({inside}, {self.write_value(exponent)})"

    def _within(self, part: Value, compares: str) -> str:
        """Write a double that is missing unless it compares with 0 like this."""
        number = self.write_value(part)
        return f"CASE WHEN {number} {compares} {self._real(0.0)} THEN {number} END" if compares else number

    def _real(self, number: float) -> str:
        return f"CAST('{number!r}' AS {self.dialect.double})"

    def _whole(self, part: Whole) -> str:
        number = self.write_value(part.part)
        if part.exponent:
            number = f"({number} * {self._real(2.0**-part.exponent)})"
        if part.checked:
            # LEAST and GREATEST take as long as a logarithm, and pass over missing numbers.
            low, high = map(self._real, _find_ends(part))
            number = f"CASE WHEN {number} BETWEEN {low} AND {high} THEN {number} END"
        return self.dialect.write_whole(number, part.rule)

    # ---- dates, texts ----

    def _of_one(self, part: Calendar | Length | Folded) -> str:
        match part:
            case Calendar(days, field):
                return self.dialect.write_calendar(self.write_value(days), field)
            case Length(text):
                return self.find_test(part) or f"length({self.write_value(text)})"
            case Folded(text, upper):
                return self.dialect.write_fold(self.write_value(text), upper)

    def _is_shift(self, part: Value, number: int, kind: str) -> bool:
        """Return whether a shift divides as well: no negative value, in 64 bits, by a power of two."""
        power = number > 0 and number & (number - 1) == 0
        return power and kind == "BIGINT" and self.ranges.find(part)[0] >= 0

    def _kind(self, part: Value) -> str:
        """Return the type in which a value is computed."""
        if self.ranges.is_double(part):
            return self.dialect.double
        return "BIGINT" if self.ranges.is_narrow(part) else self.dialect.wide

    def _as(self, part: Value, kind: str) -> str:
        """Write a part in the type of what is computed from it."""
        if isinstance(part, Constant):
            return self._constant(part.value, kind)
        # What is computed here has its type already; columns and lookups have types of the engine's choice.
        if kind == self.dialect.double:
            return self.write_value(part)
        computed = isinstance(part, Add | Multiply | Divide | Either | Choose)
        text = self.write_value(part)
        return text if computed and self._kind(part) == kind else f"CAST({text} AS {kind})"

    def _constant(self, number: int | None, kind: str) -> str:
        if number is not None and abs(number) > WIDEST:
            raise OverflowError("a constant lies beyond 2^120")
        return f"CAST({'NULL' if number is None else f'{number:d}'} AS {kind})"

    # ---- conditions ----

    def write_condition(self, predicate: Predicate) -> str:
        """Return a condition as SQL, with SQL's three-valued logic."""
        match predicate:
            case AtLeast(part, bound):
                return f"{self.write_value(part)} >= {_clamped(bound)}"
            case AtMost(part, bound):
                return f"{self.write_value(part)} <= {_clamped(bound)}"
            case Among(part, values):
                return self._among(self.write_value(part), values)
            case Less(left, right):
                return f"{self.write_value(left)} < {self.write_value(right)}"
            case Same(left, right):
                return f"{self.write_value(left)} = {self.write_value(right)}"
            case Missing(part):
                return f"{self.find_test(predicate) or self.write_value(part)} IS NULL"
            case Spelled() | Matches():
                return self.find_test(predicate) or self._of_text(predicate)
            case Not() | Every() | Some():
                return self._of_conditions(predicate)

    def _of_text(self, predicate: Spelled | Matches) -> str:
        text = self.write_value(predicate.text)
        match predicate:
            case Spelled(_, words):
                spelled = [known for known in map(self.dialect.write_text, words) if known is not None]
                return f"{text} IN ({', '.join(spelled)})" if spelled else _none(text)
            case Matches(_, pattern):
                return self.dialect.write_like(text, parse_like(pattern)) or _none(text)

    def _of_conditions(self, predicate: Not | Every | Some) -> str:
        match predicate:
            case Not(part):
                return f"NOT ({self.write_condition(part)})"
            case Every(parts):
                return join_conditions("AND", map(self.write_condition, parts)) or "true"
            case Some(parts):
                return join_conditions("OR", map(self.write_condition, parts)) or "false"

    def _among(self, part: str, values: tuple[int, ...]) -> str:
        if not values:
            return _none(part)
        clamped = tuple(map(_clamped, values))
        # Some engines plan a long IN list as a chain of comparisons.
        if len(values) <= _SHORT:
            return f"{part} IN ({', '.join(map(str, clamped))})"
        return self.dialect.write_membership(part, clamped)


def join_conditions(word: str, parts: Iterable[str]) -> str:
    """Return conditions, each in brackets, with AND or OR between them."""
    return f" {word} ".join(f"({part})" for part in parts)


def _is_known(part: Value) -> bool:
    return isinstance(part, RealConstant) or (isinstance(part, Constant) and part.value is not None)


def _bounded(number: int) -> int:
    if _clamped(number) != number:
        raise OverflowError("a constant lies beyond 2^62")
    return number


def _none(part: str) -> str:
    """Test for membership in an empty list: false, and unknown where the part is missing."""
    return f"{part} <> {part}"


def _clamped(number: int) -> int:
    return max(-_LIMIT, min(number, _LIMIT))


def _find_ends(part: Whole) -> tuple[float, float]:
    """Return ends of the doubles that the rule rounds into [low, high], none of which it rounds beyond.

    From 2^50 on doubles have next to nothing after the point.
    """
    low, high = float(part.low), float(part.high)
    if max(abs(part.low), abs(part.high)) >= 2**50:
        return low, high
    match part.rule:
        case "floor":
            return low, math.nextafter(high + 1, -math.inf)
        case "zero":
            below = math.nextafter(low - 1, math.inf) if low <= 0 else low
            return below, math.nextafter(high + 1, -math.inf) if high >= 0 else high
        case "away":
            # Engines add a half first, and the sum is rounded to a double.
            near = 0.5 - max(1, abs(low), abs(high)) * 2.0**-51
            return low - near, high + near
    return low, high
