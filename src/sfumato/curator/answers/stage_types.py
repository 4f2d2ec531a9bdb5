"""Types of what is computed from a released answer: they follow from the question, never from rows."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.row_functions import FUNCTIONS
from sfumato.curator.answers.windows import WINDOWS
from sfumato.curator.question.derived import (
    AnswerCall,
    AnswerCase,
    AnswerColumn,
    AnswerConstant,
    AnswerTotal,
    AnswerWindow,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from sfumato.curator.question.derived import AnswerStage, Derived

_NUMBERS = frozenset({"whole", "double", "null"})
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONDITIONS = frozenset({"and", "or", "not"})
_OF_ANYTHING = frozenset({"||", "concat", "upper", "lower", "to_text", "is_null"})
_CASTS = {
    "to_whole": {"whole", "double", "text", "truth", "null"},
    "to_double": {"whole", "double", "text", "truth", "null"},
    "to_date": {"text", "date", "moment", "null"},
}
"""What can be cast to another type."""
_ALIKE = frozenset({"coalesce", "nullif", "greatest", "least"})


def infer_kinds(stages: Iterable[AnswerStage], kinds: Sequence[str]) -> list[str]:
    """Return the kinds of the columns after all stages, or refuse what cannot be computed of them."""
    known = list(kinds)
    for stage in stages:
        for condition in (stage.where, stage.having, stage.qualify):
            if condition is not None:
                _require(_kind(condition, known), {"truth", "null"}, "A condition", "a comparison")
        for node in (*stage.keys, *(each.by for each in stage.order)):
            _kind(node, known)
        known = [_kind(node, known) for _, node in stage.outputs]
    return known


def _require(kind: str, allowed: Iterable[str], what: str, instead: str) -> None:
    if kind not in allowed:
        raise PolicyError("SF-Q105", f"{what} is of another type here.", got=kind, try_=instead)


def _kind(node: Derived, known: Sequence[str]) -> str:
    match node:
        case AnswerColumn(place):
            return known[place]
        case AnswerConstant(value):
            return _kind_of_constant(value)
        case AnswerCall(function, arguments):
            return _kind_of_call(function, [_kind(each, known) for each in arguments])
        case AnswerCase(branches, otherwise):
            for when, _ in branches:
                _require(_kind(when, known), {"truth", "null"}, "A condition of CASE", "WHEN n > 100")
            return unify_kinds(
                [_kind(each, known) for each in (*(then for _, then in branches), otherwise)], "CASE"
            )
        case AnswerTotal(function, argument):
            kind = "whole" if argument is None else _kind(argument, known)
            return _kind_of_window(function, [kind])
        case AnswerWindow():
            for part in (*node.partition, *(each.by for each in node.order)):
                _kind(part, known)
            return _kind_of_window(node.function, [_kind(each, known) for each in node.arguments])


def _kind_of_constant(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "truth"
        case Fraction():
            return "whole" if value.denominator == 1 else "double"
        case datetime():
            return "moment"
        case date():
            return "date"
    return "text"


def _kind_of_call(function: str, kinds: list[str]) -> str:
    if function in _COMPARISONS:
        unify_kinds(kinds, "A comparison")
    elif function in _CONDITIONS:
        for kind in kinds:
            _require(kind, {"truth", "null"}, "A condition", "n > 100 AND share < 0.5")
    elif function in _ALIKE:
        return unify_kinds(kinds, function.upper())
    elif function in _CASTS:
        _require(kinds[0], _CASTS[function], "The argument of CAST", "a number, or a text")
    elif function not in _OF_ANYTHING:
        for kind in kinds:
            _require(kind, _NUMBERS, f"An argument of {function.upper()}", "a number")
    given = FUNCTIONS[function][1]
    if given == "first":
        return kinds[0]
    return unify_kinds(kinds, function) if given == "number" else given


def _kind_of_window(function: str, kinds: list[str]) -> str:
    given = WINDOWS[function][1]
    if function in ("sum", "avg", "ntile"):
        _require(kinds[0], _NUMBERS, f"The argument of {function.upper()}", "a number")
    if given == "first":
        return unify_kinds([kinds[0], *kinds[2:]], function.upper())
    return kinds[0] if given == "number" else given


def unify_kinds(kinds: Sequence[str], what: str) -> str:
    """Return the one kind that all have; whole numbers go with doubles, dates with timestamps."""
    found = dict.fromkeys(kind for kind in kinds if kind != "null")
    for pair, both in (({"whole", "double"}, "double"), ({"date", "moment"}, "moment")):
        if set(found) == pair:
            return both
    if len(found) > 1:
        raise PolicyError(
            "SF-Q110",
            f"{what} has values of different types.",
            got=" and ".join(found),
            try_="CAST one of them, or DATE '2024-01-31' for a date",
        )
    return next(iter(found), "null")


def arrow_kind(kind: str) -> pa.DataType:
    """Return the type of a column of this kind."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "whole": pa.int64(),
        "double": pa.float64(),
        "text": pa.string(),
        "truth": pa.bool_(),
        "date": pa.date32(),
        "moment": pa.timestamp("s"),
        "null": pa.float64(),
    }
    return types[kind]


def kind_of_arrow(kind: pa.DataType) -> str:
    """Return the kind of a column of this type."""
    names = {
        "int64": "whole",
        "double": "double",
        "bool": "truth",
        "date32[day]": "date",
        "timestamp[s]": "moment",
    }
    return names.get(str(kind), "text")
