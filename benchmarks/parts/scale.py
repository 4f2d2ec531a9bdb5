"""The page that derives from measured slopes what larger tables cost on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {"10⁹": 10**9, "10¹⁰": 10**10, "10¹¹": 10**11, "10¹²": 10**12}
CORES = 1000

_HEAD = """# What larger tables cost on Spark

`python benchmarks/spark.py --page docs/scale.md` wrote this page: every figure is measured, or derived from
measured ones as said here. The measurements ran on a Spark of two cores on one machine; where it had
other work, processor time is the figure to trust, and the clock is beside it.
"""
_SLOPES = """
## Slopes

A straight line through the processor seconds above, by least squares: what each further million rows adds,
and what a question costs before its first row. Both plain and private questions read every row once.
"""
_LARGER = """
## Larger tables

Seconds of processor are rows × slope, and on C cores they take the clock that many seconds / C, while four
things hold. Cores are like the ones measured here. The store hands over Parquet as fast as the cores read
it. Rows are spread evenly: all rows of one unit are ranked by one task, so that one unit with a large part
of all rows would hold up preparing, though never a question. And the groups of a question, which are public
and listed, are few beside the rows, so that what is sent between workers does not grow with the rows;
questions by unit send one row for each unit and task, as their plain forms do. Preparing sorts the rows of
each task, which for larger tasks adds a logarithm that a straight line does not show; more tasks instead of
larger ones keep it as measured.
"""


def page(every: list[Any]) -> str:
    """`every` is what benchmarks/spark.py measured, a size each."""
    return "".join([_HEAD, _measured(every), _SLOPES, _slopes(every), _LARGER, _larger(every)])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _measured(every: list[Any]) -> str:
    head = ["", *(f"{each.rows // 10**6} M rows: CPU s (clock s)" for each in every)]
    shown: Callable[[Any], str] = lambda cost: f"{cost.cpu:.2f} ({cost.wall:.2f})"  # noqa: E731
    rows = [["preparing, once", *(shown(each.preparing) for each in every)]]
    for name in every[0].plain:
        rows.append([f"{name}, plain", *(shown(each.plain[name]) for each in every)])
        rows.append([f"{name}, private", *(shown(each.private[name]) for each in every)])
        rows.append(["private / plain", *(_ratio(each.private[name], each.plain[name]) for each in every)])
    sizes = [
        "source and snapshot, MB",
        *(f"{each.source_bytes / 1e6:.0f} and {each.snapshot_bytes / 1e6:.0f}" for each in every),
    ]
    planned = "; ".join(f"{name}: {a} plain, {b} private" for name, (a, b) in every[-1].exchanges.items())
    return _table(head, [*rows, sizes]) + f"\nExchanges in the physical plan: {planned}.\n"


def _ratio(private: Any, plain: Any) -> str:
    return f"{private.cpu / plain.cpu:.2f} ({private.wall / plain.wall:.2f})"


def _line(every: list[Any], of: Callable[[Any], float]) -> tuple[float, float]:
    """Seconds a row, and seconds before the first."""
    slope, start = np.polyfit([each.rows for each in every], [of(each) for each in every], 1)
    return float(slope), float(start)


def _lines(every: list[Any]) -> dict[str, tuple[float, float]]:
    lines = {"preparing": _line(every, lambda each: each.preparing.cpu)}
    for name in every[0].plain:
        lines[f"{name}, plain"] = _line(every, lambda each, name=name: each.plain[name].cpu)  # type: ignore[misc]
        lines[f"{name}, private"] = _line(every, lambda each, name=name: each.private[name].cpu)  # type: ignore[misc]
    return lines


def _slopes(every: list[Any]) -> str:
    rows = [[name, f"{slope * 1e6:.3f}", f"{start:.2f}"] for name, (slope, start) in _lines(every).items()]
    return _table(["", "CPU s a million rows", "CPU s before the first"], rows)


def _larger(every: list[Any]) -> str:
    each_row = _line(every, lambda each: each.snapshot_bytes)[0]
    head = ["", *(f"{size} rows" for size in SIZES)]
    rows = [["snapshot", *(_size(each_row * number) for number in SIZES.values())]]
    for name, (slope, _) in _lines(every).items():
        rows.append([f"{name}: core-hours", *(f"{slope * number / 3600:,.3g}" for number in SIZES.values())])
        clock = [_clock(slope * number / CORES) for number in SIZES.values()]
        rows.append([f"{name}: clock on {CORES:,} cores", *clock])
    return _table(head, rows)


def _size(number: float) -> str:
    return f"{number / 1e12:.2g} TB" if number >= 1e12 else f"{number / 1e9:.2g} GB"


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
