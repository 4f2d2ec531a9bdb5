"""Lowering of conditions: predicates on the integers of a row. Bounds and steps never come from data."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING

from sfumato.curator.catalog.calendar import count_periods, parse_moment
from sfumato.curator.catalog.columns import kind_of_value
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    align_periods,
    align_steps,
    constant_number,
    grid_too_fine,
)
from sfumato.curator.lower.reals import as_real, constant_real
from sfumato.curator.question import relation as asked
from sfumato.engines.ingest import LONGEST_TEXT
from sfumato.engines.like import MOST_WILDCARDS, count_wildcards, parse_like
from sfumato.engines.values import (
    Among,
    AtLeast,
    AtMost,
    Column,
    Constant,
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
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.domains import Scalar
    from sfumato.curator.question.relation import Condition, Expression

    Lower = Callable[[Expression], LoweredValue]

_QUOTE = "'"
"""Names are quoted in sentences and not in SQL to paste, where quotes would make a text of them."""
# 65 <= age says age >= 65.
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HOLDS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def build_predicate(node: Condition, lower: Lower) -> Predicate:
    """Return the predicate of a condition, given how to lower the expressions in it."""
    match node:
        case asked.Comparison(left, operator, asked.Literal(value)) if not isinstance(left, asked.Literal):
            return _compare_with_literal(lower(left), operator, value, _quote_name(left))
        case asked.Comparison(asked.Literal(value), operator, right) if not isinstance(right, asked.Literal):
            return _compare_with_literal(lower(right), _TURNED[operator], value, _quote_name(right))
        case asked.Comparison(left, operator, right):
            return compare_values(lower(left), operator, lower(right))
        case asked.Like(text, pattern):
            return match_pattern(lower(text), pattern)
        case asked.IsNull(part):
            return Missing(lower(part).value)
        case asked.IsTrue(part):
            return _is_true(lower(part), _quote_name(part))
        case asked.Negation(part):
            return Not(build_predicate(part, lower))
        case asked.Conjunction(parts):
            return Every(tuple(build_predicate(part, lower) for part in parts))
        case asked.Disjunction(parts):
            return Some(tuple(build_predicate(part, lower) for part in parts))
    raise PolicyError(
        "SF-Q103", "EXISTS and IN (SELECT …) are supported in WHERE only.", try_="WHERE EXISTS (…)"
    )


# ---- comparison with a constant ----------------------------------------------------------------------------


def _compare_with_literal(part: LoweredValue, operator: str, value: Scalar | None, words: str) -> Predicate:
    if value is None:
        raise PolicyError("SF-Q134", "A comparison with NULL is never true.", try_="IS NULL")
    if part is MISSING:
        return Same(part.value, Constant(0))
    match part.domain:
        case Numbers() as domain:
            # Literals are exact: one between two steps of a grid equals no value of it.
            number = _require_number(words, value)
            if part.real is not None:
                return _compare(part.real.value, operator, constant_real(number).value)
            return compare_with_constant(part, operator, number / domain.step)
        case Periods() as domain:
            return compare_with_constant(
                part, operator, count_periods(_require_moment(words, value), domain.unit)
            )
        case Listed() as domain:
            return _compare_listed(part, domain, operator, value, words)
        case FreeTexts():
            return _compare_free_text(part, operator, value, words)


def compare_with_constant(part: LoweredValue, operator: str, place: Fraction) -> Predicate:
    """Return a comparison with a constant that may lie between two integers of the value's grid."""
    value = part.value
    if isinstance(value, Constant) and value.value is not None:
        return Every() if _HOLDS[operator](value.value, place) else Some()
    match operator:
        case ">=":
            return AtLeast(value, math.ceil(place))
        case ">":
            return AtLeast(value, math.floor(place) + 1)
        case "<=":
            return AtMost(value, math.floor(place))
        case "<":
            return AtMost(value, math.ceil(place) - 1)
        case _:  # no integer equals a constant between two of them, which is false and not an error
            return Among(value, (int(place),) if place.denominator == 1 else ())


