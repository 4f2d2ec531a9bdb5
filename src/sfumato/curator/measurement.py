"""What is asked of the rows: plain frozen values, never a function of the analyst's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
class Output:
    """One column of the answer."""

    name: str
    shows: Key | Aggregate


@dataclass(frozen=True, slots=True)
class Question:
    """Rows, the declared keys that split them into groups, and what is shown of each group."""

    relation: Relation
    keys: tuple[str, ...]
    outputs: tuple[Output, ...]

    @property
    def aggregates(self) -> dict[str, Aggregate]:
        """The numbers asked for, by their names in the answer."""
        return {each.name: each.shows for each in self.outputs if not isinstance(each.shows, Key)}

    @property
    def labels(self) -> dict[str, str]:
        """The key columns shown, by their names in the answer."""
        return {each.name: each.shows.column for each in self.outputs if isinstance(each.shows, Key)}
