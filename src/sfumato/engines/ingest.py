"""Reading a source: the limits, lists, keys and refusals that are the same in every engine."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sfumato.engines.formats import write_iso_date, write_plain_number
from sfumato.engines.snapshot import (
    ColumnSurvey,
    SourceSurvey,
    StoredCodes,
    StoredGrid,
    StoredText,
    StoredTime,
)
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sfumato.engines.formats import TextFunctions
    from sfumato.engines.snapshot import Preparation, StoredColumn

_HALF = Fraction(1, 2)

K = TypeVar("K")
"""The kinds of columns that an engine tells apart."""

LONGEST_TEXT = 1000
"""Code points of a text that are kept."""

WRITTEN_OUT_BELOW = 2**120
"""Whole doubles below this are written as integers, which DuckDB does through 128 bits."""

EXACT_BELOW = 2**53
"""From here on a double may stand for several whole numbers."""

YEAR_1 = -62_135_596_800
YEAR_10000 = 253_402_300_800
"""Seconds since 1970. Moments outside have no date that everyone can write down, and are missing."""

ISO = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]+)?)?"
    r"(?: ?(?:Z|UTC|GMT|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?))?)?"
)

_DIGITS = "[0-9]+(?:_[0-9]+)*"
AROUND = r"[ \t-\r]*"
NUMBER = f"{AROUND}[+]?-?(?:{_DIGITS}(?:[.](?:{_DIGITS})?)?|[.]{_DIGITS})(?:[eE][+-]?{_DIGITS})?{AROUND}"
INFINITE = f"{AROUND}[+]?-?inf(?:inity)?{AROUND}"
"""Texts that DuckDB reads as doubles, the last in small or large letters."""

LONGEST_NUMBER = 2000
"""A longer text is no number: decimals have an end, and matching could take more of a stack than there is."""

SPACES = (
    "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
"""What may stand around a date."""


@dataclass(frozen=True, slots=True)
class ReadingLayers(Generic[K]):
    """Reads a column where DuckDB's own casts are missing, in three layers of SQL.

    Layers compute once what is used several times. The fields are what each engine writes in its own way.
    """

    text: K
    """The kind of texts."""
    functions: TextFunctions
    as_text: Callable[[str, K], str]
    as_number: Callable[[str, str, K], str]
    """Reads a column of this name as numbers; other values become missing."""
    as_seconds: Callable[[str, str, K], str]
    """Reads a column of this name as whole seconds since 1970."""
    parts: Callable[[str], str]
    """Takes a text that is a moment apart; other texts become missing."""
    seconds_of_parts: Callable[[str], str]
    double: Callable[[str, K], str]
    """Makes a double of what `as_number` gives."""
    on_grid: Callable[[StoredGrid, str], str]
    in_time: Callable[[StoredTime, str], str]
    whole: Callable[[str, StoredGrid | StoredTime | StoredCodes], str]
    """Writes an integer as it is stored, with what stands for a missing one."""
    kept: Callable[[str], str]
    """Writes a text as it is stored."""

    def parse_column(self, column: StoredColumn, value: str, kind: K) -> str:
        """Write the first layer: a text, a number, whole seconds, or the parts of a text that is a moment."""
        match column:
            case StoredGrid():
                if column.format and kind is self.text:
                    value = write_plain_number(self.as_text(value, kind), column.format, self.functions)
                return self.as_number(column.name, value, kind)
            case StoredTime():
                if kind is not self.text:
                    return self.as_seconds(column.name, value, kind)
                if column.format:
                    value = write_iso_date(self.as_text(value, kind), column.format, self.functions)
                return self.parts(value)
            case StoredCodes():
                texts = are_texts(column)
                return self.as_text(value, kind) if texts else self.as_number(column.name, value, kind)
            case StoredText():
                return f"left({self.as_text(value, kind)}, {LONGEST_TEXT})"

    def interpret_column(self, column: StoredColumn, value: str, kind: K) -> str:
        """Write the second layer, in which numbers become doubles and parts of a text seconds."""
        if isinstance(column, StoredTime):
            return self.seconds_of_parts(value) if kind is self.text else value
        if isinstance(column, StoredText) or (isinstance(column, StoredCodes) and are_texts(column)):
            return value
        return self.double(value, kind)

    def store_column(self, column: StoredColumn, value: str) -> str:
        """Write the third layer: the integer or text that is stored. A listed value comes as its place."""
        match column:
            case StoredGrid():
                return self.whole(self.on_grid(column, value), column)
            case StoredTime():
                return self.whole(self.in_time(column, value), column)
            case StoredCodes():
                return self.whole(value, column)
            case StoredText():
                return self.kept(value)


def write_time_on_grid(moments: StoredTime, seconds: str, div: str) -> str:
    """Write whole days or seconds since 1970, clipped. Counting from the year 1, division rounds down."""
    unit = 1 if moments.seconds else 86_400
    known = f"CASE WHEN {seconds} >= {YEAR_1} AND {seconds} < {YEAR_10000} THEN {seconds} END"
    place = f"(({known} - ({YEAR_1})) {div} {unit} + ({YEAR_1 // unit}))"
    low, high = f"{moments.low:d}", f"{moments.high:d}"
    return f"CASE WHEN {place} < {low} THEN {low} WHEN {place} > {high} THEN {high} ELSE {place} END"


def are_texts(codes: StoredCodes) -> bool:
    """Return whether a column's public list holds texts, and not numbers."""
    return all(isinstance(value, str) for value in codes.values)


