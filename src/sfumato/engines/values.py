"""Numbers computed from a row, and conditions on them: what an engine is asked to compute, as frozen values.

The curator writes these; an engine turns them into its own SQL. Every value is an integer, a double or
missing, and missing in, missing out, unless it says otherwise. `Add`, `Multiply`, `Least`, `Greatest`,
`Either`, `Choose`, `Less` and `Same` take integers or doubles, never one of each. Every operation is total:
it has a value or is missing, whatever the row (docs/proofs/rows.md). No name that an analyst typed is in
here; a text that an analyst typed is compared with, and reaches an engine as hexadecimal digits only.
Conditions follow SQL's three-valued logic.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.privacy.canonical import tagged

WIDEST = 2**120
"""What a value on the way to another may reach, and a constant: engines compute in 128 bits, or in fewer
where value_ranges.py says so."""

# ---- integers ----------------------------------------------------------------------------------------------


@tagged("Column", "at", "name")
@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its declared name, of the source of rows that has this number."""

    at: int
    name: str


@tagged("Constant", "value")
@dataclass(frozen=True, slots=True)
class Constant:
    """An integer that is one for all rows; with none, missing."""

    value: int | None


@tagged("Add", "left", "right")
@dataclass(frozen=True, slots=True)
class Add:
    left: Value
    right: Value


@tagged("Multiply", "left", "right")
@dataclass(frozen=True, slots=True)
class Multiply:
    left: Value
    right: Value


@tagged("Divide", "left", "right")
@dataclass(frozen=True, slots=True)
class Divide:
    """left / right rounded towards zero; missing where right is 0."""

    left: Value
    right: Value


@tagged("Least", "left", "right", "skips")
@dataclass(frozen=True, slots=True)
class Least:
    """The smaller of two; missing where one is, or with `skips` only where both are."""

    left: Value
    right: Value
    skips: bool = False


@tagged("Greatest", "left", "right", "skips")
@dataclass(frozen=True, slots=True)
class Greatest:
    """The larger of two; missing where one is, or with `skips` only where both are."""

    left: Value
    right: Value
    skips: bool = False


def flatten_extremes(part: Least | Greatest) -> list[Value]:
    """Return all values that a least or greatest value is taken of, however deep they are nested."""
    return [
        each
        for side in (part.left, part.right)
        for each in (
            flatten_extremes(side)
            if isinstance(side, Least | Greatest) and type(side) is type(part) and side.skips == part.skips
            else [side]
        )
    ]


@tagged("Either", "first", "second")
@dataclass(frozen=True, slots=True)
class Either:
    """The first, or the second where the first is missing."""

    first: Value
    second: Value


@tagged("Lookup", "part", "entries")
@dataclass(frozen=True, slots=True)
class Lookup:
    """The entry at this place of a public list; missing where it is none, and outside the list."""

    part: Value
    entries: tuple[int | None, ...]


@tagged("Choose", "condition", "then", "otherwise")
@dataclass(frozen=True, slots=True)
class Choose:
    """One value where the condition is true, the other where it is false or unknown."""

    condition: Predicate
    then: Value
    otherwise: Value


@tagged("Calendar", "days", "field")
@dataclass(frozen=True, slots=True)
class Calendar:
    """The year, month (1–12), day of the month or weekday (Monday is 1) of a number of days since 1970."""

    days: Value
    field: str


@tagged("Whole", "part", "rule", "exponent", "low", "high", "checked")
@dataclass(frozen=True, slots=True)
class Whole:
    """The integer next to a double divided by 2^exponent.

    The rule is "even" (the nearest, halves to the even one), "away" (the nearest, halves away from zero),
    "floor" or "zero" (towards it). With `checked` it is missing where it would lie outside [low, high],
    which its bounds exclude; without, LEAST and GREATEST keep it there.
    """

    part: Value
    rule: str
    exponent: int
    low: int
    high: int
    checked: bool = True


@tagged("Length", "text")
@dataclass(frozen=True, slots=True)
class Length:
    """How many code points a text has."""

    text: Text


@tagged("Block", "at", "count")
@dataclass(frozen=True, slots=True)
class UnitBlock:
    """Which of so many blocks the row's unit is in. It depends on a secret key and the unit alone."""

    at: int
    count: int