def _compare_listed(
    part: LoweredValue, domain: Listed, operator: str, value: Scalar, words: str
) -> Predicate:
    if operator == "=":
        return Among(part.value, (_find_code(domain, value, words),))
    if not domain.values or isinstance(domain.values[0], bool):
        raise PolicyError(
            "SF-Q110",
            f"{words} has no order, so it cannot be compared with {operator}.",
            try_=f"{words.strip(_QUOTE)} IN (…)",
        )
    # Python orders texts by code points, as all engines do.
    bound = _require_text(words, value) if _is_text(part) else _require_number(words, value)
    holds = _HOLDS[operator]
    return Among(part.value, tuple(code for code, each in enumerate(domain.values) if holds(each, bound)))


def _find_code(domain: Listed, value: Scalar, words: str) -> int:
    """Return the place of a value in a list, by type and value, since to Python True equals 1."""
    for code, listed in enumerate(domain.values):
        if kind_of_value(listed) == kind_of_value(value) and listed == value:
            return code
    raise PolicyError(
        "SF-Q112", f"{value} is not one of the declared values of {words}.", declared=_show_some(domain)
    )


def _compare_free_text(part: LoweredValue, operator: str, value: Scalar, words: str) -> Predicate:
    if operator != "=":
        raise PolicyError(
            "SF-Q110",
            f"{words} has no order, so it cannot be compared with {operator}.",
            try_=f"{words.strip(_QUOTE)} = '…', or LIKE",
        )
    return Spelled(require_text(part), (_require_text(words, value),))


def _require_text(words: str, value: Scalar) -> str:
    if isinstance(value, str):
        return value
    raise PolicyError(
        "SF-Q110", f"{words} is a text and cannot be compared with a {kind_of_value(value)}.", try_="'…'"
    )


def _require_number(words: str, value: Scalar) -> Fraction:
    if isinstance(value, Fraction):
        return value
    raise PolicyError(
        "SF-Q110",
        f"{words} is a number and cannot be compared with a {kind_of_value(value)}.",
        try_=f"{words.strip(_QUOTE)} >= 10",
    )


def _require_moment(words: str, value: Scalar) -> date:
    if isinstance(value, date):
        return value
    moment = parse_moment(value) if isinstance(value, str) else None
    if moment is None:
        raise PolicyError(
            "SF-Q110",
            f"{words} is a date and can only be compared with dates.",
            try_=f"{words.strip(_QUOTE)} >= DATE '2024-01-31'",
        )
    return moment


def _is_true(part: LoweredValue, words: str) -> Predicate:
    if isinstance(part.domain, Listed) and part.domain.values and isinstance(part.domain.values[0], bool):
        return Among(part.value, (_find_code(part.domain, True, words),))
    raise PolicyError("SF-Q105", f"{words} is not true or false.", try_="age >= 65")


# ---- comparison of two values ------------------------------------------------------------------------------


def compare_values(left: LoweredValue, operator: str, right: LoweredValue) -> Predicate:
    """Return left operator right, for an operator out of = < <= > >=."""
    one_constant, other_constant = constant_number(left), constant_number(right)
    if one_constant is not None and other_constant is not None:
        return Every() if _HOLDS[operator](one_constant, other_constant) else Some()
    if not _is_text(left) and not _is_text(right) and not isinstance(left.domain, Periods):
        aligned = align_steps([left, right], "One side of a comparison")
        if aligned is None:
            first, second = (as_real(part, "One side of a comparison").value for part in (left, right))
            return _compare(first, operator, second)
    one, other = make_comparable(left, right, ordered=operator != "=")
    match one.value, other.value:
        case Constant(int(known)), Constant(int(other_known)):
            return Every() if _HOLDS[operator](known, other_known) else Some()
    return _compare(one.value, operator, other.value)


def _compare(one: Value, operator: str, other: Value) -> Predicate:
    """Return the comparison of two integers or two doubles, unknown where either is missing."""
    match operator:
        case "=":
            return Same(one, other)
        case "<":
            return Less(one, other)
        case ">":
            return Less(other, one)
        # Not(…) is unknown where either side is missing, as SQL wants <= to be.
        case "<=":
            return Not(Less(other, one))
        case _:
            return Not(Less(one, other))


