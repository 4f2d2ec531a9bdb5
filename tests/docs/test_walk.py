"""The tool that prints walks runs, and a fit does not step through its lookup tables in every round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warm

WALK = Path(__file__).parents[2] / "tools" / "walk.py"
MOST = {
    "registration": (78, 370, 880),
    "question": (128, 920, 7_200),
    "fit": (104, 550, 39_500),
    "http": (138, 845, 7_600),
}
"""Most files, functions and calls of each walk: counted, so that limits do not depend on the machine."""


@pytest.fixture(scope="module")
def summary() -> dict[str, tuple[int, ...]]:
    run = warm.run([WALK, "--summary"], check=True)
    line = r"^(\w+) +(\d+) files +(\d+) functions +([\d,]+) calls$"
    found = re.findall(line, run.stdout, re.MULTILINE)
    return {name: tuple(int(each.replace(",", "")) for each in counts) for name, *counts in found}


@pytest.mark.parametrize("walk", MOST)
def test_walks_stay_short(summary: dict[str, tuple[int, ...]], walk: str) -> None:
    assert min(summary[walk]) > 0
    assert [(a, b) for a, b in zip(summary[walk], MOST[walk], strict=True) if a > b] == []
