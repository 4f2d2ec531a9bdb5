"""Window functions over the rows of a released answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import add
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Column = list[Any]


def sort_rows(rows: Sequence[int], by: Sequence[tuple[Column, bool, bool]]) -> list[int]:
    """Return rows sorted by columns, the most important first; each may descend and may have nulls first."""
    found = list(rows)
    # Sorting is stable, so that sorting by the last column first gives the order asked for.
    for column, descending, nulls_first in reversed(by):
        known = [at for at in found if column[at] is not None]
        known.sort(key=column.__getitem__, reverse=descending)
        absent = [at for at in found if column[at] is None]
        found = absent + known if nulls_first else known + absent
    return found


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The rows of one part of a window, in its order."""

    rows: list[int]
    peers: list[int]
    """For each row, in order, the number of its group of peers, from 0."""
    ordered: bool
    frame: tuple[int | None, int | None] | None

    @property
    def last_peers(self) -> list[int]:
        """For each row, in order, how many rows there are up to its last peer."""
        sizes = [len(list(group)) for _, group in groupby(self.peers)]
        ends = list(accumulate(sizes))
        return [ends[peer] for peer in self.peers]

    @property
    def first_peers(self) -> list[int]:
        """For each row, in order, how many rows there are before its first peer."""
        sizes = [len(list(group)) for _, group in groupby(self.peers)]
        starts = list(accumulate(sizes, initial=0))
        return [starts[peer] for peer in self.peers]

    def frames(self) -> list[tuple[int, int]]:
        """Return for each row which rows, from one place to before another, its frame has."""
        size = len(self.rows)
        if self.frame is None:
            return [(0, end) for end in (self.last_peers if self.ordered else [size] * size)]
        before, after = self.frame
        return [
            (
                0 if before is None else max(0, at - before),
                size if after is None else min(size, at + after + 1),
            )
            for at in range(size)
        ]


def split_parts(
    size: int,
    partition: Sequence[Column],
    order: Sequence[tuple[Column, bool, bool]],
    frame: tuple[int | None, int | None] | None,
) -> list[WindowPart]:
    """Return the parts of a window over so many rows."""
    parts: dict[tuple[Any, ...], list[int]] = {}
    for at in range(size):
        parts.setdefault(tuple(column[at] for column in partition), []).append(at)
    found = []
    for rows in parts.values():
        in_order = sort_rows(rows, order)
        keys = [tuple(column[at] for column, _, _ in order) for at in in_order]
        starts = [place > 0 and keys[place] != keys[place - 1] for place in range(len(keys))]
        found.append(WindowPart(in_order, list(accumulate(map(int, starts))), bool(order), frame))
    return found


def compute_window(
    function: str, arguments: Sequence[Column], parts: Sequence[WindowPart], size: int
) -> Column:
    """Return a window function in every row."""
    found: Column = [None] * size
    for part in parts:
        own = [[column[at] for at in part.rows] for column in arguments]
        for at, value in zip(part.rows, WINDOWS[function][0](part, *own), strict=True):
            found[at] = value
    return found


# ---- places ------------------------------------------------------------------------------------------------


def _ntile(part: WindowPart, tiles: Column) -> Column:
    """Return tiles that differ in size by one row at most, the larger first."""
    if not tiles or not isinstance(tiles[0], int) or tiles[0] < 1:
        return [None] * len(part.rows)
    small, larger = divmod(len(part.rows), tiles[0])
    cut = larger * (small + 1)
    return [
        at // (small + 1) + 1 if at < cut else larger + (at - cut) // max(small, 1) + 1
        for at in range(len(part.rows))
    ]


def _percent_rank(part: WindowPart) -> Column:
    most = len(part.rows) - 1
    return [first / most if most else 0.0 for first in part.first_peers]


def _cume_dist(part: WindowPart) -> Column:
    return [last / len(part.rows) for last in part.last_peers]


def _shifted(turn: int) -> Callable[..., Column]:
    def shift(
        part: WindowPart, values: Column, by: Column | None = None, otherwise: Column | None = None
    ) -> Column:
        found = []
        for at in range(len(values)):
            step = 1 if by is None else by[at]
            place = -1 if step is None else at + turn * int(step)
            inside = 0 <= place < len(values)
            found.append(values[place] if inside else None if otherwise is None else otherwise[at])
        return found

    return shift


def _first(part: WindowPart, values: Column) -> Column:
    return [values[start] if start < end else None for start, end in part.frames()]


def _last(part: WindowPart, values: Column) -> Column:
    return [values[end - 1] if start < end else None for start, end in part.frames()]


# ---- totals ------------------------------------------------------------------------------------------------


def _prefix_sums(values: Column) -> list[Any]:
    return list(accumulate((0 if value is None else value for value in values), add, initial=0))


def _counted(part: WindowPart, values: Column | None = None) -> Column:
    there = [1] * len(part.rows) if values is None else [int(value is not None) for value in values]
    upto = _prefix_sums(there)
    return [upto[end] - upto[start] for start, end in part.frames()]


def _summed(part: WindowPart, values: Column) -> Column:
    upto, counts = _prefix_sums(values), _counted(part, values)
    pairs = zip(part.frames(), counts, strict=True)
    return [upto[end] - upto[start] if count else None for (start, end), count in pairs]


def _averaged(part: WindowPart, values: Column) -> Column:
    pairs = zip(_summed(part, values), _counted(part, values), strict=True)
    return [None if not count else total / count for total, count in pairs]


def _extreme(choose: Callable[..., Any]) -> Callable[..., Column]:
    def find(part: WindowPart, values: Column) -> Column:
        upto: list[Any] = []
        for value in values:
            known = [each for each in (upto[-1] if upto else None, value) if each is not None]
            upto.append(choose(known, default=None))
        # From the first row on, what was found so far is known; other frames are gone through.
        return [
            upto[end - 1]
            if start == 0 and end
            else choose((v for v in values[start:end] if v is not None), default=None)
            for start, end in part.frames()
        ]

    return find


WINDOWS: dict[str, tuple[Callable[..., Column], str, int, int]] = {
    "row_number": (lambda part: list(range(1, len(part.rows) + 1)), "whole", 0, 0),
    "rank": (lambda part: [first + 1 for first in part.first_peers], "whole", 0, 0),
    "dense_rank": (lambda part: [peer + 1 for peer in part.peers], "whole", 0, 0),
    "percent_rank": (_percent_rank, "double", 0, 0),
    "cume_dist": (_cume_dist, "double", 0, 0),
    "ntile": (_ntile, "whole", 1, 1),
    "lag": (_shifted(-1), "first", 1, 3),
    "lead": (_shifted(1), "first", 1, 3),
    "first_value": (_first, "first", 1, 1),
    "last_value": (_last, "first", 1, 1),
    "count": (_counted, "whole", 0, 1),
    "sum": (_summed, "number", 1, 1),
    "avg": (_averaged, "double", 1, 1),
    "min": (_extreme(min), "first", 1, 1),
    "max": (_extreme(max), "first", 1, 1),
}
"""Each window function, the type of what it gives, and how many arguments it takes at least and at most."""


def compute_total(function: str, values: Column) -> Any:
    """Return a total over all rows: the window function without an order, in any of its rows."""
    rows = list(range(len(values)))
    if not rows:
        return 0 if function == "count" else None
    part = WindowPart(rows, [0] * len(rows), ordered=False, frame=None)
    return WINDOWS[function][0](part, values)[0]