@tagged("Person", "at")
@dataclass(frozen=True, slots=True)
class UnitDigest:
    """What all snapshots of a lab know the row's unit by: a keyed digest in 32 hexadecimal digits.

    It is a key of `KeyedSums` and nothing else, and no answer shows it.
    """

    at: int


# ---- doubles -----------------------------------------------------------------------------------------------


@tagged("Double", "part")
@dataclass(frozen=True, slots=True)
class Double:
    """The double nearest to an integer."""

    part: Value


@tagged("RealConstant", "digits")
@dataclass(frozen=True, slots=True)
class RealConstant:
    """A double that is one for all rows, by the fewest digits that name it."""

    digits: str


@tagged("Quotient", "left", "right", "nonzero")
@dataclass(frozen=True, slots=True)
class Quotient:
    """left / right in doubles; missing where right is 0, which it never is with `nonzero`."""

    left: Value
    right: Value
    nonzero: bool = False


@tagged("RealFunction", "name", "part", "total")
@dataclass(frozen=True, slots=True)
class RealFunction:
    """A function of a double: sqrt, ln, log2, log10, exp, abs, floor, round or trunc.

    It is missing where it has no value: a root below 0, a logarithm at 0 and below. Where it is `total` the
    bounds of the double exclude these. Those of EXP exclude what is too large or too small for a double.
    """

    name: str
    part: Value
    total: bool = False


@tagged("Power", "base", "exponent", "total")
@dataclass(frozen=True, slots=True)
class Power:
    """A double to a constant power; missing below 0, and for powers below 0 also at 0."""

    base: Value
    exponent: RealConstant
    total: bool = False


# ---- texts -------------------------------------------------------------------------------------------------


@tagged("Folded", "text", "upper")
@dataclass(frozen=True, slots=True)
class Folded:
    """A text with the letters A–Z made small, or a–z made large; every other character as it is."""

    text: Text
    upper: bool


Text = Column | Folded
Value = (
    Text
    | Constant
    | Add
    | Multiply
    | Divide
    | Least
    | Greatest
    | Either
    | Lookup
    | Choose
    | Calendar
    | Whole
    | Double
    | RealConstant
    | Quotient
    | RealFunction
    | Power
    | Length
    | UnitBlock
    | UnitDigest
)
"""An integer, a double, or a text where a column holds texts, as its domain says."""


# ---- conditions --------------------------------------------------------------------------------------------


@tagged("AtLeast", "part", "value")
@dataclass(frozen=True, slots=True)
class AtLeast:
    """part ≥ value"""

    part: Value
    value: int


@tagged("AtMost", "part", "value")
@dataclass(frozen=True, slots=True)
class AtMost:
    """part ≤ value"""

    part: Value
    value: int


@tagged("Among", "part", "values")
@dataclass(frozen=True, slots=True)
class Among:
    """part is one of these; with none of them, false wherever the part is not missing."""

    part: Value
    values: tuple[int, ...]


@tagged("Less", "left", "right")
@dataclass(frozen=True, slots=True)
class Less:
    """left < right"""

    left: Value
    right: Value


@tagged("Same", "left", "right")
@dataclass(frozen=True, slots=True)
class Same:
    """left = right"""

    left: Value
    right: Value


@tagged("Spelled", "text", "words")
@dataclass(frozen=True, slots=True)
class Spelled:
    """A text is one of these, code point by code point."""

    text: Text
    words: tuple[str, ...]


@tagged("Matches", "text", "pattern")
@dataclass(frozen=True, slots=True)
class Matches:
    """A text matches a pattern: % is any run of characters, _ is one, a backslash makes the next itself."""

    text: Text
    pattern: str


@tagged("Missing", "part")
@dataclass(frozen=True, slots=True)
class Missing:
    """part is missing; never unknown."""

    part: Value


@tagged("Not", "part")
@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@tagged("Every", "parts")
@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; true when there are none."""

    parts: tuple[Predicate, ...] = ()


@tagged("Some", "parts")
@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; false when there are none."""

    parts: tuple[Predicate, ...] = ()


Predicate = AtLeast | AtMost | Among | Less | Same | Spelled | Matches | Missing | Not | Every | Some
