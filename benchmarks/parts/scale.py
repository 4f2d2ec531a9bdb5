"""The page that derives from measured slopes what larger tables cost on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.stats import linregress
from scipy.stats import t as student

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {"10⁹": 10**9, "10¹⁰": 10**10, "10¹¹": 10**11, "10¹²": 10**12}
CORES = 1000
FEWEST = 4
"""Fewest sizes that a line is fitted to: with fewer there is nothing to see of how well it fits."""
NOT_SEEN = "not seen to grow"

_HEAD = """# What larger tables cost on Spark

`python benchmarks/spark.py --page docs/scale.md` wrote this page. Every figure is measured, or derived from
measured figures as described below. The measurements ran on Spark with two cores on one machine. The machine
may have been busy with other work, so trust the processor time; the wall-clock time is given in brackets.
"""
_SLOPES = """
## Cost per row

A straight line is fitted to the processor times above by least squares. Its slope is the cost of each
further million rows, given with its 95 % interval (Student's t, from how far the times lie off the line),
and its intercept the cost of a question before its first row. Where the interval reaches down to 0, the
time was not seen to grow over these sizes, and nothing is derived from it but the upper end; where the
times fell, which rows cannot cause, not even that. Plain and private questions both read every row once.
"""
_GATHERED = """
## Questions that bring every unit to the driver

Most programs return a few sums, whatever the number of rows. Some need numbers of every unit, and Python
on the driver computes with all of them: distances to counts, sums, shares and quantiles, and
classifiers by objective perturbation (program `UnitFigures`, tagged "People"). More cores do not help
them, and the driver must hold all units. One such question, the distance to a bounded sum:
"""
_GATHERED_LIMIT = """
These figures are not extrapolated. They grow with the units, on one machine: the driver's memory and
Spark's `spark.driver.maxResultSize` limit such questions, and nothing of this kind was measured on more
units than the table shows.
"""
_LARGER = """
## Larger tables

The processor time is rows × slope, and the wall-clock time on C cores is that divided by C. Nothing
beyond the sizes above was measured. The table below multiplies the upper ends of the intervals, and only
where a slope was seen, and it holds as long as four assumptions do:

- The cores are like the ones measured here.
- The store delivers Parquet as fast as the cores read it.
- Rows are spread evenly. One task ranks all rows of a unit, so a unit with a large part of all rows would
  slow down preparing, though never a question.
- The groups of a question, which are public and listed, are few compared with the rows, so the data sent
  between workers does not grow with the rows. Questions by unit send one row per unit and task, as their
  plain forms do; those that bring every unit to the driver are not covered.

Preparing sorts the rows of each task. Larger tasks would add a logarithmic factor that a straight line does
not show, so use more tasks instead of larger ones.
"""


def page(every: list[Any]) -> str:
    """Return the page; `every` holds what benchmarks/spark.py measured, one entry per size."""
    parts = [_HEAD, _measured(every), _SLOPES, _slopes(every), _GATHERED, _gathered(every), _GATHERED_LIMIT]
    return "".join([*parts, _LARGER, _larger(every)])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _measured(every: list[Any]) -> str:
    head = ["", *(f"{each.rows / 10**6:g} M rows: CPU s (clock s)" for each in every)]
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


@dataclass(frozen=True)
class Line:
    """A line through measured points: its slope with an interval, and where it starts."""

    slope: float
    low: float
    high: float
    start: float

    @property
    def was_seen(self) -> bool:
        """Whether the measured figures grow at all, beyond what their scatter explains."""
        return self.low > 0


def fit_line(sizes: list[int], figures: list[float]) -> Line:
    """Return the least-squares line, with the 95 % interval of its slope; too few sizes are refused."""
    if len(set(sizes)) < FEWEST:
        raise ValueError(f"a line needs at least {FEWEST} sizes, and there are {len(set(sizes))}")
    found = linregress(sizes, figures)
    reach = float(found.stderr) * float(student.ppf(0.975, len(sizes) - 2))
    slope = float(found.slope)
    return Line(slope, slope - reach, slope + reach, float(found.intercept))


def _line(every: list[Any], of: Callable[[Any], float]) -> Line:
    return fit_line([each.rows for each in every], [of(each) for each in every])


def _lines(every: list[Any]) -> dict[str, Line]:
    lines = {"preparing": _line(every, lambda each: each.preparing.cpu)}
    for name in every[0].plain:
        lines[f"{name}, plain"] = _line(every, lambda each, name=name: each.plain[name].cpu)  # type: ignore[misc]
        lines[f"{name}, private"] = _line(every, lambda each, name=name: each.private[name].cpu)  # type: ignore[misc]
    return lines


def _slopes(every: list[Any]) -> str:
    rows = [[name, _slope(line), f"{max(line.start, 0):.2f}"] for name, line in _lines(every).items()]
    return _table(["", "CPU s per million rows", "CPU s before the first row"], rows)


def _slope(line: Line) -> str:
    if not line.was_seen:
        # Times that fall say nothing: they are those of a machine that was busier before.
        return f"{NOT_SEEN}: at most {line.high * 1e6:.3f}" if line.slope > 0 else NOT_SEEN
    return f"{line.slope * 1e6:.3f} ({line.low * 1e6:.3f} to {line.high * 1e6:.3f})"


def _gathered(every: list[Any]) -> str:
    head = ["rows", "units", "CPU s (clock s)", "most memory of the driver's Python, MB"]
    shown = [
        [
            f"{each.rows / 10**6:g} M",
            f"{each.units:,}",
            f"{each.gathered.cpu:.2f} ({each.gathered.wall:.2f})",
            f"{each.gathered_bytes / 1e6:.0f}",
        ]
        for each in every
    ]
    return _table(head, shown)


def _larger(every: list[Any]) -> str:
    stored = _line(every, lambda each: each.snapshot_bytes)
    head = ["", *(f"{size} rows" for size in SIZES)]
    rows = [["snapshot", *_derived(stored, _size)]] if stored.was_seen else []
    lines = _lines(every)
    for name, line in lines.items():
        if line.was_seen:
            rows.append([f"{name}: core-hours", *_derived(line, lambda seconds: f"{seconds / 3600:,.3g}")])
            clock = _derived(line, lambda seconds: _clock(seconds / CORES))
            rows.append([f"{name}: clock on {CORES:,} cores", *clock])
    missing = "; ".join(name for name, line in lines.items() if not line.was_seen)
    return _table(head, rows) + (f"\nNot derived, as {NOT_SEEN}: {missing}.\n" if missing else "")


def _derived(line: Line, show: Callable[[float], str]) -> list[str]:
    """Return what larger tables take at most."""
    return [show(line.high * number) for number in SIZES.values()]


def _size(number: float) -> str:
    return f"{number / 1e12:.2g} TB" if number >= 1e12 else f"{number / 1e9:.2g} GB"


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
