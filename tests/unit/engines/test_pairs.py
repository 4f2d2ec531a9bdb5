"""Sums over pairs of columns, of which either may be missing, are those that Python computes."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import CellKey, CellSums, Counted, Present, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredGrid
from sfumato.engines.values import Add, Choose, Column, Constant, Divide, Missing, Multiply

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = (None, -9, -1, 0, 4, 9)
ROWS = list(product(NUMBERS, NUMBERS, (0, 1)))
X, Y, G = (Column(0, name) for name in "xyg")
ONE, OTHER = (Choose(Missing(b), Constant(None), a) for a, b in ((X, Y), (Y, X)))
SQUARE = Multiply(ONE, ONE)
TERMS = (
    Present(Add(X, Y)),
    Total(ONE),
    Total(Divide(Multiply(ONE, OTHER), Constant(4))),
    Total(Divide(SQUARE, Constant(8))),
)


def expected(group: int) -> list[int]:
    pairs = [(x, y) for x, y, g in ROWS if x is not None and y is not None and g == group]
    return [
        len(pairs),
        sum(x for x, _ in pairs),
        sum(int(x * y / 4) for x, y in pairs),  # towards zero
        sum(x * x // 8 for x, _ in pairs),
    ]


@pytest.mark.parametrize("more", [(), (Counted(),)], ids=["left out", "tested for"])
def test_pairs_with_missing_values(tmp_path: Path, more: tuple[Counted, ...]) -> None:
    engine = DuckDBEngine(tmp_path)
    columns = (StoredGrid("x", -9, 9), StoredGrid("y", -9, 9), StoredGrid("g", 0, 2))
    table = pa.table(dict(zip("xyg", map(list, zip(*ROWS, strict=True)), strict=True)))
    engine.prepare(table, Preparation(None, 1, columns, b"k"), "t")
    found = engine.run(CellSums(Scan("t"), ALL, (CellKey(G, 3),), (*TERMS, *more)))
    assert found[: len(TERMS)].T.tolist() == [expected(group) for group in range(3)]
