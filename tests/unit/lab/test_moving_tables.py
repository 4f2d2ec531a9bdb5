"""A table that moves on while it is asked about: nothing is charged for what cannot be read any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError
from waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = pa.table({"age": [30.0, 40.0, 50.0]})


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    lab.register("t", SOURCE, unit=sf.ROW, columns={"age": sf.between(0, 110)}, budget=sf.Budget(epsilon=10))
    return lab


def test_a_price_for_a_snapshot_that_is_gone_is_not_charged(lab: sf.Lab) -> None:
    query: Any = lab.session().sql("SELECT COUNT(*) AS n FROM t")
    plan = query.quote(epsilon=1).plan
    lab.advance("t", SOURCE)
    with pytest.raises(PolicyError, match="SF-C135"):
        query._payer.pay(plan, "late")
    assert lab.budget.to_dict()["population:t"]["left_epsilon"] == 10
    assert query.release(epsilon=1).receipt.entry > 0


def test_a_snapshot_is_not_erased_while_it_is_read(lab: sf.Lab) -> None:
    advanced = threading.Thread(target=lab.advance, args=("t", SOURCE))
    old = lab.table("t").snapshot_name
    with lab.reading({old}):
        advanced.start()
        advanced.join(timeout=1)
        assert advanced.is_alive()
        assert any(old in path.name for path in (lab.folder / "snapshots").iterdir())
    advanced.join(PATIENCE)
    assert not advanced.is_alive()
    assert not any(old in path.name for path in (lab.folder / "snapshots").iterdir())
