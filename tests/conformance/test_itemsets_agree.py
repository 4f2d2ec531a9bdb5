"""What a unit has, as one transaction, is the same on every engine."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import load

ITEMS = ["a", "b", "c", "d", "e"]


def bought() -> pa.Table:
    rng = np.random.default_rng(3)
    rows = [
        (who, item)
        for who in range(300)
        for item in ITEMS
        if rng.random() < 0.9 / (1 + ITEMS.index(item)) or (item in "de" and who < 90)
    ]
    return pa.table({"who": [who for who, _ in rows], "item": [item for _, item in rows]})


def fitted(lab: Any, source: Any) -> Any:
    lab.register(
        "bought",
        source,
        unit=sf.Unit("who", max_rows=5),
        columns={"item": sf.one_of(*ITEMS)},
        budget=sf.Budget(epsilon=1e6),
    )
    return lab.session().fit(sf.learn.FrequentItemsets(7, epsilon=1e4), table="bought", features="item")


def test_postgres_counts_as_own_arrays_do(postgres: str, tmp_path: Path) -> None:
    rows, name = bought(), f"bought_{secrets.token_hex(4)}"
    load(postgres, name, rows)
    there = fitted(sf.create(tmp_path / "there"), f"{postgres}#public.{name}")
    baskets: dict[int, list[str]] = {}
    for who, item in zip(rows["who"].to_pylist(), rows["item"].to_pylist(), strict=True):
        baskets.setdefault(who, []).append(item)
    here = sf.learn.FrequentItemsets(7, epsilon=1e4, items=ITEMS).fit(list(baskets.values()))
    assert there.itemsets_ == here.itemsets_
    assert there.counts_ == pytest.approx(here.counts_, abs=1)
