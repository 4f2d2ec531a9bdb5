"""What PostgreSQL writes in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.dialect import write_list
from sfumato.engines.like import LikePattern, escape_letter, write_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIELDS = {"year": "year", "month": "month", "day": "day", "weekday": "isodow"}


_ABSENT = -(2**63) + 1
"""No entry of a lookup is as far from zero."""


_LN2 = "CAST('0.6931471805599453' AS DOUBLE PRECISION)"


class PostgresDialect:
    """PostgreSQL's own words, in sessions that connection.py opens."""

    wide = "NUMERIC"
    double = "DOUBLE PRECISION"
    everything = "GROUP BY ()"
    fence = " OFFSET 0"
    person = "replace(CAST(person AS TEXT), '-', '')"

    def write_total(self, value: str, reach: int | None) -> str:
        return f"sum({value})"

    def write_histogram(self, place: str, span: int) -> tuple[str, str]:
        return f"CAST({place} AS BIGINT), count(*)", "GROUP BY 1"

    def write_each(self, parts: Sequence[str]) -> str:
        return f"unnest(ARRAY[{', '.join(parts)}])"

    def write_quotient(self, left: str, right: str, kind: str) -> str:
        """Use div, which is exact; / rounds after some digits."""
        return f"div({left}, {right})"

    def write_entry(self, entries: tuple[int | None, ...], place: str) -> str:
        """Bring places from far outside near, where there is nothing either, so that they fit an index.

        An array that has NULLs is walked from its start, so a number that no entry has stands for them.
        """
        known = _listed(tuple(_ABSENT if entry is None else entry for entry in entries))
        found = f"({known})[CAST(least(greatest({place}, -1), {len(entries)}) AS INTEGER) + 1]"
        return f"nullif({found}, {_ABSENT})" if None in entries else found

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        return f"{part} = ANY ({_listed(values)})"

    def write_text(self, word: str) -> str | None:
        """Refuse the character 0 and halves of surrogate pairs, which no text here has."""
        if "\0" in word or any("\ud800" <= each <= "\udfff" for each in word):
            return None
        return f"convert_from(decode('{word.encode().hex()}', 'hex'), 'UTF8')"

    def write_like(self, text: str, pattern: LikePattern) -> str | None:
        """Compare the last piece at the end of the text, and leave the others to PostgreSQL's LIKE.

        It would try the last piece at every place. Of the others it takes each at its leftmost place, and
        gives up as soon as one is not found.
        """
        if self.write_text(pattern.letters) is None:
            return None
        if not pattern.last:
            return self._like(text, pattern.write("%", "_", escape_letter))
        start = LikePattern(pattern.first, pattern.middle, ()).write("%", "_", escape_letter)
        size = len(pattern.last)
        end = self._like(f"right({text}, {size})", write_piece(pattern.last))
        return f"({end} AND {self._like(f'left({text}, -{size})', start)})"

    def _like(self, text: str, pattern: str) -> str:
        return f"{text} LIKE {self.write_text(pattern)} ESCAPE '\\'"

    def write_fold(self, text: str, upper: bool) -> str:
        """Use the collation C, which has no other letters; translate would take a hundred times as long."""
        return f'{"upper" if upper else "lower"}({text} COLLATE "C")'

    def write_function(self, name: str, number: str) -> str:
        """Write log2 by natural logarithms; log10 is called log."""
        if name == "log2":
            return f"(ln({number}) / {_LN2})"
        if name == "round":
            return f"(sign({number}) * floor(abs({number}) + 0.5))"
        return f"{'log' if name == 'log10' else name}({number})"

    def write_whole(self, number: str, rule: str) -> str:
        """Casts round to the nearest, halves to the even one, and so does round() of doubles."""
        away = f"sign({number}) * floor(abs({number}) + 0.5)"
        rounded = {"even": number, "away": away, "floor": f"floor({number})"}.get(rule, f"trunc({number})")
        return f"CAST({rounded} AS BIGINT)"

    def write_calendar(self, days: str, field: str) -> str:
        day = f"(DATE '1970-01-01' + CAST({days} AS INTEGER))"
        return f"CAST(extract({_FIELDS[field]} FROM {day}) AS BIGINT)"


def _listed(entries: tuple[int | None, ...]) -> str:
    return f"CAST('{{{write_list(entries)}}}' AS BIGINT[])"
