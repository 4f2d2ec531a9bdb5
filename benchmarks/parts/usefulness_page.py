"""What `usefulness.py` says of its figures: a summary, a page and a chart."""

from __future__ import annotations

from math import hypot
from statistics import median
from typing import TYPE_CHECKING

from parts.clinic_widths import measure_clinic
from parts.measured_errors import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from parts.measured_errors import Error, Measured

LIBRARIES = ("OpenDP", "Tumult")
MOST = {False: 0.6, True: 0.85}
"""What the median ratio to other libraries should be at most, without and with a δ."""
WORST = 1.02
BEFORE = {"nullable average": 0.5, "count beside it": 0.6, "8 averages": 0.5}
"""What the ratio of half-widths to those before should be at most, under pure ε and without groups."""


def ratio(ours: Error, other: Error) -> float:
    """Return our error in parts of another."""
    return divide(ours.mean, other.mean)


def width_ratio(ours: Error, other: Error) -> float:
    """Return our half-width in parts of another."""
    return divide(ours.half_width, other.half_width)


def is_larger(ours: Error, other: Error) -> bool:
    """Return whether ours is more than 1.02 times as large, beyond three standard errors."""
    spread = 3 * (ours.deviation**2 + (WORST * other.deviation) ** 2) ** 0.5
    return ours.mean - WORST * other.mean > spread


def summarize(measured: Sequence[Measured]) -> list[str]:
    """Return what the benchmark shows, a line each, with OK or MISSED where something was aimed for."""
    lines = [f"{len(measured)} cells"]
    for with_delta in (False, True):
        for name in LIBRARIES:
            cells = [each for each in measured if bool(each.delta) is with_delta and name in each.peers]
            if not cells:
                lines.append(f"{name}, {_guarantee(with_delta)}: NOT MEASURED")
                continue
            middle, widths = (
                median(of(each.ours, each.peers[name]) for each in cells) for of in (ratio, width_ratio)
            )
            larger = [each for each in cells if is_larger(each.ours, each.peers[name])]
            most = MOST[with_delta]
            lines.append(
                f"{name}, {_guarantee(with_delta)}: {len(cells)} cells, median error ×{middle:.3f} "
                f"(at most {most}: {_verdict(middle <= most)}), half-width ×{widths:.3f}; "
                f"above ×{WORST} in {len(larger)}: {_verdict(not larger)}"
            )
            lines += [f"    {each.name}: ×{ratio(each.ours, each.peers[name]):.3f}" for each in larger]
    return [*lines, *_summarize_before(measured)]


def _summarize_before(measured: Sequence[Measured]) -> list[str]:
    lines = []
    for figure, most in BEFORE.items():
        cells = [each for each in measured if each.figure == figure and not (each.delta or each.grouped)]
        found = [(width_ratio(c.ours, c.before), ratio(c.ours, c.before)) for c in cells if c.before]
        if found:
            width, mean = (max(part) for part in zip(*found, strict=True))
            verdict = f"at most {most}: {_verdict(width <= most)}"
            lines.append(f"before, pure ε, {figure}: half-width ×{width:.3f} ({verdict}), error ×{mean:.3f}")
    return lines


def _guarantee(with_delta: bool) -> str:
    return "(ε, δ)" if with_delta else "pure ε"


def _verdict(good: bool) -> str:
    return "OK" if good else "MISSED"


# ---- the page ----------------------------------------------------------------------------------------------


def write_page(measured: Sequence[Measured]) -> str:
    """Return the page about errors beside those of others, and beside our own before."""
    return "\n".join(
        [
            _HEAD,
            *_table(
                ["", "cells", "median error", "median half-width", "largest ratio", "in"], _peers(measured)
            ),
            _CHART,
            _BEFORE,
            *_table(["figure", "error", "half-width"], _before(measured)),
            _CLINIC,
            *_table(["question", "number", "ε", "before", "after", "ratio"], _clinic()),
            _CELLS,
            *_table(["cell", "ours", "before", *LIBRARIES, "ours / least"], map(_row, measured)),
            "",
        ]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(row)} |" for row in lines]


def _peers(measured: Sequence[Measured]) -> Iterable[list[str]]:
    for with_delta in (False, True):
        for name in LIBRARIES:
            cells = [each for each in measured if bool(each.delta) is with_delta and name in each.peers]
            if not cells:
                yield [f"{name}, {_guarantee(with_delta)}", "not measured", "", "", "", ""]
                continue
            worst = max(cells, key=lambda each: ratio(each.ours, each.peers[name]))
            yield [
                f"{name}, {_guarantee(with_delta)}",
                str(len(cells)),
                f"×{median(ratio(each.ours, each.peers[name]) for each in cells):.2f}",
                f"×{median(width_ratio(each.ours, each.peers[name]) for each in cells):.2f}",
                _with_deviation(worst.ours, worst.peers[name]),
                worst.name,
            ]


