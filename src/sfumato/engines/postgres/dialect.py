"""What PostgreSQL writes in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.dialect import escape_like, write_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.like import LikePattern

_FIELDS = {"year": "year", "month": "month", "day": "day", "weekday": "isodow"}


class PostgresDialect:
    """PostgreSQL's own words, in sessions that connection.py opens."""

    wide = "NUMERIC"
    everything = "GROUP BY ()"
    fence = " OFFSET 0"

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
        """Bring places from far outside near, where there is nothing either, so that they fit an index."""
        return f"({_listed(entries)})[CAST(least(greatest({place}, -1), {len(entries)}) AS INTEGER) + 1]"

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        return f"{part} = ANY ({_listed(values)})"

    def write_text(self, word: str) -> str | None:
        """Refuse the character 0 and halves of surrogate pairs, which no text here has."""
        if "\0" in word or any("\ud800" <= each <= "\udfff" for each in word):
            return None
        return f"convert_from(decode('{word.encode().hex()}', 'hex'), 'UTF8')"

    def write_like(self, text: str, pattern: LikePattern) -> str | None:
        """Use PostgreSQL's own LIKE: it gives up as soon as a piece is not found, and so never goes back."""
        known = self.write_text(pattern.write("%", "_", escape_like))
        return None if known is None else f"{text} LIKE {known} ESCAPE '\\'"

    def write_calendar(self, days: str, field: str) -> str:
        day = f"(DATE '1970-01-01' + CAST({days} AS INTEGER))"
        return f"CAST(extract({_FIELDS[field]} FROM {day}) AS BIGINT)"


def _listed(entries: tuple[int | None, ...]) -> str:
    return f"CAST('{{{write_list(entries)}}}' AS BIGINT[])"
