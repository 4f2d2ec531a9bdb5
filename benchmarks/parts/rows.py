"""The purchases that the speed of questions is measured on: the same rows every time, for a given number.

    python benchmarks/parts/rows.py purchases.parquet [rows]

One user for every ten rows, a few of whom have many; 1,000 skewed categories; four years of days; log-normal
amounts, of which one in 300 lies above the bound of 500.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

CATEGORIES = tuple(f"cat_{i:04}" for i in range(1_000))
FIRST, LAST = date(2021, 1, 1), date(2024, 12, 31)
HIGHEST = 500
MAX_ROWS = 20
SEED, CHUNK = 20_240_229, 1_000_000


def write(path: Path, rows: int) -> None:
    """The rows as Parquet, a million at a time, so that memory does not grow with their number."""
    import pyarrow.parquet as pq

    chunks = _chunks(rows)
    first = next(chunks)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for chunk in chunks:
            writer.write_table(chunk)


def _chunks(rows: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(SEED)
    for start in range(0, rows, CHUNK):
        yield _chunk(rng, min(CHUNK, rows - start), max(rows // 10, 1))


def _chunk(rng: np.random.Generator, rows: int, users: int) -> pa.Table:
    import pyarrow as pa

    user = (users * rng.random(rows) ** 1.25).astype(np.int64)
    category = np.minimum(rng.zipf(1.3, rows) - 1, rng.integers(0, len(CATEGORIES), rows)).astype(np.int32)
    names = pa.DictionaryArray.from_arrays(category, pa.array(CATEGORIES)).cast(pa.string())
    day = rng.integers(0, (LAST - FIRST).days + 1, rows)
    days = pa.array((np.datetime64(FIRST) + day).astype("datetime64[D]"))
    amount = np.exp(rng.normal(3.5, 1.0, rows)).round(2)
    return pa.table({"user_id": user, "category": names, "day": days, "amount": amount})


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
