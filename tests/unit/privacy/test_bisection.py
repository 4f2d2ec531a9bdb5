"""Bisection finds far ends quickly, and says so where there is none."""

from __future__ import annotations

import pytest

from sfumato.errors import UsageError
from sfumato.privacy.bisection import find_largest, find_smallest


@pytest.mark.parametrize("end", [0.3, 17.0, 1e9, 1e25])
def test_far_ends_take_few_looks(end: float) -> None:
    looks: list[float] = []

    def holds(number: float) -> bool:
        looks.append(number)
        return number >= end

    found = find_smallest(holds, 0.0, 1.0, precision=1e-6)
    assert end <= found <= end * (1 + 1e-5)
    assert len(looks) < 150
    found = find_largest(lambda number: not holds(number), 0.0, 1.0, precision=1e-6)
    assert end * (1 - 1e-5) <= found < end


def test_what_nothing_meets_is_told() -> None:
    with pytest.raises(UsageError, match="SF-N312"):
        find_smallest(lambda _: False, 0.0, 1.0)
