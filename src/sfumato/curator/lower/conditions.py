"""Conditions of a question on the integers of a row. Bounds and grids come from domains, never from data."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import kind_of_value
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods, count_periods
from sfumato.curator.lower.lowered_value import LoweredValue, align_periods, align_steps
from sfumato.curator.question import relation as asked
from sfumato.engines.values import (
    Among,
    AtLeast,
    AtMost,
    Column,
    Every,
    Folded,
    Less,
    Lookup,
    Matches,
    Missing,
    Not,
    Predicate,
    Same,
    Some,
    Spelled,
    Text,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.domains import Scalar
    from sfumato.curator.question.relation import Condition, Expression

    Lower = Callable[[Expression], LoweredValue]

_QUOTE = "'"
"""Around a name in a sentence, and not in SQL, where it would make a text of it."""
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def build_predicate(node: Condition, lower: Lower) -> Predicate:
    """A condition, given how to lower the expressions in it."""
    match node:
        case asked.Comparison(left, operator, asked.Literal(value)) if not isinstance(left, asked.Literal):
            return _with_literal(lower(left), operator, value, _words(left))
        case asked.Comparison(asked.Literal(value), operator, right) if not isinstance(right, asked.Literal):
            return _with_literal(lower(right), _TURNED[operator], value, _words(right))
        case asked.Comparison(left, operator, right):
            return compare_values(lower(left), operator, lower(right))
        case asked.Like(text, pattern):
            return match_pattern(lower(text), pattern)
        case asked.IsNull(part):
            return Missing(lower(part).value)
        case asked.IsTrue(part):
            return _holds(lower(part), _words(part))
        case asked.Negation(part):
            return Not(build_predicate(part, lower))
        case asked.Conjunction(parts):
            return Every(tuple(build_predicate(part, lower) for part in parts))
        case asked.Disjunction(parts):
            return Some(tuple(build_predicate(part, lower) for part in parts))


# ---- with a literal ----------------------------------------------------------------------------------------


def _with_literal(part: LoweredValue, operator: str, value: Scalar | None, words: str) -> Predicate:
    if value is None:
        raise PolicyError("SF-Q134", "Nothing is equal to NULL, nor larger or smaller.", try_="IS NULL")
    match part.domain:
        case Numbers() as domain:
            place = _number(words, value) / domain.step
            return compare_with_constant(
                part, operator, Fraction(_nearest(place)) if domain.rounded else place
            )
        case Periods() as domain:
            return compare_with_constant(part, operator, count_periods(_moment(words, value), domain.unit))
        case Listed() as domain:
            return _with_listed(part, domain, operator, value, words)
        case FreeTexts():
            return _spelled(part, operator, value, words)


def compare_with_constant(part: LoweredValue, operator: str, place: Fraction) -> Predicate:
    """Against an exact place on the grid of the part's integers."""
    value = part.value
    match operator:
        case ">=":
            return AtLeast(value, math.ceil(place))
        case ">":
            return AtLeast(value, math.floor(place) + 1)
        case "<=":
            return AtMost(value, math.floor(place))
        case "<":
            return AtMost(value, math.ceil(place) - 1)
        case _:
            return Among(value, (int(place),) if place.denominator == 1 else ())


def _with_listed(part: LoweredValue, domain: Listed, operator: str, value: Scalar, words: str) -> Predicate:
    if operator == "=":
        return Among(part.value, (_code(domain, value, words),))
    if not domain.numbers:
        raise PolicyError(
            "SF-Q110",
            f"{words} has no order, so {operator} cannot be asked of it.",
            try_=f"{words.strip(_QUOTE)} IN (…)",
        )
    bound = _number(words, value)
    holds = {">=": bound.__le__, ">": bound.__lt__, "<=": bound.__ge__, "<": bound.__gt__}[operator]
    return Among(part.value, tuple(code for code, number in enumerate(domain.numbers) if holds(number)))


def _code(domain: Listed, value: Scalar, words: str) -> int:
    """By kind and value, since to Python True is 1."""
    for code, listed in enumerate(domain.values):
        if kind_of_value(listed) == kind_of_value(value) and listed == value:
            return code
    raise PolicyError(
        "SF-Q112", f"{value} is not one of the declared values of {words}.", declared=_some(domain)
    )


def _spelled(part: LoweredValue, operator: str, value: Scalar, words: str) -> Predicate:
    if operator != "=":
        raise PolicyError("SF-Q110", f"{words} has no order.", try_=f"{words.strip(_QUOTE)} = '…', or LIKE")
    if not isinstance(value, str):
        raise PolicyError(
            "SF-Q111", f"{words} is a text and is compared with a {kind_of_value(value)}.", try_="'…'"
        )
    return Spelled(require_text(part), (value,))


