"""Where the SQL of engines differs. Everything else of a program is the same text on all of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Dialect(Protocol):
    """Words of one engine for meanings that engines/values.py states."""

    wide: str
    """The type of integers that no program can overflow."""

    everything: str
    """What stands in the place of GROUP BY where all rows are one group."""

    fence: str
    """What keeps a subquery's values from being written out again wherever they are used."""

    def write_histogram(self, place: str, span: int) -> tuple[str, str]:
        """What is selected of rows at a place below `span`, and how they are grouped: the place of every row,
        or each place that occurs and how often."""

    def write_each(self, parts: Sequence[str]) -> str:
        """So many rows for one, each with one of the parts."""

    escape: str
    """What stands behind a pattern in which a backslash makes the next character itself."""

    def write_total(self, value: str, reach: int | None) -> str:
        """A sum; missing where all are. `reach` is how far from zero a value of 64 bits can be; wider values
        have none."""

    def write_quotient(self, left: str, right: str, kind: str) -> str:
        """A quotient without its fraction, of integers of this type; missing parts give a missing one."""

    def write_entry(self, entries: tuple[int | None, ...], place: str) -> str:
        """The entry of a list at a place from 0; missing outside."""

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        """Whether an integer is among many."""

    def write_text(self, word: str) -> str | None:
        """A text as hexadecimal digits; nothing for one that no column of this engine can hold."""

    def write_calendar(self, days: str, field: str) -> str:
        """The year, month, day or weekday of a number of days since 1970."""


@lru_cache(maxsize=32)
def write_list(entries: tuple[int | None, ...], missing: str = "NULL") -> str:
    """Return integers in decimal digits, separated by commas, and this word for those that are missing.

    The rounds of a fit look the same few tables up again and again; each has thousands of entries.
    """
    return ", ".join([missing if entry is None else f"{entry:d}" for entry in entries])
