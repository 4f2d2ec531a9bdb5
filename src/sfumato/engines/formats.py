"""How texts write numbers and dates: the formats that are read besides plain numbers and ISO 8601.

Each format is one rule for one row, written as SQL: it turns a text into a plain number or an ISO date, and
leaves it missing or as it is otherwise. Which format a column has is declared. Nothing here looks at other
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER_FORMATS = {"1,234.56": (",", "."), "1.234,56": (".", ",")}
"""The character between groups of three digits and the one before the fraction, by the format's name.

Spaces and apostrophes between groups are read in both.
"""

DATE_FORMATS = (
    "31/12/2024", "12/31/2024", "31/12/24", "12/31/24",
    "2024/12/31", "20241231", "31 Dec 2024", "Dec 31 2024",
)  # fmt: skip
"""Each name writes 31 December 2024. A point or a dash may stand for a slash.

Years of two digits are from 1969 to 2068, as in POSIX.
"""

_SPACES = " '\u00a0\u2019\u202f"
"""Spaces and apostrophes that may stand between groups of three digits."""

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_REST = "(|[T ,].*)"
"""What may follow a date: a time of day and a zone, which are read as in ISO 8601."""
_SEPARATOR = "[-./]"
_GAP = "[-./, ]*"
_SHORT_YEAR = "SHORT YEAR"
"""Stands for the years of two digits of each century."""
_CENTURIES = {"20": "(6[0-8]|[0-5][0-9])", "19": "(69|[7-9][0-9])"}
_WRITTEN = {
    "31/12/2024": (f"([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}([0-9]{{4}})", r"\3-0\2-0\1"),
    "12/31/2024": (f"([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}([0-9]{{4}})", r"\3-0\1-0\2"),
    "31/12/24": (f"([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}{_SHORT_YEAR}", r"\3-0\2-0\1"),
    "12/31/24": (f"([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}{_SHORT_YEAR}", r"\3-0\1-0\2"),
    "2024/12/31": (f"([0-9]{{4}}){_SEPARATOR}([0-9]{{1,2}}){_SEPARATOR}([0-9]{{1,2}})", r"\1-0\2-0\3"),
    "20241231": ("([0-9]{4})([0-9]{2})([0-9]{2})", r"\1-\2-\3"),
    "31 Dec 2024": (f"([0-9]{{1,2}}){_GAP}#([0-9]{{2}})#{_GAP}([0-9]{{4}})", r"\3-\2-0\1"),
    "Dec 31 2024": (f"#([0-9]{{2}})#{_GAP}([0-9]{{1,2}})[-./, ]+([0-9]{{4}})", r"\3-\1-0\2"),
}


@dataclass(frozen=True, slots=True)
class TextFunctions:
    """Functions on texts, as an engine writes them. Patterns match from the first character on."""

    quote: Callable[[str], str]
    """Writes a literal."""
    matches: Callable[[str, str], str]
    """Writes whether a whole text matches a pattern."""
    replace: Callable[[str, str, str], str]
    r"""Writes a text in which a pattern is replaced once; \1 is the first group."""


def write_plain_number(text: str, name: str, functions: TextFunctions) -> str:
    """Write a text in a number format as a plain number; a text of another form becomes missing."""
    group, point = NUMBER_FORMATS[name]
    groups = f"[{group}{_SPACES}]"
    digits = f"(?:[0-9]{{1,3}}(?:{groups}[0-9]{{3}})+|[0-9]+)"
    fraction = f"[{point}][0-9]+"
    pattern = rf"[ \t]*[+-]?(?:{digits}(?:{fraction})?|{fraction})[ \t]*"
    plain = f"translate({text}, {functions.quote(point + group + _SPACES)}, '.')"
    return f"CASE WHEN {functions.matches(text, pattern)} THEN {plain} END"


def write_iso_date(text: str, name: str, functions: TextFunctions) -> str:
    """Write a text in a date format as ISO 8601; a text of another form stays as it is."""
    replace = functions.replace
    if "Dec" in name:
        for number, month in enumerate(_MONTHS, start=1):
            text = replace(text, f"^([^A-Za-z#]*){_any_case(month)}[.]?([^A-Za-z].*)$", rf"\1#{number:02}#\2")
    pattern, iso = _WRITTEN[name]
    centuries = _CENTURIES if _SHORT_YEAR in pattern else {"": ""}
    for century, years in centuries.items():
        dated = pattern.replace(_SHORT_YEAR, years)
        text = replace(text, f"^ *{dated}{_REST}$", rf"{century}{iso}\4")
    # One-digit days and months have been given a zero, and those of two digits one too many.
    text = replace(text, "^([0-9]{4})-0([0-9]{2})-", r"\1-\2-")
    text = replace(text, "^([0-9]{4}-[0-9]{2})-0([0-9]{2})(.*)$", r"\1-\2\3")
    text = replace(text, "^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:,| ) *([0-9])", r"\1 \2")
    text = replace(text, "^([0-9-]{10}[T ])([0-9]:.*)$", r"\10\2")
    return _write_24_hours(text, functions)


def _write_24_hours(text: str, functions: TextFunctions) -> str:
    """Write a time of day such as 2:30 PM with hours from 0 to 23. Only groups 1 to 9 have a number."""
    day, clock = "^([0-9-]{10}[T ])", "((?::[0-9]{2}){1,2}) ?"
    changed = functions.replace(text, f"{day}12{clock}[aA][mM] *$", r"\100\2")
    for hour in range(1, 12):
        changed = functions.replace(changed, f"{day}{hour:02}{clock}[pP][mM] *$", rf"\1{hour + 12}\2")
    for hours, half in (("0[1-9]|1[01]", "[aA]"), ("12", "[pP]")):
        changed = functions.replace(changed, f"{day}({hours}){clock}{half}[mM] *$", r"\1\2\3")
    return f"CASE WHEN {functions.matches(text, '.*[aApP][mM] *')} THEN {changed} ELSE {text} END"


def _any_case(month: str) -> str:
    """Write a pattern for the name of a month or its first three letters, in small or large letters."""
    letters = [f"[{letter}{letter.upper()}]" for letter in month]
    first, rest = "".join(letters[:3]), "".join(letters[3:])
    also = "|[tT]" if month == "september" else ""
    return f"{first}(?:{rest}{also})?" if rest else first