def _number(words: str, value: Scalar) -> Fraction:
    if isinstance(value, Fraction):
        return value
    raise PolicyError(
        "SF-Q111",
        f"{words} is a number and is compared with a {kind_of_value(value)}.",
        try_=f"{words.strip(_QUOTE)} >= 10",
    )


def _moment(words: str, value: Scalar) -> date:
    if isinstance(value, date):
        return value
    moment = parse_moment(value) if isinstance(value, str) else None
    if moment is None:
        raise PolicyError(
            "SF-Q131", f"{words} is compared with dates.", try_=f"{words.strip(_QUOTE)} >= DATE '2024-01-31'"
        )
    return moment


def parse_moment(text: str) -> date | None:
    """A date or a moment as people write it, or none."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text)
        if re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", text, re.ASCII):
            return datetime.fromisoformat(text)
    except ValueError:
        return None
    return None


def _holds(part: LoweredValue, words: str) -> Predicate:
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], bool):
        return Among(part.value, (_code(part.domain, True, words),))
    raise PolicyError("SF-Q105", f"{words} is not a condition.", try_="age >= 65")


# ---- with another column -----------------------------------------------------------------------------------


def compare_values(left: LoweredValue, operator: str, right: LoweredValue) -> Predicate:
    one, other = make_comparable(left, right, ordered=operator != "=")
    match operator:
        case "=":
            return Same(one.value, other.value)
        case "<":
            return Less(one.value, other.value)
        case ">":
            return Less(other.value, one.value)
        case "<=":
            return Not(Less(other.value, one.value))
        case _:
            return Not(Less(one.value, other.value))


def make_comparable(
    left: LoweredValue, right: LoweredValue, *, ordered: bool = False
) -> tuple[LoweredValue, LoweredValue]:
    """Both as integers of one meaning, or both as texts."""
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        return align_periods(left, right)
    words = [each for each in (left, right) if _is_text(each)]
    if not words:
        one, other = align_steps([left, right], "One side of a comparison")[0]
        return one, other
    if ordered or len(words) == 1:
        raise PolicyError("SF-Q110", "Texts are compared with texts, by = alone.", try_="ward = 'A'")
    if isinstance(left.domain, Listed) and isinstance(right.domain, Listed):
        return _recoded(left, right.domain), right
    if isinstance(left.domain, Listed) or isinstance(right.domain, Listed):
        raise PolicyError(
            "SF-Q110", "A listed text is not compared with a free one.", try_="declare both with one_of"
        )
    return left, right


def _recoded(part: LoweredValue, as_in: Listed) -> LoweredValue:
    """Texts of one list by their places in another; missing where they are not in it."""
    if part.domain == as_in or not isinstance(part.domain, Listed):
        return part
    places = {value: place for place, value in enumerate(as_in.values)}
    entries = tuple(places.get(value) for value in part.domain.values)
    return part.derive_value(Lookup(part.value, entries), as_in, total=None not in entries)


def _is_text(part: LoweredValue) -> bool:
    if isinstance(part.domain, Listed):
        return bool(part.domain.values) and isinstance(part.domain.values[0], str)
    return isinstance(part.domain, FreeTexts)


# ---- texts -------------------------------------------------------------------------------------------------


def match_pattern(part: LoweredValue, pattern: str) -> Predicate:
    """Of a public list the places that match; of free texts the engine's own LIKE."""
    if isinstance(part.domain, FreeTexts):
        return Matches(require_text(part), pattern)
    if isinstance(part.domain, Listed) and _is_text(part):
        matches = re.compile(_expression(pattern), re.DOTALL)
        places = [code for code, value in enumerate(part.domain.values) if matches.fullmatch(str(value))]
        return Among(part.value, tuple(places))
    raise PolicyError("SF-Q110", "LIKE is asked of texts.", try_="ward LIKE 'A%'")


def _expression(pattern: str) -> str:
    pieces = re.findall(r"\\[\s\S]|[\s\S]", pattern)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(piece) or re.escape(piece[-1]) for piece in pieces)


def require_text(part: LoweredValue) -> Text:
    if isinstance(part.value, Column | Folded):
        return part.value
    raise AssertionError(part)


def _words(node: Expression) -> str:
    return f"'{str(node)[:80]}'" if isinstance(node, asked.Name) else "This value"


def _nearest(place: Fraction) -> int:
    return math.floor(place + Fraction(1, 2))


def _some(domain: Listed) -> str:
    shown = domain.show_values()
    listed = ", ".join(map(str, shown[:8]))
    return listed if len(shown) <= 8 else f"{listed}, … ({len(shown)} values)"
