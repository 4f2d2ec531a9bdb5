"""What Spark writes in its own way, in sessions that connection.py makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.dialect import translate_case, write_list
from sfumato.engines.spark.patterns import write_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.like import LikePattern

_DAYS = {
    "year": "year({})",
    "month": "month({})",
    "day": "day({})",
    "weekday": "(weekday({}) + 1)",
}
_SPLIT = 10**6
_LIMB = 21
"""Bits: 2^42 numbers of so many, and more rows than that there are not, add up to less than 2^63."""


class SparkDialect:
    """Spark's own words, in sessions that connection.py opens."""

    wide = "DECIMAL(38, 0)"
    double = "DOUBLE"
    everything = "HAVING true"
    fence = ""
    person = "lower(hex(person))"

    def write_histogram(self, place: str, span: int) -> tuple[str, str]:
        return f"CAST({place} AS BIGINT), count(*)", "GROUP BY 1"

    def write_each(self, parts: Sequence[str]) -> str:
        return f"explode(array({', '.join(parts)}))"

    def write_quotient(self, left: str, right: str, kind: str) -> str:
        """Use div in 64 bits, where it is exact.

        Quotients of decimals have six digits after the point, rounded, and 32 before it. So only multiples
        are divided, and what is above the sixth digit first. Each number is bound to a name once.
        """
        if kind != self.wide:
            return f"({left} div {right})"
        high, rest = _quotient("x.a", f"CAST({_SPLIT} AS {self.wide})"), f"x.a % {_SPLIT}"
        split = f"x -> {_named(high=high, low=rest, b='x.b')}"
        left_over = f"(y.high % y.b) * {_SPLIT} + y.low"
        again = f"y -> {_named(q=_quotient('y.high', 'y.b'), v=left_over, b='y.b')}"
        joined = f"z -> CAST(z.q * {_SPLIT} + {_quotient('z.v', 'z.b')} AS {self.wide})"
        pair = f"array_repeat({_named(a=left, b=right)}, 1)"
        return f"get(transform(transform(transform({pair}, {split}), {again}), {joined}), 0)"

    def write_total(self, value: str, reach: int | None) -> str:
        """Add up in as few sums of 64 bits as the reach needs, at most three.

        Sums of decimals take several times as long.
        """
        if reach is None:
            return f"sum(CAST({value} AS {self.wide}))"
        number, last = f"CAST({value} AS BIGINT)", min(max(reach.bit_length() - 1, 0) // _LIMB, 2)
        limbs = [f"{_above(number, at)} & {2**_LIMB - 1}" for at in range(last)] + [_above(number, last)]
        sums = [f"CAST(sum({limb}) AS {self.wide})" for limb in limbs]
        shifted = [f"{part} * {2 ** (_LIMB * at)}" if at else part for at, part in enumerate(sums)]
        return f"({' + '.join(reversed(shifted))})"

    def write_entry(self, entries: tuple[int | None, ...], place: str) -> str:
        """Bring places from far outside near, where there is nothing either, so that they fit an index."""
        near = f"CAST(greatest(least({place}, {len(entries)}), -1) AS INT)"
        return f"CASE WHEN {place} IS NOT NULL THEN get({_listed(entries)}, {near}) END"

    def write_membership(self, part: str, values: tuple[int, ...]) -> str:
        return f"{part} IN ({write_list(values)})"

    def write_text(self, word: str) -> str | None:
        """Refuse halves of surrogate pairs, which no text here has."""
        if any("\ud800" <= each <= "\udfff" for each in word):
            return None
        return f"CAST(X'{word.encode().hex()}' AS STRING)"

    def write_like(self, text: str, pattern: LikePattern) -> str | None:
        """Compare both ends and locate the pieces between them; Spark's LIKE is a regular expression."""
        return write_like(text, pattern, self.write_text)

    def write_fold(self, text: str, upper: bool) -> str:
        return translate_case(text, upper)

    def write_function(self, name: str, number: str) -> str:
        """Write rounding by rint, which stays a double; Spark's own floor gives integers of 64 bits."""
        match name:
            case "floor":
                return _floor(number)
            case "trunc":
                return f"(signum({number}) * {_floor(f'abs({number})')})"
            case "round":
                return f"(signum({number}) * {_floor(f'(abs({number}) + 0.5D)')})"
        return f"{name}({number})"

    def write_whole(self, number: str, rule: str) -> str:
        """Casts cut off what is after the point."""
        away = f"signum({number}) * CAST(floor(abs({number}) + 0.5D) AS DOUBLE)"
        floor = f"floor({number})"
        rounded = {"even": f"rint({number})", "away": away, "floor": floor, "zero": number}[rule]
        return f"CAST({rounded} AS BIGINT)"

    def write_calendar(self, days: str, field: str) -> str:
        return _DAYS[field].format(f"date_from_unix_date(CAST({days} AS INT))")


def _floor(number: str) -> str:
    """Round a double down to a double."""
    return f"(rint({number}) - CASE WHEN rint({number}) > {number} THEN 1D ELSE 0D END)"


def _above(number: str, at: int) -> str:
    """Drop the lowest limbs of a number, rounding down."""
    return f"shiftright({number}, {_LIMB * at})" if at else number


def _quotient(left: str, right: str) -> str:
    """Divide what is left of a number without its remainder, so that nothing is rounded."""
    return f"CAST(({left} - {left} % {right}) / {right} AS {SparkDialect.wide})"


def _named(**parts: str) -> str:
    """Write a struct by a function: behind the word struct Spark no longer reads >> as a shift."""
    inside = ", ".join(f"'{name}', {part}" for name, part in parts.items())
    return f"named_struct({inside})"


def _listed(entries: tuple[int | None, ...]) -> str:
    return f"from_json('[{write_list(entries, missing='null')}]', 'array<bigint>')"