def list_codes(codes: StoredCodes) -> dict[Any, int]:
    """Return the code of each value. One listed twice has its first code: a join must not double a row."""
    # 1, 1.0 and True are one value, as they are in the source.
    texts, values = are_texts(codes), cast("tuple[Any, ...]", codes.values)
    first: dict[Any, int] = {}
    for code, value in enumerate(values):
        first.setdefault(value if texts else float(value), code)
    return first


def derive_key(preparation: Preparation, purpose: str) -> str:
    """Return a key of its own for each purpose, so that no digest is used twice; short, for speed."""
    # 128 bits.
    return hmac.new(preparation.key, purpose.encode(), "sha256").hexdigest()[:32]


NUMBERS, DATES, TEXTS, OTHERS = "numbers", "dates", "texts", "other values"
"""Kinds of columns as a steward is told them."""


# ---- surveys: what a declaration does to a source, for the steward alone -----------------------------------


def write_survey(
    preparation: Preparation, double: str, floats: Collection[int] = (), days: Collection[int] = ()
) -> str:
    """Write the counts of a survey over rows with `unit`, interpreted columns c0, … and marks n0, …

    A mark says whether the source had no value. Columns in `floats` were doubles, whose NaN is no value;
    columns in `days` are interpreted as days and not as seconds. `double` is the type's name.
    """
    counts = ["count(*)", "CAST(sum(CASE WHEN unit <> '' THEN 0 ELSE 1 END) AS BIGINT)"]
    for i, column in enumerate(preparation.columns):
        missing = f"read.c{i} IS NULL" if i in floats else f"n{i}"
        place = f"list{i}.code" if isinstance(column, StoredCodes) else f"read.c{i}"
        below, above, odd = _beyond(column, f"read.c{i}", double, i in days)
        lost = f"NOT ({missing}) AND ({place} IS NULL OR {odd})"
        counts += [_write_count(f"unit <> '' AND {each}") for each in (missing, lost, below, above)]
    return ", ".join(counts)


def write_unit_survey(preparation: Preparation, identifiers: str) -> str:
    """Write the counts of units, of those with too many rows, and of their rows that are left out.

    `identifiers` selects the unit of every row that has one.
    """
    crowded = f"of_unit > {preparation.max_rows}"
    return f"""
        SELECT count(*), {_write_count(crowded)}, {_write_count(crowded, f"of_unit - {preparation.max_rows}")}
        FROM (SELECT count(*) AS of_unit FROM ({identifiers}) AS named GROUP BY unit) AS counted"""  # noqa: S608


def write_varying_survey(preparation: Preparation, stored: str) -> str:
    """Write the counts of units with several values, one count for each column in `preparation.constant`.

    `stored` selects the unit and the stored columns c0, … of every row that has a unit. A missing value
    next to another one counts as a second value.
    """
    declared = [column.name for column in preparation.columns]
    places = [f"c{declared.index(name)}" for name in preparation.constant]
    varies = [
        f"min({place}) < max({place}) OR (count({place}) > 0 AND count({place}) < count(*)) AS {place}"
        for place in places
    ]
    return f"""
        SELECT {", ".join(map(_write_count, places))}
        FROM (SELECT {", ".join(varies)} FROM ({stored}) AS every GROUP BY unit) AS of_units"""  # noqa: S608


