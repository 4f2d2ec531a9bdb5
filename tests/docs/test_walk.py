"""The tool that prints walks runs, and a fit does not step through its lookup tables in every round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warm

WALK = Path(__file__).parents[2] / "tools" / "walk.py"
MOST_CALLS = {"registration": 1_000, "question": 9_000, "fit": 42_000}
"""Python calls are counted, not timed, so the limits do not depend on the machine."""


@pytest.fixture(scope="module")
def summary() -> dict[str, int]:
    run = warm.run([WALK, "--summary"], check=True)
    found = re.findall(r"^(\w+) +\d+ files +\d+ functions +([\d,]+) calls$", run.stdout, re.MULTILINE)
    return {name: int(calls.replace(",", "")) for name, calls in found}


@pytest.mark.parametrize("walk", MOST_CALLS)
def test_walks_stay_short(summary: dict[str, int], walk: str) -> None:
    assert 0 < summary[walk] <= MOST_CALLS[walk]
