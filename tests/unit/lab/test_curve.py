"""One release of a cumulative curve answers every quantile, with intervals that hold."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

SHARES = (0.05, 0.3, 0.5, 0.9)
RNG = np.random.default_rng(4)
ROWS = pa.table(
    {
        "id": np.arange(3000) // 2,
        "age": RNG.normal(45, 15, 3000).clip(0, 110).astype(np.int64),
        "cost": RNG.gamma(2, 500, 3000).clip(0, 5000),
        "day": pa.array(RNG.integers(18_262, 18_300, 3000).astype("datetime64[D]")),
        "note": ["x"] * 3000,
    }
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("curve")
    lab = sf.create(folder / "lab")
    columns = {
        "age": sf.between(0, 110, step=1),
        "cost": sf.between(0, 5000),
        "day": sf.between(date(2020, 1, 1), date(2020, 2, 28)),
        "note": sf.text(),
    }
    budget = sf.Budget(epsilon=100_000, delta=1e-3)
    lab.register("visits", ROWS, unit=sf.Unit("id", max_rows=2), columns=columns, budget=budget)
    return lab.session()


@pytest.mark.parametrize("column", ["age", "cost"])
@pytest.mark.parametrize("spend", [{}, {"delta": 1e-5}], ids=["pure", "gaussian"])
def test_intervals_hold_and_quantiles_are_near(session: Any, column: str, spend: dict[str, float]) -> None:
    exact = np.quantile(ROWS[column].to_numpy(), SHARES, method="inverted_cdf")
    asked = session.table("visits").curve(column, points=128)
    held = 0
    for draw in range(12):
        curve = asked.release(epsilon=2 + draw / 10**6, **spend)
        ends = [curve.interval(share) for share in SHARES]
        held += sum(low <= truth <= high for (low, high), truth in zip(ends, exact, strict=True))
        widths = [high - low for low, high in ends]
        assert max(widths) < 0.25 * (ROWS[column].to_numpy().max())
        near = [abs(curve.quantile(share) - truth) for share, truth in zip(SHARES, exact, strict=True)]
        assert max(near) < 0.15 * ROWS[column].to_numpy().max()
    # 48 intervals, of which 45.6 hold on average; below 33 less than once in a billion runs.
    assert held >= 33


def test_a_curve_is_charged_once_and_replayed(session: Any) -> None:
    asked = session.table("visits").where("cost > 100").curve("age")
    first, again = asked.release(epsilon=1), asked.release(epsilon=1)
    assert not first.receipt.replayed
    assert again.receipt.replayed
    assert first.to_arrow().equals(again.to_arrow())
    assert first.to_arrow().num_rows == 111
    assert first.share_below(110) == pytest.approx(1)
    assert "50 %" in str(first)
    assert first.plot().spec["title"]
    assert first.to_dict()["values"][0] == 0


def test_dates_have_curves_too(session: Any) -> None:
    curve = session.table("visits").curve("day").release(epsilon=50)
    low, high = curve.interval(0.5)
    assert low <= curve.quantile(0.5) <= high
    assert isinstance(low, date)
    assert curve.to_arrow().schema.field("day").type == pa.date32()


def test_what_it_cannot_draw_is_refused_for_nothing(session: Any) -> None:
    table, spent = session.table("visits"), session.budget.to_dict()
    for refused, code in (
        (lambda: table.curve("note"), "SF-Q110"),
        (lambda: table.curve("age", points=2000), "SF-Q158"),
        (lambda: table.curve("day", points=10), "SF-Q158"),
        (lambda: table.group_by("age").curve("cost"), "SF-Q127"),
    ):
        with pytest.raises((PolicyError, UsageError)) as error:
            refused()
        assert error.value.code == code
    assert session.budget.to_dict() == spent
    with pytest.raises(UsageError, match="SF-N101"):
        table.curve("age").release(epsilon=5).quantile(1)
