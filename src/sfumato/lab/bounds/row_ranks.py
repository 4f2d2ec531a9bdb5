"""Upper quantiles of how many rows units have, which are refused unless they have a bound."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.question.measurement import QuantileOf
from sfumato.curator.question.relation import Alias, Filter, Name, UnitRowCounts
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.question.measurement import Question
    from sfumato.curator.question.relation import Relation


def ranks_all_rows(question: Question) -> bool:
    """Return whether a question asks for an upper quantile of all that `rows` of units() could be."""
    asked = (each for each in question.aggregates if isinstance(each, QuantileOf))
    return _counts_rows(question.relation) and any(
        _is_rows(each.of) and each.share > Fraction(1, 2) for each in asked
    )


def unbounded_ranks_error() -> PolicyError:
    """Return the refusal of such a quantile. Nothing was charged."""
    return PolicyError(
        "SF-Q210",
        "An upper quantile of all numbers of rows that a unit could have would be decided by noise.",
        why="a unit could have a million rows, and few units lie above the quantile",
        try_="LEAST(rows, 50) in place of rows",
    )


def _counts_rows(relation: Relation) -> bool:
    while isinstance(relation, Alias | Filter):
        relation = relation.of
    return isinstance(relation, UnitRowCounts)


def _is_rows(value: object) -> bool:
    return isinstance(value, Name) and value.column.casefold() == "rows"
