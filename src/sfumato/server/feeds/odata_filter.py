"""The $filter of OData, read into a function over rows.

What may be written is a closed list: comparisons, `and`, `or`, `not`, `in`, and a few functions of texts and
dates. Types are checked before any row is looked at, so an error says nothing about rows.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sfumato.errors import UsageError

LONGEST_FILTER = 4_000
MOST_TOKENS = 200
_DEEPEST = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')"
    r"|(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))"
    r"|(?P<day>\d{4}-\d\d-\d\d)"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign>[(),]))",
    re.UNICODE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
NUMBER, TEXT, TRUTH, DAY, MOMENT, NOTHING = "number", "text", "truth", "day", "moment", "null"
KINDS = {
    "int64": NUMBER,
    "double": NUMBER,
    "string": TEXT,
    "bool": TRUTH,
    "date32[day]": DAY,
    "timestamp[s]": MOMENT,
}
_FUNCTIONS: dict[str, tuple[tuple[str, ...], str, Callable[..., Any]]] = {
    "contains": ((TEXT, TEXT), TRUTH, lambda text, part: part in text),
    "startswith": ((TEXT, TEXT), TRUTH, str.startswith),
    "endswith": ((TEXT, TEXT), TRUTH, str.endswith),
    "tolower": ((TEXT,), TEXT, str.lower),
    "toupper": ((TEXT,), TEXT, str.upper),
    "trim": ((TEXT,), TEXT, str.strip),
    "length": ((TEXT,), NUMBER, len),
    "year": ((DAY,), NUMBER, lambda day: day.year),
    "month": ((DAY,), NUMBER, lambda day: day.month),
    "day": ((DAY,), NUMBER, lambda day: day.day),
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A part of a filter: what kind of value it gives, and how to compute it of a row; None is unknown."""

    kind: str
    compute: Callable[[Row], Any]


def parse_filter(text: str, columns: Mapping[str, str]) -> Callable[[Row], bool]:
    """Return the condition that a $filter states about rows whose columns have these kinds."""
    part = _Reader(_split(text), columns).read_all()
    if part.kind != TRUTH:
        raise filter_error("it is no condition")
    return lambda row: part.compute(row) is True


def filter_error(why: str) -> UsageError:
    """Return the refusal of a filter."""
    return UsageError(
        "SF-F121", "This $filter cannot be read.", why=why, try_="$filter=ward eq 'A' and n ge 100"
    )


def _split(text: str) -> list[tuple[str, str]]:
    if len(text) > LONGEST_FILTER:
        raise filter_error(f"it is longer than {LONGEST_FILTER:,} characters")
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise filter_error(f"character {at + 1} begins nothing that is known here")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    if len(tokens) > MOST_TOKENS:
        raise filter_error(f"it has more than {MOST_TOKENS} words")
    return tokens


