"""Where the SQL of engines differs. Everything else of a program is the same text on all of them."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.like import LikePattern


class Dialect(Protocol):
    """Writes what engines/values.py states in the words of one engine."""

    wide: str
    """The type of integers that no program can overflow."""

    double: str
    """The type of floating-point numbers of 64 bits."""

    everything: str
    """What stands in the place of GROUP BY where all rows are one group."""

    fence: str
    """What keeps a subquery's values from being written out again wherever they are used."""

    person: str
    """What a unit is known by in all snapshots, as 32 digits: the same on every engine."""

    def write_histogram(self, place: str, span: int) -> tuple[str, str]:
        """Return what to select and how to group rows at a place below `span`.

        Either the place of every row is selected, or each place that occurs and how often.
        """

    def write_each(self, parts: Sequence[str]) -> str:
        """Make as many rows of one as there are parts, each with one of them."""

    def write_total(self, value: str, reach: int | None) -> str:
        """Sum a value, missing where all are. `reach` is how far from zero it lies, or None if it may need
        more than 64 bits."""

    def write_quotient(self, left: str, right: str, kind: str) -> str:
        """Divide integers of this type without a remainder; the quotient is missing where a part is."""

    def write_entry(self, entries: tuple[int | None, ...], place: str) -> str:
        """Look up the entry of a list at a place from 0; it is missing outside."""

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        """Test whether an integer is one of many."""

    def write_text(self, word: str) -> str | None:
        """Write a text as hexadecimal digits; return None for one that no column of this engine can hold."""

    def write_like(self, text: str, pattern: LikePattern) -> str | None:
        """Test a text by a pattern without going back; None where no text of this engine matches.

        Pieces at the ends are compared once, those between them at most once at every place.
        """

    def write_function(self, name: str, number: str) -> str:
        """Write a function of a double, of those that `values.RealFunction` lists, where it has a value."""

    def write_whole(self, number: str, rule: str) -> str:
        """Write a double of less than 63 bits as an integer, by a rule of `values.Whole`."""

    def write_fold(self, text: str, upper: bool) -> str:
        """Write the 26 letters of English in the other case, and leave all others as they are."""

    def write_calendar(self, days: str, field: str) -> str:
        """Take the year, month, day or weekday of a number of days since 1970."""


def translate_case(text: str, upper: bool) -> str:
    """Change the case of the letters of English; engines' own lower and upper follow a locale or Unicode."""
    here, there = (ascii_lowercase, ascii_uppercase) if upper else (ascii_uppercase, ascii_lowercase)
    return f"translate({text}, '{here}', '{there}')"


@lru_cache(maxsize=32)
def write_list(entries: tuple[int | None, ...], missing: str = "NULL") -> str:
    """Return integers in decimal digits, separated by commas, and this word for those that are missing.

    The rounds of a fit look the same few tables up again and again; each has thousands of entries.
    """
    return ", ".join([missing if entry is None else f"{entry:d}" for entry in entries])