def _with_deviation(ours: Error, other: Error) -> str:
    """Return a ratio with its standard error, which is large where answers are almost always right."""
    found = ratio(ours, other)
    spread = found * hypot(*(divide(each.deviation, each.mean) for each in (ours, other)))
    return f"×{found:.2f} ± {spread:.1g}"


def _before(measured: Sequence[Measured]) -> Iterable[list[str]]:
    for with_delta in (False, True):
        for figure in dict.fromkeys(each.figure for each in measured):
            cells = [each for each in measured if each.figure == figure and bool(each.delta) is with_delta]
            found = [(each.ours, each.before) for each in cells if each.before and not each.grouped]
            if found:
                ways: tuple[Callable[[Error, Error], float], ...] = (ratio, width_ratio)
                middles = [f"×{median(of(*pair) for pair in found):.2f}" for of in ways]
                yield [f"{figure}, {_guarantee(with_delta)}", *middles]


def _clinic() -> Iterable[list[str]]:
    for each in measure_clinic():
        numbers = [f"± {_short(number)}" for number in (each.before, each.after)]
        yield [
            each.question,
            each.figure,
            f"{each.epsilon:g}",
            *numbers,
            f"×{divide(each.after, each.before):.2f}",
        ]


def _row(cell: Measured) -> list[str]:
    others = [_short(cell.peers[name].mean) if name in cell.peers else "" for name in LIBRARIES]
    least = min((each.mean for each in cell.peers.values()), default=None)
    return [
        cell.name,
        f"{_short(cell.ours.mean)} ± {cell.ours.deviation:.1g}",
        _short(cell.before.mean) if cell.before else "",
        *others,
        "" if least is None else f"{divide(cell.ours.mean, least):.2f}",
    ]


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


# ---- the chart ---------------------------------------------------------------------------------------------


def draw_chart(measured: Sequence[Measured], path: Path) -> None:
    """Draw for each figure the median ratio of our error to that of each library, and to ours before."""
    from sfumato.viz import grouped_bars

    bars = []
    for with_delta in (False, True):
        for figure in dict.fromkeys(each.figure for each in measured):
            cells = [each for each in measured if each.figure == figure and bool(each.delta) is with_delta]
            for name in (*LIBRARIES, "ours before"):
                others = [each.before if name == "ours before" else each.peers.get(name) for each in cells]
                found = [ratio(each.ours, other) for each, other in zip(cells, others, strict=True) if other]
                if found:
                    label = f"{figure}, {_guarantee(with_delta)}"
                    bars.append((label, name, median(found), min(found), max(found)))
    labels, series, height, low, high = zip(*bars, strict=True)
    title = "Our error in parts of others', at the same guarantee: median and range over cells"
    grouped_bars(labels, series, height, low, high, title=title, y="ratio", group="beside").save(path)
    print(f"\ndrawn: {path}")


_HEAD = """# Errors beside other libraries

`python benchmarks/usefulness.py --page docs/usefulness.md` writes this page. It asks the same questions
of the same rows of three real tables at the same guarantee: one patient (diabetes130, at most 3 rows),
one user (MovieTweetings, at most 20 rows) or one row (Adult) more or less, ε = 0.1 or 1, without a δ or
with δ = 1e-6. OpenDP 0.16 and Tumult Analytics 0.21 get their best documented way of asking, as
`benchmarks/parts/opendp_draws.py` and `tumult_draws.py` describe. An error is the mean distance from the
exact answer, a half-width what 95 % of the errors stay below. Ratios are ours in parts of theirs: 0.5 is
half the error for the same privacy. Where both laws are the same, as for a single count, the ratio is 1.
Our averages and variances are [posterior medians](proofs/post-processing.md), those of others are quotients
of noisy sums, as they show them. All are moved into the declared bounds.

With a δ all three libraries add Gaussian noise to sums. A single question at (ε, δ) is answered more
sharply at pure ε, by all of them; a δ pays where many questions share a budget.
"""
_CHART = "\n![Our error in parts of that of others, by question](images/usefulness.svg)"
_BEFORE = """
## Beside ourselves

The same questions of all rows, before and after noise had [the shape of what one row can
do](proofs/shaped-noise.md), at the same ε. "Before" splits ε over the sums by what each does to the
answer. Counts are whole numbers; an error of 5 rows stands for all from 4.5 to 5.5 in their half-widths.
"""
_CLINIC = """
## The clinic of the demo

Half-widths of the 95 % intervals of `sfumato demo`, at the same ε, without and with shaped noise. A total
alone is one sum, which has no shape.
"""
_CELLS = """
## All cells

Errors of counts are in rows; those of averages and quantiles in parts of the declared range; those of
variances in parts of the largest there can be. "Ours" is followed by its standard error.
"""