class _Reader:
    """Reads tokens from left to right, each rule one method, loosest binding first."""

    def __init__(self, tokens: list[tuple[str, str]], columns: Mapping[str, str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0
        self._columns = columns

    def read_all(self) -> FilterPart:
        part = self._read_or()
        if self._at < len(self._tokens):
            raise filter_error(f"'{self._tokens[self._at][1][:30]}' was not expected")
        return part

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _take(self, *values: str) -> bool:
        kind, value = self._next()
        if kind in ("word", "sign") and value in values:
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise filter_error(f"'{sign}' is missing")

    def _read_or(self) -> FilterPart:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise filter_error("it has too many parentheses")
        part = self._read_and()
        while self._take("or"):
            part = _join(part, self._read_and(), True)
        self._depth -= 1
        return part

    def _read_and(self) -> FilterPart:
        part = self._read_not()
        while self._take("and"):
            part = _join(part, self._read_not(), False)
        return part

    def _read_not(self) -> FilterPart:
        turned = 0
        while self._take("not"):
            turned += 1
        part = self._read_comparison()
        if not turned:
            return part
        _require_truth(part)
        return part if turned % 2 == 0 else FilterPart(TRUTH, lambda row: _negate(part.compute(row)))

    def _read_comparison(self) -> FilterPart:
        left = self._read_value()
        kind, word = self._next()
        if kind == "word" and word in _COMPARISONS:
            self._at += 1
            return _compare(word, left, self._read_value())
        if self._take("in"):
            self._expect("(")
            choices = [self._read_value()]
            while self._take(","):
                choices.append(self._read_value())
            self._expect(")")
            equal = [_compare("eq", left, each) for each in choices]
            part = equal[0]
            for each in equal[1:]:
                part = _join(part, each, True)
            return part
        return left

    def _read_value(self) -> FilterPart:
        kind, value = self._next()
        self._at += 1
        if kind == "sign" and value == "(":
            part = self._read_or()
            self._expect(")")
            return part
        if kind == "word":
            return self._read_word(value)
        constant, of = _read_constant(kind, value)
        return FilterPart(of, lambda row: constant)

    def _read_word(self, word: str) -> FilterPart:
        if self._next() == ("sign", "(") and word in _FUNCTIONS:
            self._at += 1
            arguments = [self._read_value()]
            while self._take(","):
                arguments.append(self._read_value())
            self._expect(")")
            return _call(word, arguments)
        if word in self._columns:
            return FilterPart(self._columns[word], operator.itemgetter(word))
        if word in ("true", "false"):
            return FilterPart(TRUTH, lambda row: word == "true")
        if word == "null":
            return FilterPart(NOTHING, lambda row: None)
        raise filter_error(f"there is no column or function '{word[:60]}'")


def _read_constant(kind: str, value: str) -> tuple[Any, str]:
    try:
        match kind:
            case "text":
                return value[1:-1].replace("''", "'"), TEXT
            case "day":
                return date.fromisoformat(value), DAY
            case "moment":
                return _drop_zone(datetime.fromisoformat(value)), MOMENT
            case "number":
                return (int(value) if value.lstrip("-").isdigit() else float(value)), NUMBER
    except (ValueError, OverflowError):
        raise filter_error(f"'{value[:40]}' is no date") from None
    raise filter_error("it ends too early, or two operators follow each other")


def _drop_zone(moment: datetime) -> datetime:
    """Return a moment in UTC as answers have it: without saying so."""
    offset = moment.utcoffset()
    return moment.replace(tzinfo=None) - (offset if offset is not None else moment - moment)


def _compare(word: str, left: FilterPart, right: FilterPart) -> FilterPart:
    kinds = {left.kind, right.kind} - {NOTHING}
    if kinds == {DAY, MOMENT}:
        left, right = _as_moment(left), _as_moment(right)
    elif len(kinds) > 1:
        raise filter_error(f"a {left.kind} is compared with a {right.kind}")
    holds, equality = _COMPARISONS[word], word in ("eq", "ne")

    def compute(row: Row) -> bool | None:
        one, other = left.compute(row), right.compute(row)
        # OData compares null by eq and ne; every other comparison with it is unknown.
        if one is None or other is None:
            return holds(one, other) if equality else None
        return holds(one, other)

    return FilterPart(TRUTH, compute)


def _as_moment(part: FilterPart) -> FilterPart:
    if part.kind != DAY:
        return part

    def compute(row: Row) -> datetime | None:
        day = part.compute(row)
        return None if day is None else datetime(day.year, day.month, day.day)  # noqa: DTZ001  in UTC

    return FilterPart(MOMENT, compute)


def _call(name: str, arguments: list[FilterPart]) -> FilterPart:
    kinds, gives, function = _FUNCTIONS[name]
    given = tuple(DAY if each.kind == MOMENT and kinds == (DAY,) else each.kind for each in arguments)
    if given != kinds:
        raise filter_error(f"{name} takes {' and '.join(kinds)}")

    def compute(row: Row) -> Any:
        values = [each.compute(row) for each in arguments]
        return None if None in values else function(*values)

    return FilterPart(gives, compute)


def _join(left: FilterPart, right: FilterPart, stops_at: bool) -> FilterPart:
    """Return `or` where stops_at is true and `and` where it is false, with unknown as a third value."""
    _require_truth(left)
    _require_truth(right)

    def compute(row: Row) -> bool | None:
        parts = left.compute(row), right.compute(row)
        if stops_at in parts:
            return stops_at
        return None if None in parts else not stops_at

    return FilterPart(TRUTH, compute)


def _negate(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _require_truth(part: FilterPart) -> None:
    if part.kind not in (TRUTH, NOTHING):
        raise filter_error("and, or and not take conditions")
