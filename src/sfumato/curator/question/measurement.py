"""What is asked of the rows: plain frozen values, never a function of the analyst's."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.question.relation import Expression, Relation


# ---- aggregates --------------------------------------------------------------------------------------------


@tagged("Count", "of")
@dataclass(frozen=True, slots=True)
class CountOf:
    """How many rows; of an expression, how many where it is not missing."""

    of: Expression | None = None


@tagged("Units", "of")
@dataclass(frozen=True, slots=True)
class DistinctUnits:
    """How many different units have a row. The name is that of the column that says whose row it is."""

    of: Expression


@tagged("Sum", "of")
@dataclass(frozen=True, slots=True)
class SumOf:
    """The sum of a number, within its bounds; missing values add nothing."""

    of: Expression


@tagged("Mean", "of")
@dataclass(frozen=True, slots=True)
class MeanOf:
    """The average of a number over the rows where it is not missing."""

    of: Expression


@tagged("Variance", "of", "sample", "root")
@dataclass(frozen=True, slots=True)
class VarianceOf:
    """The variance of a number over the rows where it is not missing."""

    of: Expression
    sample: bool = True
    """Whether the squares are shared by one row less than there are."""
    root: bool = False
    """Whether its root is shown, the standard deviation."""


@tagged("Covariance", "of", "other", "sample", "scaled")
@dataclass(frozen=True, slots=True)
class CovarianceOf:
    """How two numbers vary together, over the rows where neither is missing."""

    of: Expression
    other: Expression
    sample: bool = True
    scaled: bool = False
    """Whether it is shown as a correlation, between −1 and 1."""


MINIMUM_SHARE = Fraction(1, 2**20)
"""Below this share of the rows there is none: the minimum. Above one less it, the maximum."""


@tagged("Quantile", "of", "share")
@dataclass(frozen=True, slots=True)
class QuantileOf:
    """A value that about this share of the rows lies below, over the rows where it is not missing."""

    of: Expression
    share: Fraction

    @property
    def is_end(self) -> bool:
        """Whether the least or the largest value is meant."""
        return self.share in (MINIMUM_SHARE, 1 - MINIMUM_SHARE)


SummedAggregate = CountOf | DistinctUnits | SumOf | MeanOf | VarianceOf | CovarianceOf
Aggregate = SummedAggregate | QuantileOf


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left operator right, with an operator out of + - * /, computed from noisy numbers."""

    operator: str
    left: Figure
    right: Figure


Figure = Aggregate | Arithmetic | Fraction
"""A number of the answer, or one typed in."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The groups' names: the key at this place of the question."""

    place: int


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer."""

    name: str
    shows: GroupKey | Figure


# ---- after the noise ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HavingComparison:
    """left operator right, with an operator out of = <> < <= > >=; unknown where a side is null."""

    left: Figure
    operator: str
    right: Figure


@dataclass(frozen=True, slots=True)
class HavingNot:
    part: Having


@dataclass(frozen=True, slots=True)
class HavingAnd:
    left: Having
    right: Having


@dataclass(frozen=True, slots=True)
class HavingOr:
    left: Having
    right: Having


Having = HavingComparison | HavingNot | HavingAnd | HavingOr


@dataclass(frozen=True, slots=True)
class SortKey:
    """What the groups are sorted by; groups where it is null come last either way."""

    by: GroupKey | Figure
    descending: bool = False


# ---- the question ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContributionLimits:
    """How much of a unit counts: at most so many groups, and so many rows in each of them."""

    groups: int
    rows: int


@dataclass(frozen=True, slots=True)
class Question:
    """Rows, the keys that split them into groups, and what is shown of each group.

    `having`, `order`, `limit` and `offset` choose and sort the groups by their noisy numbers.
    """

    relation: Relation
    keys: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    having: Having | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    bounds: ContributionLimits | None = None

    @property
    def figures(self) -> dict[str, Figure]:
        """The numbers shown, by their names in the answer."""
        return {each.name: each.shows for each in self.outputs if not isinstance(each.shows, GroupKey)}

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Every aggregate that the answer needs, each once: what is shown, chosen by or sorted by."""
        used = [each.shows for each in self.outputs] + [each.by for each in self.order]
        figures = [each for each in used if not isinstance(each, GroupKey)] + list(_compared(self.having))
        return tuple(dict.fromkeys(part for each in figures for part in list_aggregates(each)))

    @property
    def labels(self) -> dict[str, int]:
        """The places of the keys shown, by their names in the answer."""
        return {each.name: each.shows.place for each in self.outputs if isinstance(each.shows, GroupKey)}

    @property
    def chooses_groups(self) -> bool:
        """Whether noise has a say in which groups are shown."""
        sorts = any(not isinstance(each.by, GroupKey) for each in self.order)
        return self.having is not None or (sorts and (self.limit is not None or self.offset > 0))


def list_aggregates(figure: Figure) -> tuple[Aggregate, ...]:
    """The aggregates that a number is computed from, each once."""
    match figure:
        case Fraction():
            return ()
        case Arithmetic(_, left, right):
            return tuple(dict.fromkeys((*list_aggregates(left), *list_aggregates(right))))
        case _:
            return (figure,)


def _compared(having: Having | None) -> Iterator[Figure]:
    match having:
        case HavingComparison(left, _, right):
            yield from (left, right)
        case HavingNot(part):
            yield from _compared(part)
        case HavingAnd(left, right) | HavingOr(left, right):
            yield from _compared(left)
            yield from _compared(right)
