"""What is computed from a released answer: functions, windows and totals of its rows. It costs nothing.

None of this carries a tag: only programs and aggregates are hashed, so that an answer that was paid for can
be looked at in another way for free.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from sfumato.errors.checked import checked, require_field


@dataclass(frozen=True, slots=True)
@checked
class AnswerColumn:
    """A column of the answer before, by its place."""

    place: int

    def __post_init__(self) -> None:
        require_field(self.place >= 0, self, "place", "0 or more")


@dataclass(frozen=True, slots=True)
@checked
class AnswerConstant:
    """A constant; None is NULL."""

    value: str | bool | Fraction | date | datetime | None


@dataclass(frozen=True, slots=True)
@checked
class AnswerCall:
    """A function on the closed list in curator/answers/row_functions.py, or an operator there."""

    function: str
    arguments: tuple[Derived, ...]


@dataclass(frozen=True, slots=True)
@checked
class AnswerCase:
    """The value of the first branch whose condition is true; without one, `otherwise`."""

    branches: tuple[tuple[Derived, Derived], ...]
    otherwise: Derived


@dataclass(frozen=True, slots=True)
@checked
class AnswerOrder:
    """A value that rows are sorted by. Rows where it is null come last, unless said otherwise."""

    by: Derived
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
@checked
class AnswerWindow:
    """A window function: a number of each row that depends on the other rows of its part.

    `frame` says how many rows before and after count, None for all of them. Without a frame all rows up to
    the peers of the row count where there is an order, and else all rows of the part.
    """

    function: str
    arguments: tuple[Derived, ...] = ()
    partition: tuple[Derived, ...] = ()
    order: tuple[AnswerOrder, ...] = ()
    frame: tuple[int | None, int | None] | None = None


@dataclass(frozen=True, slots=True)
@checked
class AnswerTotal:
    """A count, sum, avg, min or max over rows of the answer; without an argument, the number of rows."""

    function: str
    argument: Derived | None = None


Derived = AnswerColumn | AnswerConstant | AnswerCall | AnswerCase | AnswerWindow | AnswerTotal


@dataclass(frozen=True, slots=True)
@checked
class AnswerStage:
    """A SELECT from a released answer."""

    outputs: tuple[tuple[str, Derived], ...]
    where: Derived | None = None
    totals: bool = False
    """Whether rows are put together, by `keys` or all of them."""
    keys: tuple[Derived, ...] = ()
    having: Derived | None = None
    qualify: Derived | None = None
    distinct: bool = False
    order: tuple[AnswerOrder, ...] = ()
    limit: int | None = None
    offset: int = 0


def list_parts(node: Derived) -> tuple[Derived, ...]:
    """Return what a value is directly computed from."""
    match node:
        case AnswerCall(_, arguments):
            return arguments
        case AnswerCase(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case AnswerWindow():
            return (*node.arguments, *node.partition, *(each.by for each in node.order))
        case AnswerTotal(_, argument):
            return () if argument is None else (argument,)
    return ()


def list_columns(node: Derived) -> frozenset[int]:
    """Return the places of the columns that a value is computed from."""
    if isinstance(node, AnswerColumn):
        return frozenset({node.place})
    return frozenset().union(*map(list_columns, list_parts(node)))


def has_part(node: Derived, *kinds: type[object]) -> bool:
    """Return whether a value is, or is computed from, a part of one of these kinds."""
    return isinstance(node, kinds) or any(has_part(part, *kinds) for part in list_parts(node))
