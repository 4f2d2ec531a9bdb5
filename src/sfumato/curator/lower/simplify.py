"""Normal form of predicates: equal questions get equal programs, so that paid answers are found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.values import Among, AtLeast, AtMost, Every, Not, Predicate, Some, Value
from sfumato.privacy.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable


def simplify_predicate(predicate: Predicate) -> Predicate:
    """Return one form for predicates that differ only in order, nesting, repetition or where NOT stands.

    Each rule keeps SQL's three-valued meaning: both sides are unknown for the same rows.
    """
    match predicate:
        case Not(part):
            return _negate_predicate(part)
        case Every(parts):
            return _flatten_parts(parts, Every)
        case Some(parts):
            return _flatten_parts(parts, Some)
        case _:
            return predicate


def _negate_predicate(predicate: Predicate) -> Predicate:
    match predicate:
        case Not(part):
            return simplify_predicate(part)
        # Over integers the complement of ≥ v is ≤ v − 1, and both are unknown for missing values.
        case AtLeast(column, value):
            return AtMost(column, value - 1)
        case AtMost(column, value):
            return AtLeast(column, value + 1)
        case Every(parts):
            return _flatten_parts(tuple(Not(part) for part in parts), Some)
        case Some(parts):
            return _flatten_parts(tuple(Not(part) for part in parts), Every)
        case _:
            return Not(predicate)


def _flatten_parts(
    parts: tuple[Predicate, ...], kind: Callable[[tuple[Predicate, ...]], Every | Some]
) -> Predicate:
    flat: list[Predicate] = []
    for part in map(simplify_predicate, parts):
        flat += part.parts if isinstance(part, Every | Some) and type(part) is kind else [part]
    # Sorted by their canonical text, since predicates themselves have no order.
    unique = sorted(dict.fromkeys(_merge_lists(flat, kind is Some)), key=canonical_json)
    return unique[0] if len(unique) == 1 else kind(tuple(unique))


def _merge_lists(parts: list[Predicate], some: bool) -> list[Predicate]:
    """Merge x = 1 OR x = 2 into one list of values, and x <> 1 AND x <> 2 into the negation of one."""
    lists: dict[Value, set[int]] = {}
    others = []
    for part in parts:
        match part:
            case Among(of, values) if some:
                lists.setdefault(of, set()).update(values)
            case Not(Among(of, values)) if not some:
                lists.setdefault(of, set()).update(values)
            case _:
                others.append(part)
    listed = [Among(of, tuple(sorted(values))) for of, values in lists.items()]
    return others + [each if some else Not(each) for each in listed]
