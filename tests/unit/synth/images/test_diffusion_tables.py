"""Diffusion models behind the curator: charged once before rows are read, and given again for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato as sf  # noqa: E402
from sfumato.errors import SfumatoError  # noqa: E402
from sfumato.privacy.account import caps, price  # noqa: E402
from sfumato.privacy.budget import Budget  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {
    "age": sf.between(0, 110),
    "cost": sf.between(0, 1000),
    "kind": sf.one_of("x", "y", "z"),
    "ward": sf.one_of("a", "b"),
}
ASKED: dict[str, Any] = {"table": "visits", "features": ["age", "kind", "cost"], "target": "ward"}
BUDGET = sf.Budget(epsilon=40, delta=1e-4)


def _visits(rows: int = 400) -> pa.Table:
    b = np.arange(rows) % 4 == 0
    return pa.table(
        {
            "age": np.where(b, 80, 30),
            "cost": np.where(b, 900, 100),
            "kind": pa.array(np.where(b, "y", "x"), mask=np.arange(rows) % 50 == 1),
            "ward": pa.array(np.where(b, "b", "a"), mask=np.arange(rows) % 50 == 2),
        }
    )


def _lab(path: Path, visits: pa.Table, **more: Any) -> Any:
    lab = sf.create(path)
    lab.register("visits", visits, unit=sf.ROW, columns=COLUMNS, budget=BUDGET, **more)
    return lab


def _diffusion(**more: Any) -> sf.synth.Diffusion:
    settings = {"steps": 40, "warm_steps": 40, "width": 32, "draws": 2, "learning_rate": 1e-2}
    return sf.synth.Diffusion(
        **{"epsilon": 20, "delta": 1e-5, "average": 0.8, "rows": 400, **settings, **more}
    )


@pytest.mark.usefixtures("seeded_steps")
def test_a_table_is_charged_once_and_sampled_for_nothing(tmp_path: Path) -> None:
    lab = _lab(tmp_path / "lab", _visits())
    session = lab.session()
    quoted = session.quote(_diffusion(), **ASKED)
    before = str(lab.budget)
    made = session.fit(_diffusion(), **ASKED)
    assert made.split_ == quoted
    spent = str(lab.budget)
    assert spent != before
    # An account of what was asked for just holds what was charged.
    assert caps(Budget(20, 1e-5)).holds(price(quoted.event))
    table, wards = made.sample(200, seed=1, steps=15)
    assert table.column_names == ["age", "kind", "cost"]
    assert set(table["kind"].to_pylist()) <= {"x", "y", "z"}
    age, cost = table["age"].to_numpy(), table["cost"].to_numpy()
    assert 0 <= age.min() <= age.max() <= 110
    assert 0 <= cost.min() <= cost.max() <= 1000
    # Some 14 apart with fixed seeds; the noise of moments moves that by about 1.
    assert age[wards == "b"].mean() > age[wards == "a"].mean()
    again = session.fit(_diffusion(), **ASKED)
    assert again.sample(50, seed=1, steps=15)[0] == made.sample(50, seed=1, steps=15)[0]
    assert str(lab.budget) == spent
    assert "one row" in made.guarantee_.unit


def test_rows_that_hold_nothing_do_not_fail_after_the_charge(tmp_path: Path) -> None:
    empty = _visits().slice(0, 0)
    nothing = pa.table(
        {name: pa.nulls(5, kind) for name, kind in zip(empty.column_names, empty.schema.types, strict=True)}
    )
    for at, rows in enumerate((empty, nothing)):
        session = _lab(tmp_path / str(at), rows).session()
        for warm in (0, 0.25):
            made = session.fit(_diffusion(warm=warm, steps=2, warm_steps=2), **ASKED)
            table, wards = made.sample(5, steps=2)
            assert len(table) == len(wards) == 5


@pytest.mark.parametrize(
    ("code", "wrong", "settings"),
    [
        ("SF-E112", {"target": None}, {}),
        ("SF-E112", {"rows_per_unit": 2}, {}),
        ("SF-E132", {}, {"rows": None}),
        ("SF-E179", {}, {"batch_size": 401}),
        ("SF-N316", {}, {"delta": None}),
        ("SF-E179", {}, {"network": "unet"}),
    ],
)
def test_what_cannot_be_trained_is_refused_before_the_charge(
    code: str, wrong: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    lab = _lab(tmp_path / "lab", _visits(40))
    before = str(lab.budget)
    with pytest.raises(SfumatoError) as refused:
        lab.session().fit(_diffusion(**settings), **{**ASKED, **wrong})
    assert refused.value.code == code
    assert str(lab.budget) == before


def test_replaced_units_are_refused(tmp_path: Path) -> None:
    lab = _lab(tmp_path / "lab", _visits(40), neighbours=sf.REPLACE_ONE, rows=40)
    with pytest.raises(SfumatoError, match="SF-E132"):
        lab.session().fit(_diffusion(rows=40, batch_size=5), **ASKED)
