"""Integers computed from a row, and conditions on them: what an engine is asked to compute, as frozen values.

The curator writes these; an engine turns them into its own SQL. Every value is an integer or missing, and
missing in, missing out, unless it says otherwise. Nothing here holds a float or a name that an analyst typed;
a text that an analyst typed is compared with, and reaches an engine as hexadecimal digits only. Conditions
follow SQL's three-valued logic.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDEST = 2**120
"""What a value on the way to another may reach, and a constant: engines compute in 128 bits, or in fewer
where reaches.py says so."""

# ---- integers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its declared name, of the source of rows that has this number."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row; with no integer, missing."""

    value: int | None


@dataclass(frozen=True, slots=True)
class Add:
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Multiply:
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Divide:
    """left / right rounded down, neither of them negative; missing where right is 0."""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Least:
    """The smaller of two; missing where one is."""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Greatest:
    """The larger of two; missing where one is."""

    left: Value
    right: Value


def compared(part: Least | Greatest) -> list[Value]:
    """All that the smallest or the largest is taken of, where one is taken of another."""
    sides = (part.left, part.right)
    return [each for side in sides for each in (compared(side) if type(side) is type(part) else [side])]


@dataclass(frozen=True, slots=True)
class Either:
    """The first, or the second where the first is missing."""

    first: Value
    second: Value


@dataclass(frozen=True, slots=True)
class Lookup:
    """The entry at this place of a public list; missing where it is none, and outside the list."""

    part: Value
    entries: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """One value where the condition is true, the other where it is false or unknown."""

    condition: Predicate
    then: Value
    otherwise: Value


@dataclass(frozen=True, slots=True)
class Calendar:
    """Of a number of days since 1970: its year, month (1–12), day of the month or weekday (Monday is 1)."""

    days: Value
    field: str


@dataclass(frozen=True, slots=True)
class Length:
    """How many code points a text has."""

    text: Text


@dataclass(frozen=True, slots=True)
class Block:
    """Which of so many blocks the row's unit is in. It depends on a secret key and the unit alone."""

    at: int
    count: int


# ---- texts -------------------------------------------------------------------------------------------------


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
    | Length
    | Block
)
"""An integer, or a text where a column holds texts; which of the two, its domain says."""


# ---- conditions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtLeast:
    """part ≥ value"""

    part: Value
    value: int


@dataclass(frozen=True, slots=True)
class AtMost:
    """part ≤ value"""

    part: Value
    value: int


@dataclass(frozen=True, slots=True)
class Among:
    """part is one of these; with none of them, false wherever the part is not missing."""

    part: Value
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Less:
    """left < right"""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Same:
    """left = right"""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text is one of these, code point by code point."""

    text: Text
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """A text matches a pattern: % is any run of characters, _ is one, a backslash makes the next itself."""

    text: Text
    pattern: str


@dataclass(frozen=True, slots=True)
class Missing:
    """part is missing; never unknown."""

    part: Value


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; true when there are none."""

    parts: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; false when there are none."""

    parts: tuple[Predicate, ...] = ()


Predicate = AtLeast | AtMost | Among | Less | Same | Spelled | Matches | Missing | Not | Every | Some
