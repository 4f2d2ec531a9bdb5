"""Aggregates and questions: what is asked of the rows, as frozen values and never as the analyst's code."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.question.relation import Expression, Relation
from sfumato.errors import PolicyError
from sfumato.errors.checked import checked, require_field, require_positive
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from collections.abc import Iterator


# ---- aggregates --------------------------------------------------------------------------------------------


@tagged("Count", "of")
@dataclass(frozen=True, slots=True)
@checked
class CountOf:
    """The number of rows, or of rows where an expression is not missing."""

    of: Expression | None = None


@tagged("Units", "of")
@dataclass(frozen=True, slots=True)
@checked
class DistinctUnits:
    """The number of different units that have a row, or of different values of an expression."""

    of: Expression


@tagged("Sum", "of")
@dataclass(frozen=True, slots=True)
@checked
class SumOf:
    """The sum of a number, within its bounds; missing values add nothing."""

    of: Expression


@tagged("Mean", "of")
@dataclass(frozen=True, slots=True)
@checked
class MeanOf:
    """The average of a number over the rows where it is not missing."""

    of: Expression


@tagged("Variance", "of", "sample", "root")
@dataclass(frozen=True, slots=True)
@checked
class VarianceOf:
    """The variance of a number over the rows where it is not missing."""

    of: Expression
    sample: bool = True
    """Whether the squares are divided by one less than the number of rows."""
    root: bool = False
    """Whether the square root is shown, the standard deviation."""


@tagged("Covariance", "of", "other", "sample", "scaled")
@dataclass(frozen=True, slots=True)
@checked
class CovarianceOf:
    """The covariance of two numbers over the rows where neither is missing."""

    of: Expression
    other: Expression
    sample: bool = True
    scaled: bool = False
    """Whether it is shown as a correlation, between −1 and 1."""


MINIMUM_SHARE = Fraction(1, 2**20)
"""The share that stands for the minimum; one less it stands for the maximum."""


@tagged("Quantile", "of", "share")
@dataclass(frozen=True, slots=True)
@checked
class QuantileOf:
    """A value that about this share of the rows lies below, of the rows where it is not missing."""

    of: Expression
    share: Fraction

    def __post_init__(self) -> None:
        least, most = MINIMUM_SHARE, 1 - MINIMUM_SHARE
        require_field(least <= self.share <= most, self, "share", f"from {least} to {most}")

    @property
    def is_end(self) -> bool:
        """Whether the minimum or the maximum is meant."""
        return self.share in (MINIMUM_SHARE, 1 - MINIMUM_SHARE)


@tagged("ModeOf", "of")
@dataclass(frozen=True, slots=True)
@checked
class ModeOf:
    """About the most frequent of the listed values, of the rows where it is not missing."""

    of: Expression


SummedAggregate = CountOf | DistinctUnits | SumOf | MeanOf | VarianceOf | CovarianceOf
ChosenAggregate = QuantileOf | ModeOf
"""What is chosen among values, and not computed from noisy sums."""
Aggregate = SummedAggregate | ChosenAggregate


@dataclass(frozen=True, slots=True)
@checked
class Arithmetic:
    """left operator right, with an operator out of + - * /, computed after the noise."""

    operator: str
    left: Figure
    right: Figure

    def __post_init__(self) -> None:
        require_field(self.operator in ("+", "-", "*", "/"), self, "operator", "+, -, * or /")


@dataclass(frozen=True, slots=True)
@checked
class Rounded:
    """A number rounded to so many digits after the point, half away from zero."""

    of: Figure
    digits: int = 0

    def __post_init__(self) -> None:
        require_field(abs(self.digits) <= 30, self, "digits", "-30 to 30")


@dataclass(frozen=True, slots=True)
@checked
class Coalesced:
    """The first of several numbers that is not null."""

    parts: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
@checked
class CaseOf:
    """The number of the first branch whose condition is true, else `otherwise`; None is null."""

    branches: tuple[tuple[Having, Figure | None], ...]
    otherwise: Figure | None = None


@dataclass(frozen=True, slots=True)
@checked
class TotalOf:
    """The sum of a number over all groups, SUM(…) OVER ()."""

    of: Figure


Figure = Aggregate | Arithmetic | Rounded | Coalesced | CaseOf | TotalOf | Fraction
"""A number that is computed from noisy aggregates and constants."""


@dataclass(frozen=True, slots=True)
@checked
class GroupKey:
    """The key at this place of the question, which names the groups.

    Where there are levels, places after those of the keys say of each key whether a level has it not: 1 or 0.
    """

    place: int

    def __post_init__(self) -> None:
        require_field(self.place >= 0, self, "place", "0 or more")


@dataclass(frozen=True, slots=True)
@checked
class Output:
    """One column of the answer."""

    name: str
    shows: GroupKey | Figure


# ---- post-processing ---------------------------------------------------------------------------------------


# What follows carries no tags: only programs and aggregates are hashed, so that the groups of an answer that
# was paid for can be chosen and sorted in another way for free.


@dataclass(frozen=True, slots=True)
@checked
class HavingComparison:
    """left operator right, with an operator out of = <> < <= > >=; unknown where a side is null."""

    left: Figure
    operator: str
    right: Figure

    def __post_init__(self) -> None:
        listed = ("=", "<>", "<", "<=", ">", ">=")
        require_field(self.operator in listed, self, "operator", ", ".join(listed))


@dataclass(frozen=True, slots=True)
@checked
class HavingNot:
    """The condition is false; unknown stays unknown."""

    part: Having


@dataclass(frozen=True, slots=True)
@checked
class HavingAnd:
    """Both conditions hold."""

    left: Having
    right: Having


@dataclass(frozen=True, slots=True)
@checked
class HavingOr:
    """At least one condition holds."""

    left: Having
    right: Having


Having = HavingComparison | HavingNot | HavingAnd | HavingOr


@dataclass(frozen=True, slots=True)
@checked
class SortKey:
    """A key or number that the groups are sorted by; groups where it is null come last either way."""

    by: GroupKey | Figure
    descending: bool = False


# ---- the question ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
@checked
class ContributionLimits:
    """Contribution bounds that were asked for: at most so many groups of a unit, and so many rows in each."""

    groups: int
    rows: int

    def __post_init__(self) -> None:
        require_positive(self, "groups", "rows")


@dataclass(frozen=True, slots=True)
@checked
class Question:
    """Rows, the keys that split them into groups, and the columns of the answer.

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
    distinct: bool = False
    """Whether SELECT DISTINCT asks for keys and for no number."""
    levels: tuple[tuple[int, ...], ...] = ()
    """Places of the keys of each level of ROLLUP, CUBE or GROUPING SETS; if empty, all keys are one level."""

    def __post_init__(self) -> None:
        require_field(self.limit is None or self.limit >= 0, self, "limit", "0 or more")
        require_field(self.offset >= 0, self, "offset", "0 or more")
        used = [each.shows for each in self.outputs] + [each.by for each in self.order]
        places = [each.place for each in used if isinstance(each, GroupKey)]
        places += [place for level in self.levels for place in level]
        most = len(self.keys) * (2 if self.levels else 1)
        require_field(all(at < most for at in places), self, "outputs", "keys of the question")
        _require_names(self)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are shown."""
        return tuple(each.name for each in self.outputs)

    @property
    def figures(self) -> dict[str, Figure]:
        """The numbers shown, by their names in the answer."""
        return {each.name: each.shows for each in self.outputs if not isinstance(each.shows, GroupKey)}

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Every aggregate that the answer needs, each once: shown, compared in HAVING or sorted by."""
        if self.distinct:
            return (CountOf(),)  # a group is there if it has rows
        # A dictionary keeps the order of first use, where a set would list them differently each time.
        used = [each.shows for each in self.outputs] + [each.by for each in self.order]
        figures = [each for each in used if not isinstance(each, GroupKey)] + list(list_compared(self.having))
        return tuple(dict.fromkeys(part for each in figures for part in list_aggregates(each)))

    @property
    def labels(self) -> dict[str, int]:
        """The places of the keys shown, by their names in the answer."""
        return {each.name: each.shows.place for each in self.outputs if isinstance(each.shows, GroupKey)}

    @property
    def leaves_out_groups(self) -> bool:
        """Whether HAVING, LIMIT or OFFSET leave groups out."""
        return self.having is not None or self.limit is not None or self.offset > 0

    @property
    def chooses_groups(self) -> bool:
        """Whether noise influences which groups are shown."""
        sorts = any(not isinstance(each.by, GroupKey) for each in self.order)
        return self.having is not None or (sorts and (self.limit is not None or self.offset > 0))


