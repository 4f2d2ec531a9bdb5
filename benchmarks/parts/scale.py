"""The page that derives from measured slopes what larger tables cost on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {"10⁹": 10**9, "10¹⁰": 10**10, "10¹¹": 10**11, "10¹²": 10**12}
CORES = 1000

_HEAD = """# What larger tables cost on Spark

`python benchmarks/spark.py --page docs/scale.md` wrote this page. Every figure is measured, or derived from
measured figures as described below. The measurements ran on Spark with two cores on one machine. The machine
may have been busy with other work, so trust the processor time; the wall-clock time is given in brackets.
"""
_SLOPES = """
## Cost per row

A straight line is fitted to the processor times above by least squares. Its slope is the cost of each further
million rows, and its intercept the cost of a question before its first row. Plain and private questions both
read every row once.
"""
_LARGER = """
## Larger tables

The processor time is rows × slope, and the wall-clock time on C cores is that divided by C, as long as four
assumptions hold:

- The cores are like the ones measured here.
- The store delivers Parquet as fast as the cores read it.
- Rows are spread evenly. One task ranks all rows of a unit, so a unit with a large part of all rows would
  slow down preparing, though never a question.
- The groups of a question, which are public and listed, are few compared with the rows, so the data sent
  between workers does not grow with the rows. Questions by unit send one row per unit and task, as their
  plain forms do.

Preparing sorts the rows of each task. Larger tasks would add a logarithmic factor that a straight line does
not show, so use more tasks instead of larger ones.
"""


def page(every: list[Any]) -> str:
    """Return the page; `every` holds what benchmarks/spark.py measured, one entry per size."""
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
    """Return the seconds per row and the seconds before the first row."""
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
    return _table(["", "CPU s per million rows", "CPU s before the first row"], rows)


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
