"""What DuckDB writes in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.dialect import translate_case, write_list
from sfumato.engines.duckdb.patterns import write_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.like import LikePattern

_FIELDS = {"year": "year", "month": "month", "day": "day", "weekday": "isodow"}


class DuckDBDialect:
    """DuckDB's own words, in sessions that connection.py opens."""

    wide = "HUGEINT"
    double = "DOUBLE"
    everything = "GROUP BY ()"
    fence = ""
    person = "replace(CAST(person AS VARCHAR), '-', '')"

    def write_total(self, value: str, reach: int | None) -> str:
        return f"sum({value})"

    def write_histogram(self, place: str, span: int) -> tuple[str, str]:
        """Select every row's place: handing rows over and sorting them is faster than counting in DuckDB."""
        kind = "USMALLINT" if span < 2**16 else "UINTEGER" if span < 2**32 else "BIGINT"
        return f"CAST({place} AS {kind})", ""

    def write_each(self, parts: Sequence[str]) -> str:
        return f"unnest([{', '.join(parts)}])"

    def write_quotient(self, left: str, right: str, kind: str) -> str:
        return f"({left} // {right})"

    def write_entry(self, entries: tuple[int | None, ...], place: str) -> str:
        """Raise places to −1, where there is nothing; DuckDB would count lower ones from the end."""
        return f"{_listed(entries)}[greatest(CAST({place} AS BIGINT), -1) + 1]"

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        """Write the list as one text, which DuckDB parses far faster than as many integers."""
        return f"{part} IN (SELECT unnest({_listed(values)}))"

    def write_text(self, word: str) -> str | None:
        """Refuse halves of surrogate pairs, which no text here has."""
        if any("\ud800" <= each <= "\udfff" for each in word):
            return None
        return f"decode(from_hex('{word.encode().hex()}'))"

    def write_like(self, text: str, pattern: LikePattern) -> str | None:
        """Use DuckDB's own LIKE where it locates pieces in turn; with _ in a pattern it goes back."""
        if self.write_text(pattern.letters) is None:
            return None
        if pattern.is_plain:
            return f"{text} LIKE {self.write_text(pattern.write('%', '_', str))}"
        return write_like(text, pattern, self.write_text)

    def write_fold(self, text: str, upper: bool) -> str:
        return translate_case(text, upper)

    def write_function(self, name: str, number: str) -> str:
        return f"{name}({number})"

    def write_whole(self, number: str, rule: str) -> str:
        """Casts round to the nearest, halves to the even one; round() halves away from zero."""
        rounded = {"even": number, "away": f"round({number})", "floor": f"floor({number})"}.get(
            rule, f"trunc({number})"
        )
        return f"CAST({rounded} AS BIGINT)"

    def write_calendar(self, days: str, field: str) -> str:
        return f"{_FIELDS[field]}(DATE '1970-01-01' + CAST({days} AS INTEGER))"


def _listed(entries: tuple[int | None, ...]) -> str:
    return f"CAST('[{write_list(entries)}]' AS BIGINT[])"
