"""The neighbouring relation: which two tables must be hard to tell apart."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Neighbours(Enum):
    """How two neighbouring tables differ."""

    ADD_REMOVE = "add-remove"
    """One unit, with all its rows, is in one table and not in the other (unbounded DP)."""
    REPLACE_ONE = "replace-one"
    """One unit has other rows; the number of units is the same, and public (bounded DP)."""


ADD_REMOVE = Neighbours.ADD_REMOVE
REPLACE_ONE = Neighbours.REPLACE_ONE


def common_relation(relations: Iterable[Neighbours | None]) -> Neighbours | None:
    """Return the one relation that all of these allow; None if any relation will do."""
    named = {require_relation(relation) for relation in relations if relation is not None}
    if len(named) > 1:
        raise UsageError(
            "SF-N303",
            "These events are priced for different neighbouring relations and have no common price.",
            got=" and ".join(sorted(relation.value for relation in named)),
        )
    return next(iter(named), None)


def require_relation(value: Any) -> Neighbours:
    """Return a neighbouring relation, and refuse anything else."""
    if not isinstance(value, Neighbours):
        raise UsageError("SF-N118", "A neighbouring relation is expected here.", try_="sf.REPLACE_ONE")
    return value
