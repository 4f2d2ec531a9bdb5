"""Real tables and what is asked of them, for comparing errors at the same guarantee.

Each table is cut to at most `max_rows` rows a unit before anyone gets it, at random with a fixed seed. So all
systems bound contributions the same way, each has the same exact answer to come near, and what cutting itself
does is stated apart.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SFUMATO_DATA", ROOT.parent / "shared" / "data"))
SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class Study:
    """A table with a number that has a mean, one that has a median, and a key; `unit` says whose rows."""

    name: str
    unit: str | None
    max_rows: int
    mean: tuple[str, int, int]
    median: tuple[str, int, int]
    key: str
    read: Callable[[], pa.Table]

    def cells(self, keys: list[str]) -> list[dict[str, Any]]:
        """The questions: count, mean and median, of all rows and by key."""
        numbers = {"count": (None, 0, 0), "mean": self.mean, "median": self.median}
        return [
            {
                "kind": kind,
                "column": column,
                "low": low,
                "high": high,
                "key": key,
                "keys": keys if key else [],
            }
            for key in (None, self.key)
            for kind, (column, low, high) in numbers.items()
        ]


def name_of(cell: dict[str, Any]) -> str:
    of = f" of {cell['column']}" if cell["column"] else ""
    return f"{cell['kind']}{of}" + (f" by {cell['key']}" if cell["key"] else "")


def cut(table: pa.Table, study: Study) -> pa.Table:
    """At most `max_rows` rows of each unit, chosen at random."""
    if study.unit is None:
        return table
    shuffled = np.random.default_rng(SEED).permutation(table.num_rows)
    units = table[study.unit].to_numpy()[shuffled]
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(units[order]) != 0])
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return table.take(np.sort(shuffled[order[place < study.max_rows]]))


def exact(table: pa.Table, cell: dict[str, Any]) -> NDArray[np.float64]:
    """The exact answer, one number a group."""
    if not cell["key"]:
        return np.array([_statistic(table, cell)])
    groups = table[cell["key"]].to_numpy(zero_copy_only=False)
    return np.array([_statistic(table.filter(groups == key), cell) for key in cell["keys"]])


def _statistic(table: pa.Table, cell: dict[str, Any]) -> float:
    if cell["kind"] == "count":
        return table.num_rows
    numbers = np.clip(table[cell["column"]].to_numpy(), cell["low"], cell["high"])
    return float(np.mean(numbers) if cell["kind"] == "mean" else np.median(numbers))


# ---- the tables --------------------------------------------------------------------------------------------


def _diabetes() -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["patient_nbr", "time_in_hospital", "num_lab_procedures", "age"]
    table = pq.read_table(DATA / "diabetes130" / "diabetic_data.parquet", columns=names)
    types = [pa.int64(), pa.int64(), pa.int64(), pa.string()]
    return pa.table({name: table[name].cast(kind) for name, kind in zip(names, types, strict=True)})


def _tweets() -> pa.Table:
    import pyarrow as pa

    with gzip.open(DATA / "movietweetings100k" / "ratings.dat.gz", "rt") as lines:
        user, _, rating, seconds = np.array([line.split("::") for line in lines], dtype=np.int64).T
    month = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(str)
    return pa.table({"user_id": user, "rating": rating, "hour": seconds // 3600 % 24, "month": month})


def _adult() -> pa.Table:
    import pyarrow as pa

    with gzip.open(DATA / "adult" / "adult.data.gz", "rt") as lines:
        rows = [line.strip().split(", ") for line in lines if line.strip()]
    age, hours = (np.array([int(row[at]) for row in rows]) for at in (0, 12))
    return pa.table({"age": age, "hours": hours, "education": [row[3] for row in rows]})


STUDIES = (
    Study(
        "diabetes130",
        "patient_nbr",
        3,
        ("time_in_hospital", 1, 14),
        ("num_lab_procedures", 0, 140),
        "age",
        _diabetes,
    ),
    Study("MovieTweetings", "user_id", 20, ("rating", 0, 10), ("hour", 0, 23), "month", _tweets),
    Study("Adult", None, 1, ("age", 17, 90), ("hours", 1, 99), "education", _adult),
)
