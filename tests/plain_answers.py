"""The comparison of an answer without noise with what plain DuckDB answers to the same SQL."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from sqlglot import exp, parse_one

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Row = tuple[Any, ...]


Far = tuple[float, float]
"""How far a number may be off: a share of it, or an amount."""


@dataclass(frozen=True)
class Near:
    """How near two rows must be: keys equal, numbers as near as their column says."""

    far: tuple[Far, ...]
    rows: int

    def are(self, one: Row, other: Row) -> bool:
        return len(one) == len(other) and all(map(self._is, one, other, self.far))

    def _is(self, one: Any, other: Any, far: Far) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            within = math.isclose(one, other, rel_tol=far[0], abs_tol=far[1])
            return within or abs(one - other) <= self.rows * max(1.0, abs(other) / 1000)
        return bool(one == other)


def compare_answers(
    sql: str,
    answer: pa.Table,
    plain: duckdb.DuckDBPyConnection,
    *,
    relative: float = 1e-9,
    rows: int = 0,
    step: float = 0,
) -> None:
    """Require the same columns, rows and order, apart from declared groups that nobody is in.

    Numbers may differ by `relative`, quantiles by `step`, and counts by `rows` on a boundary.
    Where `relative` is for coarse grids, ROUND may go the other way.
    """
    cursor, select = plain.execute(sql), parse_one(sql, dialect="duckdb")
    names = [column[0] for column in cursor.description or ()]
    theirs = [tuple(map(_plainly, row)) for row in cursor.fetchall()]
    ours = [tuple(map(_plainly, row.values())) for row in answer.to_pylist()]
    columns = getattr(select, "selects", [])  # PIVOT has none
    shown = columns if len(columns) == len(names) else [exp.Literal.number(0)] * len(names)
    near = Near(tuple(_find_far(each, relative, step) for each in shown), rows)
    assert answer.column_names == names or len(names) == 1
    extra, missing = _match(ours, theirs, near)
    assert missing == [], (sql, ours)
    assert [row for row in extra if not _is_empty(row, shown)] == []
    places = _ordered_by(select, names)
    in_order = replace(near, far=tuple(near.far[place] for place in places))
    both = zip([row for row in ours if row not in extra], theirs, strict=True)
    for one, other in both:
        assert in_order.are(tuple(one[at] for at in places), tuple(other[at] for at in places))


def _plainly(value: Any) -> Any:
    """A value of either side in one type: numbers as doubles, dates as timestamps."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, datetime | date):
        return datetime(*value.timetuple()[:6])
    return None if math.isnan(value) else float(value)


def find_relative(sql: str) -> float:
    """How far numbers of a question may be off: quotients and functions of rows are summed on a grid."""
    return 1e-6 if re.search(r"/|\b(SQRT|LN|LOG2|LOG10|EXP|POWER)\(", sql) else 1e-9


_QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.Min, exp.Max)
_MOMENTS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.Corr, exp.CovarSamp, exp.CovarPop)


def _find_far(shown: exp.Expression, relative: float, step: float) -> Far:
    """How far a column may be off. Products are summed on a coarser grid than their factors."""
    if shown.find(*_QUANTILES):
        return relative, max(step, relative / 10)
    if shown.find(*_MOMENTS):
        return max(relative, 1e-4), 1e-6
    if relative <= 1e-6 or not isinstance(shown.unalias(), exp.Round):
        return relative, relative / 10
    digits = shown.unalias().args.get("decimals")
    return relative, 1.01 * 10.0 ** -int(0 if digits is None else digits.this)


def _match(ours: list[Row], theirs: list[Row], near: Near) -> tuple[list[Row], list[Row]]:
    """Rows of either side that have no partner on the other."""
    left, extra = list(theirs), []
    for row in ours:
        found = next((i for i, other in enumerate(left) if near.are(row, other)), None)
        if found is None:
            extra.append(row)
        else:
            left.pop(found)
    return extra, left


def _is_empty(row: Row, shown: list[exp.Expression]) -> bool:
    """Whether a row of the answer is a declared group that nobody is in, whatever its place among others."""
    pairs = [pair for pair in zip(row, shown, strict=True) if not pair[1].find(exp.Window)]
    numbers = [value for value, each in pairs if each.find(exp.AggFunc)]
    numbers = numbers or [value for value, _ in pairs if isinstance(value, float)]
    return bool(numbers) and all(value in (None, 0) or isinstance(value, str) for value in numbers)


def _ordered_by(select: Any, names: list[str]) -> list[int]:
    """The shown columns of a final ORDER BY, up to the first that is not shown."""
    order, places = select.args.get("order"), []
    for each in [] if order is None else order.expressions:
        term = each.this.sql()
        place = int(term) - 1 if term.isdigit() else names.index(term) if term in names else None
        if place is None:
            break
        places.append(place)
    return places