def _require_names(question: Question) -> None:
    """Refuse names that are ambiguous, and a question that asks for no number."""
    keys = [str(key).casefold() for key in question.keys]
    if len(set(keys)) < len(keys):
        raise PolicyError("SF-Q109", "GROUP BY names a column twice.")
    # Names that differ only in case are one name to SQL and to most who read the answer.
    names = [output.name.casefold() for output in question.outputs]
    if len(set(names)) < len(names):
        raise PolicyError("SF-Q133", "Two columns of the answer have the same name.", try_="AS another_name")
    if not question.figures and not question.distinct:
        raise PolicyError("SF-Q116", "The question asks for no aggregate.", try_="SELECT COUNT(*) FROM …")


def list_parts(figure: Figure) -> tuple[Figure, ...]:
    """Return the numbers that a number is directly computed from."""
    match figure:
        case Arithmetic(_, left, right):
            return (left, right)
        case Rounded(of) | TotalOf(of):
            return (of,)
        case Coalesced(parts):
            return parts
        case CaseOf(branches, otherwise):
            compared = (side for when, _ in branches for side in list_compared(when))
            shown = (*(then for _, then in branches), otherwise)
            return (*compared, *(each for each in shown if each is not None))
    return ()


def list_aggregates(figure: Figure) -> tuple[Aggregate, ...]:
    """Return the aggregates that a number is computed from, each once."""
    if isinstance(figure, Aggregate):
        return (figure,)
    found = (part for each in list_parts(figure) for part in list_aggregates(each))
    return tuple(dict.fromkeys(found))


def has_total(figure: Figure) -> bool:
    """Return whether a number of a group depends on the other groups."""
    return isinstance(figure, TotalOf) or any(map(has_total, list_parts(figure)))


def list_compared(having: Having | None) -> Iterator[Figure]:
    """Yield the numbers that a condition compares."""
    match having:
        case HavingComparison(left, _, right):
            yield from (left, right)
        case HavingNot(part):
            yield from list_compared(part)
        case HavingAnd(left, right) | HavingOr(left, right):
            yield from list_compared(left)
            yield from list_compared(right)
