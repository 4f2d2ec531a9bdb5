"""The page on scale is derived from what was measured, and from nothing that was not seen."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
scale: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "parts" / "scale.py"))
SIZES = [1_000_000, 2_000_000, 3_000_000, 4_000_000]


def measured(rows: int, flat: float) -> SimpleNamespace:
    """A size at which a private question took `flat` seconds, and everything else grows with the rows."""

    def cost(seconds: float) -> SimpleNamespace:
        return SimpleNamespace(cpu=seconds, wall=seconds)

    return SimpleNamespace(
        rows=rows,
        preparing=cost(1 + rows / 1e5),
        source_bytes=7 * rows,
        snapshot_bytes=8 * rows,
        plain={"a sum": cost(rows / 1e7)},
        private={"a sum": cost(flat)},
        exchanges={"a sum": (1, 1)},
        units=rows // 10,
        gathered=cost(rows / 1e6),
        gathered_bytes=40 * rows,
    )


@pytest.mark.parametrize("figures", [[0.39, 0.33, 0.31, 0.30], [0.3, 0.4, 0.28, 0.37], [0.3] * 4])
def test_what_does_not_grow_is_not_extrapolated(figures: list[float]) -> None:
    line = scale["fit_line"](SIZES, figures)
    assert not line.was_seen
    page = scale["page"]([measured(rows, flat) for rows, flat in zip(SIZES, figures, strict=True)])
    assert "| a sum, private:" not in page
    assert "Not derived, as not seen to grow: a sum, private." in page
    assert "-0." not in page
    assert "| a sum, plain: core-hours | 0.0278 |" in page


def test_a_line_needs_sizes_and_shows_how_well_it_fits() -> None:
    with pytest.raises(ValueError, match="at least 4 sizes"):
        scale["fit_line"](SIZES[:3], [1.0, 2.0, 3.0])
    line = scale["fit_line"](SIZES, [1.0, 2.1, 2.9, 4.0])
    assert line.was_seen
    assert line.low < line.slope < line.high


def test_the_page_says_nothing_impossible() -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    assert "| -" not in page.replace("| ---", "")
    assert "Questions that bring every unit to the driver" in page
