"""Our SQL in words that Spark's parser understands at once.

To that parser a bracket may begin a value, a list or a subquery, and CAST and WHEN may be names of functions.
To tell, it looks ahead to where each of them ends, at every depth, and it keeps what it saw while Spark runs:
one question could take ten seconds and a hundred megabytes. Calls of functions, and casts behind a value, it
knows by their first words. So brackets become coalesce of one value, which is that value and which the
optimiser takes away, casts are written with ::, and CASE as if. Shifts become functions too: behind the word
array the parser takes >> for the end of a type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    Part: TypeAlias = "str | list[Part]"
    """A word or sign, or what is between two brackets."""

_WORD = re.compile(r"'[^']*'|`[^`]*`|\w+|\s+|.", re.DOTALL)
_NO_FUNCTIONS = frozenset({"AND", "BETWEEN", "BY", "HAVING", "NOT", "ON", "OR", "SELECT", "WHERE", "div"})


def respell_query(sql: str) -> str:
    """Return a query of ours with the same meaning. It has no comment and no quote inside a quote."""
    return _written(_nested(_WORD.findall(sql)))


def _nested(words: Sequence[str]) -> list[Part]:
    inside: list[list[Part]] = [[]]
    for word in words:
        if word == "(":
            inside.append([])
        elif word == ")":
            part = inside.pop()
            inside[-1].append(part)
        else:
            inside[-1].append(word)
    (whole,) = inside
    return whole


def _written(parts: Sequence[Part]) -> str:
    texts: list[str] = []
    before = ""
    spelled = _choices(parts)
    for place, part in enumerate(spelled):
        if isinstance(part, str):
            texts.append(part)
            before = before if part.isspace() else part
        elif before == "CAST":
            texts[-1] = _cast(part)
            before = ")"
        else:
            names = spelled[place + 1 : place + 4] == [" ", "-", ">"]  # of what a function is given
            called = names or (before.isidentifier() and before not in _NO_FUNCTIONS)
            texts.append(f"({_written(part)})" if called else _bracketed(part))
            before = ")"
    return "".join(texts)


def _bracketed(parts: list[Part]) -> str:
    for place in range(len(parts) - 1):
        if parts[place : place + 2] == [">", ">"]:
            return f"shiftright({_written(parts[:place])}, {_written(parts[place + 2 :])})"
    return f"coalesce({_written(parts)})"


def _cast(parts: list[Part]) -> str:
    # The last AS at this depth: the value may hold a cast in brackets of its own.
    last = max(place for place, part in enumerate(parts) if part == "AS")
    value, of_type = (_written(side).strip() for side in (parts[:last], parts[last + 1 :]))
    return f"{value}::{of_type}" if re.fullmatch(r"\w+", value) else f"coalesce({value})::{of_type}"


def _choices(parts: Sequence[Part]) -> list[Part]:
    """Write CASE WHEN a THEN b ELSE c END as if(a, b, c)."""
    open_: list[list[list[Part]]] = [[[]]]
    for part in parts:
        match part:
            case "CASE":
                open_.append([[]])
            case "WHEN" | "THEN" | "ELSE":
                open_[-1].append([])
            case "END":
                _, *branches = open_.pop()
                open_[-1][-1] += ["if", _arguments(branches)]
            case _:
                open_[-1][-1].append(part)
    ((whole,),) = open_
    return whole


def _arguments(branches: list[list[Part]]) -> list[Part]:
    when, then, *others = branches
    match others:
        case []:
            otherwise: list[Part] = ["NULL"]
        case [last]:
            otherwise = last
        case _:
            otherwise = ["if", _arguments(others)]
    return [*when, ",", *then, ",", *otherwise]
