"""Which marginals a synthesis is to get right, and how much each of the smaller ones helps with them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb, gcd
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.synth.junction_tree import Clique

    Weights = tuple[tuple[Clique, int], ...]
    """Marginals that may be measured, and the weight of each."""

MOST_MARGINALS = 1000
"""Marginals of three columns are asked for by default where there are no more of them than this."""
_MOST_LISTED = 20_000
"""The most marginals that may be chosen from. Privacy does not depend on it."""


def weigh_marginals(workload: Any, names: Sequence[str]) -> Weights:
    """Return every part of the workload's marginals that has two columns or more, and its weight.

    A part weighs as many columns as it shares with each marginal of the workload, as in AIM.
    """
    asked = _read_workload(workload, names)
    parts = dict.fromkeys(
        part
        for columns in asked
        for size in range(2, len(columns) + 1)
        for part in combinations(columns, size)
    )
    if len(parts) > _MOST_LISTED:
        raise _too_many(len(parts))
    single = Counter(column for columns in asked for column in columns)
    # Σ over marginals of the columns shared is a sum over the columns of a part.
    weights = {part: sum(single[column] for column in part) for part in parts}
    shared = gcd(*weights.values()) or 1  # only ratios count
    return tuple(sorted((part, weight // shared) for part, weight in weights.items()))


def _read_workload(workload: Any, names: Sequence[str]) -> list[Clique]:
    places = {name: place for place, name in enumerate(names)}
    if workload is None:
        workload = 3 if comb(len(names), 3) <= MOST_MARGINALS else 2
    if isinstance(workload, int) and not isinstance(workload, bool) and workload >= 1:
        ways = min(workload, len(names))
        if comb(len(names), ways) > _MOST_LISTED:
            raise _too_many(comb(len(names), ways))
        return list(combinations(range(len(names)), ways))
    try:
        found = [tuple(sorted({places[name] for name in _as_names(each)})) for each in workload]
    except (TypeError, KeyError) as problem:
        raise _not_read() from problem
    if not found or not all(found):
        raise _not_read()
    return list(dict.fromkeys(found))


def _as_names(each: Any) -> Any:
    return (each,) if isinstance(each, str) else each


def _not_read() -> UsageError:
    return UsageError(
        "SF-E110",
        "The workload is neither a number of columns nor a list of marginals by the names of their columns.",
        try_='workload=3, or workload=[("age", "ward"), ("age", "cost", "ill")]',
    )


def _too_many(count: int) -> UsageError:
    return UsageError(
        "SF-E230",
        "The workload has too many marginals to choose from.",
        asked=f"{count:,}",
        most=f"{_MOST_LISTED:,}",
        try_="workload=2, or a list of the marginals that matter",
    )
