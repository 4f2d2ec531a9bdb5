"""Bounds that are chosen privately, and what they are for: promising less than everything."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2020, 1, 1)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    lab = sf.create(tmp_path / "lab")
    numbers = np.arange(4000)
    source = pa.table(
        {
            "id": numbers,
            "cost": 1000 + numbers % 100,
            "seen": [DAY + timedelta(days=int(each % 50)) for each in numbers],
            "same": np.full(4000, 50),
        }
    )
    columns = {
        "cost": sf.between(-(10**6), 10**6),
        "seen": sf.between(date(1900, 1, 1), date(2100, 1, 1)),
        "same": sf.between(0, 50, step=1),
    }
    lab.register("t", source, unit=sf.Unit("id", max_rows=1), columns=columns, budget=sf.Budget(100))
    return lab.session().table("t")


def test_bounds_of_a_wide_promise_hold_most_rows_and_little_else(table: Any) -> None:
    found = table.bounds("cost", keep=0.9).release(epsilon=4)
    assert 995 <= found.low <= 1015
    assert 1085 <= found.high <= 1105
    assert found.promise() == sf.between(found.low, found.high)


def test_bounds_of_dates_are_dates(table: Any) -> None:
    found = table.bounds("seen").release(epsilon=4)
    assert abs((found.low - DAY).days) <= 2
    assert abs((found.high - DAY).days - 50) <= 2


def test_bounds_are_a_stretch_even_where_all_values_are_one(table: Any) -> None:
    found = table.bounds("same").release(epsilon=50)
    assert (found.low, found.high) == (49, 50)
    assert found.promise(step=1) == sf.between(49, 50, step=1)


def test_a_quote_says_how_many_rows_may_lie_outside_by_luck(table: Any) -> None:
    quote = table.bounds("cost").quote(epsilon=1)
    assert quote.epsilon == 1
    assert "rows more or fewer beyond each end" in str(quote)


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.group_by("same").bounds("cost"),
        lambda t: t.bounded(groups=1, rows=1).top("same"),
        lambda t: t.group_by("same").distance("COUNT(*) >= 100"),
        lambda t: t.group_by("same").subsample(sf.median("cost"), blocks=5),
    ],
)
def test_groups_and_limits_are_not_ignored(table: Any, ask: Any) -> None:
    with pytest.raises(UsageError, match="SF-Q127"):
        ask(table)


@pytest.mark.parametrize("keep", [-1, 1.5, float("nan")])
def test_a_share_to_keep_is_one(table: Any, keep: float) -> None:
    with pytest.raises(UsageError, match="SF-"):
        table.bounds("cost", keep=keep)
