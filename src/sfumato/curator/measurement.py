"""What is asked of the rows: plain frozen values, never a function of the analyst's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.relation import Relation


@dataclass(frozen=True, slots=True)
class Key:
    """The column the groups are named by."""

    column: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows; with a column, how many where it is not missing."""

    column: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column, each value within its declared bounds; missing values add nothing."""

    column: str


@dataclass(frozen=True, slots=True)
class Mean:
    """The average of a column over the rows where it is not missing."""

    column: str


@dataclass(frozen=True, slots=True)
class Units:
    """How many different units have a row. The column is the one that says whose row it is."""

    column: str


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a column over the rows where it is not missing."""

    column: str
    sample: bool = True
    """Whether the squares are shared by one row less than there are."""
    root: bool = False
    """Whether its root is shown, the standard deviation."""


Aggregate = Count | Units | Sum | Mean | Variance


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left operator right, with an operator out of + - * /, computed from noisy numbers."""

    operator: str
    left: Figure
    right: Figure


Figure = Aggregate | Arithmetic | Fraction
"""A number of the answer, or one typed in."""


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer."""

    name: str
    shows: Key | Figure


# ---- after the noise ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compares:
    """left operator right, with an operator out of = <> < <= > >=; unknown where a side is null."""

    left: Figure
    operator: str
    right: Figure


@dataclass(frozen=True, slots=True)
class Not:
    part: Having


@dataclass(frozen=True, slots=True)
class Both:
    left: Having
    right: Having


@dataclass(frozen=True, slots=True)
class Either:
    left: Having
    right: Having


Having = Compares | Not | Both | Either


@dataclass(frozen=True, slots=True)
class Order:
    """What the groups are sorted by; groups where it is null come last either way."""

    by: Key | Figure
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """Rows, the declared keys that split them into groups, and what is shown of each group.

    `having`, `order`, `limit` and `offset` choose and sort the groups by their noisy numbers.
    """

    relation: Relation
    keys: tuple[str, ...]
    outputs: tuple[Output, ...]
    having: Having | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def figures(self) -> dict[str, Figure]:
        """The numbers shown, by their names in the answer."""
        return {each.name: each.shows for each in self.outputs if not isinstance(each.shows, Key)}

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Every aggregate that the answer needs, each once: what is shown, chosen by or sorted by."""
        used = [each.shows for each in self.outputs] + [each.by for each in self.order]
        figures = [each for each in used if not isinstance(each, Key)] + list(_compared(self.having))
        return tuple(dict.fromkeys(part for each in figures for part in parts(each)))

    @property
    def labels(self) -> dict[str, str]:
        """The key columns shown, by their names in the answer."""
        return {each.name: each.shows.column for each in self.outputs if isinstance(each.shows, Key)}

    @property
    def chooses(self) -> bool:
        """Whether noise has a say in which groups are shown."""
        sorts = any(not isinstance(each.by, Key) for each in self.order)
        return self.having is not None or (sorts and (self.limit is not None or self.offset > 0))


def parts(figure: Figure) -> tuple[Aggregate, ...]:
    """The aggregates that a number is computed from, each once."""
    match figure:
        case Fraction():
            return ()
        case Arithmetic(_, left, right):
            return tuple(dict.fromkeys((*parts(left), *parts(right))))
        case _:
            return (figure,)


def _compared(having: Having | None) -> Iterator[Figure]:
    match having:
        case Compares(left, _, right):
            yield from (left, right)
        case Not(part):
            yield from _compared(part)
        case Both(left, right) | Either(left, right):
            yield from _compared(left)
            yield from _compared(right)
