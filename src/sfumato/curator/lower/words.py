"""Texts made of other values: names of days and months, STRFTIME, and texts put side by side.

Every text is known beforehand, because the values that it is made of are. An engine computes its place in the
list, never the text.
"""

from __future__ import annotations

from datetime import date, datetime, time
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower import dates
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    add_integer,
    multiply_by_integer,
    require_typed_text,
)
from sfumato.curator.lower.texts import rewrite_list
from sfumato.engines.values import Add, Choose, Constant, Missing
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_WORDS = 2**16
"""The largest number of texts that a computed text can be; no promise of privacy rests on it."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def name_weekday(part: LoweredValue) -> LoweredValue:
    """Return DAYNAME of a date, in English."""
    return _name_places(dates.make_field_function("weekday", 1, 7)(part), WEEKDAYS)


def name_month(part: LoweredValue) -> LoweredValue:
    """Return MONTHNAME of a date, in English."""
    return _name_places(dates.make_field_function("month", 1, 12)(part), MONTH_NAMES)


def _name_places(part: LoweredValue, names: tuple[str, ...]) -> LoweredValue:
    return part.derive_value(add_integer(part.value, -1), Listed(names))


# ---- texts side by side ------------------------------------------------------------------------------------


def join_texts(*parts: LoweredValue) -> LoweredValue:
    """Return texts side by side, as || puts them: missing where one is."""
    if any(part is MISSING for part in parts):
        return MISSING
    joined = _spell_value(parts[0])
    for part in parts[1:]:
        joined = _put_beside(joined, _spell_value(part))
    return joined


def join_present_texts(*parts: LoweredValue) -> LoweredValue:
    """Return CONCAT: texts side by side, of which missing ones are passed over."""
    return join_texts(*(_or_nothing(_spell_value(part)) for part in parts if part is not MISSING))


def _or_nothing(part: LoweredValue) -> LoweredValue:
    if part.present or not isinstance(part.domain, Listed):
        return part
    words = part.domain.values
    value = Choose(Missing(part.value), Constant(len(words)), part.value)
    more = (*words, "")
    return rewrite_list(LoweredValue(value, Listed(more), part.constant, True), [*map(str, more)])


def _put_beside(left: LoweredValue, right: LoweredValue) -> LoweredValue:
    first, second = (part.domain.values for part in (left, right) if isinstance(part.domain, Listed))
    _require_few(len(first) * len(second))
    # A single text on either side adds nothing to the place.
    scaled = multiply_by_integer(left.value, len(second))
    value = left.value if len(second) == 1 else right.value if len(first) == 1 else Add(scaled, right.value)
    words = [f"{one}{other}" for one in first for other in second]
    return rewrite_list(left.derive_value(value, Listed(tuple(words)), right), words)


def _spell_value(part: LoweredValue) -> LoweredValue:
    """Return a value as a text out of a list: whole numbers in digits, dates as 2024-01-31."""
    domain = part.domain
    if isinstance(domain, Listed) and domain.values and isinstance(domain.values[0], str):
        return part
    if isinstance(domain, FreeTexts) or not _is_spelled(domain):
        raise PolicyError(
            "SF-Q110",
            "|| and CONCAT take listed texts, whole numbers, dates, and true or false.",
            try_="sf.one_of(…) for the column, or CAST(x AS INTEGER)",
        )
    _require_few(domain.size)
    words = [_spell(shown) for shown in domain.show_values()]
    return rewrite_list(part.derive_value(add_integer(part.value, -domain.low), Listed(tuple(words))), words)


def _is_spelled(domain: Numbers | Listed | Periods) -> bool:
    if isinstance(domain, Numbers):
        return domain.whole
    return isinstance(domain, Periods) or all(number.denominator == 1 for number in domain.numbers)


def _spell(shown: object) -> str:
    if isinstance(shown, bool):
        return str(shown).lower()
    if isinstance(shown, datetime):
        return shown.isoformat(sep=" ")
    return shown.isoformat() if isinstance(shown, date) else str(shown)


def _require_few(words: int) -> None:
    if words > MOST_WORDS:
        raise PolicyError(
            "SF-Q113",
            f"A computed text can be one of at most {MOST_WORDS:,} texts.",
            asked=f"{words:,}",
            try_="DATE_TRUNC or FLOOR first, or group by the parts",
        )


# ---- strftime ----------------------------------------------------------------------------------------------

_DIRECTIVES: dict[str, tuple[str, Callable[[datetime], str]]] = {
    "%Y": ("year", lambda at: f"{at.year:04}"),
    "%y": ("year", lambda at: f"{at.year % 100:02}"),
    "%m": ("month", lambda at: f"{at.month:02}"),
    "%-m": ("month", lambda at: f"{at.month}"),
    "%B": ("month", lambda at: MONTH_NAMES[at.month - 1]),
    "%b": ("month", lambda at: MONTH_NAMES[at.month - 1][:3]),
    "%d": ("day", lambda at: f"{at.day:02}"),
    "%-d": ("day", lambda at: f"{at.day}"),
    "%j": ("day", lambda at: f"{at.timetuple().tm_yday:03}"),
    "%A": ("day", lambda at: WEEKDAYS[at.weekday()]),
    "%a": ("day", lambda at: WEEKDAYS[at.weekday()][:3]),
    "%u": ("day", lambda at: f"{at.isoweekday()}"),
    "%w": ("day", lambda at: f"{at.isoweekday() % 7}"),
    "%H": ("hour", lambda at: f"{at.hour:02}"),
    "%-H": ("hour", lambda at: f"{at.hour}"),
    "%M": ("minute", lambda at: f"{at.minute:02}"),
    "%S": ("second", lambda at: f"{at.second:02}"),
}
DIRECTIVES = (*_DIRECTIVES, "%%")
"""What STRFTIME understands: a year, and what lies within it, in English."""
_UNITS = ("year", "month", "day", "hour", "minute", "second")
# Without a year a directive is a function of one of these fields, and all their texts are listed.
_FIELDS: dict[str, tuple[str, ...]] = {
    "month": ("%m", "%-m", "%B", "%b"),
    "day": ("%d", "%-d"),
    "weekday": ("%A", "%a", "%u", "%w"),
}
_FIRST = datetime.combine(date(2024, 1, 1), time.min)
"""A Monday, in a month of 31 days."""
_STARTS = {
    "month": [_FIRST.replace(month=at + 1) for at in range(12)],
    "day": [_FIRST.replace(day=at + 1) for at in range(31)],
    "weekday": [_FIRST.replace(day=at + 1) for at in range(7)],
    "hour": [_FIRST.replace(hour=at) for at in range(24)],
    "minute": [_FIRST.replace(minute=at) for at in range(60)],
    "second": [_FIRST.replace(second=at) for at in range(60)],
}
"""Moments that have each value of a field, in order."""


def format_date(part: LoweredValue, pattern: LoweredValue) -> LoweredValue:
    """Return STRFTIME of a date or timestamp, for a constant pattern."""
    if isinstance(pattern.domain, Periods):  # DuckDB takes them in either order
        part, pattern = pattern, part
    pieces = _split_pattern(require_typed_text(pattern))
    asked = [piece for piece in pieces if piece in _DIRECTIVES]
    if any(piece in ("%Y", "%y", "%j") for piece in asked):
        return _format_period(part, pieces, max((_DIRECTIVES[piece][0] for piece in asked), key=_UNITS.index))
    return join_texts(*(_format_piece(part, piece) for piece in pieces))


def _split_pattern(pattern: str) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        size = 1 if pattern[at] != "%" else 3 if pattern[at + 1 : at + 2] == "-" else 2
        piece = pattern[at : at + size]
        if size > 1 and piece not in DIRECTIVES:
            raise PolicyError(
                "SF-Q110",
                f"STRFTIME does not support '{piece}'.",
                known=" ".join(DIRECTIVES),
                try_="STRFTIME(day, '%Y-%m')",
            )
        pieces.append("%" if piece == "%%" else piece)
        at += size
    return pieces


def _format_period(part: LoweredValue, pieces: list[str], unit: str) -> LoweredValue:
    """Return the text of the year and what lies within it: one for each period between the bounds."""
    whole = dates.truncate_date(part, unit)
    if not isinstance(whole.domain, Periods):
        raise AssertionError(whole)
    _require_few(whole.domain.size)
    starts = [_as_moment(start) for start in whole.domain.show_values()]
    words = ["".join(_write_piece(piece, start) for piece in pieces) for start in starts]
    place = add_integer(whole.value, -whole.domain.low)
    return rewrite_list(whole.derive_value(place, Listed(tuple(words))), words)


def _as_moment(start: date) -> datetime:
    return start if isinstance(start, datetime) else datetime.combine(start, time.min)


def _write_piece(piece: str, start: datetime) -> str:
    return _DIRECTIVES[piece][1](start) if piece in _DIRECTIVES else piece


def _format_piece(part: LoweredValue, piece: str) -> LoweredValue:
    """Return the text of one directive that needs no year, or of a letter that stands for itself."""
    if piece not in _DIRECTIVES:
        return LoweredValue(Constant(0), Listed((piece,)), True, True)
    unit, write = _DIRECTIVES[piece]
    name = next((field for field, known in _FIELDS.items() if piece in known), unit)
    starts, low = _STARTS[name], 0 if name in dates.CLOCK else 1
    make = (
        dates.make_clock_function
        if low == 0
        else lambda field, most: dates.make_field_function(field, 1, most)
    )
    found = make(name, len(starts))(part)
    words = [write(start) for start in starts]
    return rewrite_list(found.derive_value(add_integer(found.value, -low), Listed(tuple(words))), words)
