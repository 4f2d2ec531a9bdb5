"""What is said of errors beside other libraries follows from the figures, and a miss is called one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # its parts are scripts, not a package

from parts.measured_errors import Error, Measured, read_kept
from parts.peer_laws import draw_answers, rescale
from parts.studies import STUDIES, Cell, Number, exact, ranges
from parts.usefulness_page import is_larger, summarize


def cell(
    figure: str, ours: float, theirs: float, before: float | None = None, delta: float = 0.0
) -> Measured:
    def error(mean: float) -> Error:
        return Error(mean, mean / 1000, 3 * mean)

    old = None if before is None else error(before)
    return Measured(figure, figure, "Adult", False, 1.0, delta, error(ours), old, {"OpenDP": error(theirs)})


def test_medians_and_misses_are_named() -> None:
    lines = summarize([cell("a", 1, 2), cell("b", 1, 4), cell("c", 2, 1), cell("d", 9, 10, delta=1e-6)])
    pure, _, with_delta = lines[1], lines[2], next(line for line in lines if "OpenDP, (ε, δ)" in line)
    assert "3 cells, median error ×0.500 (at most 0.6: OK)" in pure
    assert "above ×1.02 in 1: MISSED" in pure
    assert lines[2] == "    c: ×2.000"
    assert "×0.900 (at most 0.85: MISSED)" in with_delta
    assert sum("NOT MEASURED" in line for line in lines) == 2


def test_half_widths_are_held_against_those_before() -> None:
    good, bad = (cell("8 averages", ours, 9.0, before=1.0) for ours in (0.5, 0.51))
    assert "half-width ×0.500 (at most 0.5: OK)" in summarize([good])[-1]
    assert "half-width ×0.510 (at most 0.5: MISSED)" in summarize([good, bad])[-1]


def test_equal_laws_are_not_called_larger() -> None:
    one = Error(1.0, 0.02, 3.0)
    assert not is_larger(replace(one, mean=1.09), one)
    assert is_larger(replace(one, mean=1.12), one)


@pytest.mark.parametrize("kind", ["count", "average", "variance", "2 nullable averages"])
def test_stated_noise_gives_its_error(kind: str) -> None:
    """A law without noise gives the exact answer, and one of scale 100 an error of about that."""
    numbers = (Number("x", 0, 10), Number("y", 0, 4))[: 2 if kind[0] == "2" else 0 if kind == "count" else 1]
    asked = Cell("t", kind, numbers, None, (), 1.0, 0.0)
    rng = np.random.default_rng(1)
    rows = {"": np.zeros(5000), "x": rng.integers(0, 11, 5000) * 1.0, "y": rng.integers(0, 5, 5000) * 1.0}
    part = {"centre": 5, "sum": 1e-3, "about": 5, "square_centre": 13, "count": 1e-3}
    part["square"] = 1e-3 if kind == "variance" else None
    law = {"noise": "laplace", "rows": 1e-3, "columns": {number.name: part for number in numbers}}
    figure = asked.figures[0]
    truth, bounds = exact([rows], asked, figure), ranges(asked, figure)
    assert np.allclose(draw_answers(law, asked, [rows], 3, rng)[figure], truth[..., None])
    noisy = Error.of(draw_answers(rescale(law, 1e5), asked, [rows], 4000, rng)[figure], truth, bounds)
    if kind == "count":
        assert 90 < noisy.mean < 110  # seeded, and far from both ends
    else:
        assert noisy.mean > 1e-4


def test_every_cell_was_measured_beside_both_libraries() -> None:
    kept = {each.name: each for each in read_kept()}
    names = [cell.name(figure) for study in STUDIES for cell in study.cells(["k"]) for figure in cell.figures]
    assert len(names) >= 60
    assert sorted(names) == sorted(kept)
    assert all({"OpenDP", "Tumult"} <= set(each.peers) for each in kept.values())
