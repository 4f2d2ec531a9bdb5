"""A table of twenty numbers, a target and a label: the same rows every time, for a given number.

    python benchmarks/parts/wide.py wide.parquet [rows]

Numbers lie within [−1, 1] in steps of 2⁻¹⁴ and lean on four hidden ones; the target is a noisy sum of them
and the label says on which side of another one a row lies.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

FEATURES = tuple(f"x{at}" for at in range(20))
TARGET, LABEL = "y", "side"
SEED, CHUNK, STEPS = 20_240_229, 1_000_000, 2**14


def write(path: Path, rows: int) -> None:
    """As Parquet, a million rows at a time, so that memory does not grow with their number."""
    import pyarrow.parquet as pq

    chunks = _chunks(rows)
    first = next(chunks)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for chunk in chunks:
            writer.write_table(chunk)


def _chunks(rows: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(SEED)
    leaning = rng.normal(size=(4, len(FEATURES))) * 0.15
    weights = rng.normal(size=(2, len(FEATURES))) * 0.1
    for start in range(0, rows, CHUNK):
        yield _chunk(rng, min(CHUNK, rows - start), leaning, weights)


def _chunk(rng: Any, rows: int, leaning: Any, weights: Any) -> pa.Table:
    import pyarrow as pa

    features = _gridded(rng.normal(size=(rows, 4)) @ leaning + 0.2 * rng.normal(size=(rows, len(FEATURES))))
    target, side = weights @ features.T + 0.1 * rng.normal(size=(2, rows))
    columns = dict(zip(FEATURES, features.T.copy(), strict=True))
    return pa.table({**columns, TARGET: _gridded(target), LABEL: (side > 0).astype(np.int8)})


def _gridded(values: Any) -> Any:
    return np.clip(np.round(values * STEPS) / STEPS, -1, 1)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