def make_comparable(
    left: LoweredValue, right: LoweredValue, *, ordered: bool = False
) -> tuple[LoweredValue, LoweredValue]:
    """Return two values as integers on one step, as places in one list, or as free texts."""
    if isinstance(left.domain, Periods) and isinstance(right.domain, Periods):
        return align_periods(left, right)
    words = [each for each in (left, right) if _is_text(each)]
    if not words:
        aligned = align_steps([left, right], "One side of a comparison")
        if aligned is None:  # the integers that stand for doubles, as in the condition of a join
            aligned = align_steps([left.with_value(left.value), right.with_value(right.value)], "One side")
        if aligned is None:
            raise grid_too_fine("This comparison")
        return aligned[0][0], aligned[0][1]
    if len(words) == 1:
        raise PolicyError("SF-Q110", "A text can only be compared with texts.", try_="ward = 'A'")
    if isinstance(left.domain, Listed) and isinstance(right.domain, Listed):
        texts = dict.fromkeys((*right.domain.values, *left.domain.values))
        both = Listed(tuple(sorted(texts, key=str) if ordered else texts))
        return recode_list(left, both), recode_list(right, both)
    if ordered:
        raise PolicyError("SF-Q110", "Free texts can only be compared with =.", try_="note = '…', or LIKE")
    if isinstance(left.domain, Listed) or isinstance(right.domain, Listed):
        raise PolicyError(
            "SF-Q110",
            "A listed text cannot be compared with a free text.",
            try_="sf.one_of(…) for both columns",
        )
    return left, right


def recode_list(part: LoweredValue, longer: Listed) -> LoweredValue:
    """Return values of a list by their places in a list that has all of them."""
    if not isinstance(part.domain, Listed):
        return part
    at = {value: place for place, value in enumerate(longer.values)}
    places = tuple(at[value] for value in part.domain.values)
    if places == tuple(range(len(places))):  # the longer list starts with this one: its places stand
        return part
    if isinstance(part.value, Constant) and part.value.value is not None:
        return part.derive_value(Constant(places[part.value.value]), longer)
    return part.derive_value(Lookup(part.value, places), longer)


def _is_text(part: LoweredValue) -> bool:
    if isinstance(part.domain, Listed):
        return bool(part.domain.values) and isinstance(part.domain.values[0], str)
    return isinstance(part.domain, FreeTexts)


# ---- patterns ----------------------------------------------------------------------------------------------


def match_pattern(part: LoweredValue, pattern: str) -> Predicate:
    """Return a LIKE: for listed texts the places that match, for free texts what an engine tests."""
    _require_short(pattern)
    if isinstance(part.domain, FreeTexts):
        return Matches(require_text(part), pattern)
    if isinstance(part.domain, Listed) and _is_text(part):
        # The list is public, so Python decides here and every engine agrees.
        matches = parse_like(pattern).matches
        places = [code for code, value in enumerate(part.domain.values) if matches(str(value))]
        return Among(part.value, tuple(places))
    raise PolicyError(
        "SF-Q110",
        "Only texts can be matched with LIKE, STARTS_WITH, ENDS_WITH and CONTAINS.",
        try_="ward LIKE 'A%'",
    )


def _require_short(pattern: str) -> None:
    """Refuse a pattern that takes long to match, whatever the text is."""
    if len(pattern) > 2 * LONGEST_TEXT or count_wildcards(pattern) > MOST_WILDCARDS:
        raise PolicyError(
            "SF-Q159",
            f"A pattern has at most {MOST_WILDCARDS} wildcards and {2 * LONGEST_TEXT:,} characters.",
            try_="fewer % and _",
        )


def require_text(part: LoweredValue) -> Text:
    """Return the engine's text of a value in the domain of free texts."""
    if isinstance(part.value, Column | Folded):
        return part.value
    raise AssertionError(part)


def _quote_name(node: Expression) -> str:
    return f"'{str(node)[:80]}'" if isinstance(node, asked.Name) else "This value"


def _show_some(domain: Listed) -> str:
    shown = domain.show_values()
    listed = ", ".join(map(str, shown[:8]))
    return listed if len(shown) <= 8 else f"{listed}, … ({len(shown)} values)"