def read_survey(
    preparation: Preparation,
    counts: Sequence[int | None],
    of_units: Sequence[int | None] | None,
    varying: Sequence[int | None] = (),
) -> SourceSurvey:
    """Return the survey that these counts are. Sums over no row come as None."""
    rows, without, *rest = (count or 0 for count in counts)
    units, crowded, dropped = (None, 0, 0) if of_units is None else (count or 0 for count in of_units)
    several = dict(zip(preparation.constant, (count or 0 for count in varying), strict=bool(varying)))
    columns = tuple(
        ColumnSurvey(column.name, missing, unreadable, below, above, several.get(column.name, 0))
        for column, missing, unreadable, below, above in zip(
            preparation.columns, rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True
        )
    )
    return SourceSurvey(rows, without, units, crowded or 0, dropped or 0, columns)


def _write_count(condition: str, each: str = "1") -> str:
    return f"CAST(sum(CASE WHEN {condition} THEN {each} ELSE 0 END) AS BIGINT)"


def _beyond(column: StoredColumn, value: str, double: str, in_days: bool) -> tuple[str, str, str]:
    """Write whether a value is below its bounds, whether above, and whether it has no place at all."""
    match column:
        case StoredGrid(low=low, high=high, step=step):
            # What is rounded to a bound is not beyond it.
            ends = [float((end + half) * step) for end, half in ((low, -_HALF), (high, _HALF))]
            first, last = (f"CAST('{end!r}' AS {double})" for end in ends)
            return f"{value} < {first}", f"{value} > {last}", "1 = 0"
        case StoredTime(low=low, high=high):
            unit = 1 if column.seconds or in_days else 86_400
            years = [year // 86_400 if in_days else year for year in (YEAR_1, YEAR_10000)]
            below = f"{value} >= {years[0]} AND {value} < {low * unit}"
            above = f"{value} >= {(high + 1) * unit} AND {value} < {years[1]}"
            return below, above, f"{value} < {years[0]} OR {value} >= {years[1]}"
        case _:
            return "1 = 0", "1 = 0", "1 = 0"


# ---- refusals ----------------------------------------------------------------------------------------------


def no_such_column(wanted: str, names: Sequence[str]) -> UsageError:
    """Return the refusal of a column that a source does not have, or has twice, with a name that is near."""
    known = list(map(str, names))
    if known.count(wanted) > 1:
        sentence = f"The source has {known.count(wanted)} columns called '{wanted}'."
        hint = "rename them in the source, so that each name is there once"
        return UsageError("SF-C205", sentence, columns=", ".join(known), try_=hint)
    near = [name for name in known if name.casefold() == wanted.casefold()]
    near = near or get_close_matches(wanted, known, 1)
    hint = f'"{near[0]}"' if near else "declare one of these columns, or lab.draft_schema(source)"
    return UsageError("SF-C205", f"The source has no column '{wanted}'.", columns=", ".join(known), try_=hint)


def not_numbers(name: str) -> UsageError:
    """Return the refusal of a column that is declared with numbers and has none."""
    return UsageError(
        "SF-C205",
        f"The column '{name}' does not hold numbers.",
        why="its type in the source has no numbers, such as dates or bytes",
        try_="sf.between(date(2020, 1, 1), date(2024, 12, 31)) for dates, or sf.one_of(…) with texts",
    )


def not_dates(name: str) -> UsageError:
    """Return the refusal of a column that is declared with dates and has none."""
    return UsageError(
        "SF-C205",
        f"The column '{name}' does not hold dates.",
        why="bounds that are dates take dates, moments, or texts such as 2024-01-31",
        try_="sf.between(0, 100) for numbers",
    )


def rounded_identifiers(name: str) -> UsageError:
    """Refuse long integers that became doubles beside a missing value: two people may share a number."""
    return UsageError(
        "SF-C205",
        f"The identifiers in '{name}' are floating-point numbers too large to tell people apart.",
        limit="2^53, about 16 digits",
        try_="read the column as integers or as text before it is rounded",
    )


def not_a_column_type(name: str, of_type: str) -> UsageError:
    """Return the refusal of a column whose type is not on the engine's allowlist."""
    return UsageError(
        "SF-C205",
        f"The values of column '{name}' cannot be used.",
        type=of_type,
        accepted="numbers of up to 38 digits, texts, booleans, dates and times",
    )
