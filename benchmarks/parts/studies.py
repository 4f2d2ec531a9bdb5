"""Real tables and what is asked of them, for comparing errors at the same guarantee.

Each table is cut to at most `max_rows` rows a unit before anyone gets it, at random with a fixed seed. So all
systems bound contributions the same way, and each has the same exact answer to come near.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SFUMATO_DATA", ROOT.parent / "shared" / "data"))
SEED = 20_240_229
EPSILONS = (0.1, 1.0)
DELTA = 1e-6
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class Number:
    """A column of whole numbers between bounds."""

    name: str
    low: int
    high: int

    @property
    def middle(self) -> int:
        """Where deviations are measured from."""
        return (self.low + self.high) // 2

    @property
    def width(self) -> int:
        """How far apart the bounds are."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Cell:
    """One question at one guarantee. `delta` is 0 for pure ε."""

    study: str
    kind: str
    """One of `KINDS`."""
    columns: tuple[Number, ...]
    key: str | None
    keys: tuple[str, ...]
    epsilon: float
    delta: float

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the quantiles that are asked for."""
        return {"median": (0.5,), "quartiles": QUARTILES}.get(self.kind, ())

    @property
    def nullable(self) -> bool:
        """Whether the columns may have missing values."""
        return "nullable" in self.kind

    @property
    def counts_rows(self) -> bool:
        """Whether the number of all rows is asked for."""
        return any(figure.startswith("count") for figure in self.figures)

    @property
    def figures(self) -> tuple[str, ...]:
        """What is measured of the answer, each an error of its own."""
        return KINDS[self.kind]

    def request(self, rho: float | None) -> dict[str, Any]:
        """Return the question as another process gets it; `rho` stands for ε and δ where there is a δ."""
        facts = {
            "shares": self.shares,
            "nullable": self.nullable,
            "squares": "variance" in self.kind,
            "counts_rows": self.counts_rows,
        }
        return {**asdict(self), **facts, "rho": rho}

    def name(self, figure: str) -> str:
        """Return what people call the cell."""
        by = f" by {self.key}" if self.key else ""
        with_delta = f", δ = {self.delta:g}" if self.delta else ""
        return f"{self.study}: {figure}{by}, ε = {self.epsilon:g}{with_delta}"


KINDS = {
    "count": ("count",),
    "average": ("average",),
    "2 averages": ("2 averages",),
    "8 averages": ("8 averages",),
    "variance": ("variance",),
    "nullable average": ("nullable average", "count beside it"),
    "2 nullable averages": ("2 nullable averages",),
    "8 nullable averages": ("8 nullable averages",),
    "nullable variance": ("nullable variance",),
    "median": ("median",),
    "quartiles": ("quartiles",),
}
"""The kinds of questions, and the figures of each."""


@dataclass(frozen=True, slots=True)
class Study:
    """A table and its numbers; `unit` says whose rows are protected together."""

    name: str
    unit: str | None
    max_rows: int
    numbers: tuple[Number, ...]
    ranked: Number
    """The number that has quantiles."""
    key: str
    read: Callable[[], pa.Table]

    @property
    def nullable_numbers(self) -> tuple[Number, ...]:
        """A second copy of each number, which may be missing, and is in some rows of most tables."""
        return tuple(replace(each, name=_nullable(each.name)) for each in self.numbers)

    @property
    def columns(self) -> tuple[Number, ...]:
        """Every number once."""
        return tuple(dict.fromkeys((*self.numbers, self.ranked, *self.nullable_numbers)))

    def cells(self, keys: Iterable[str]) -> list[Cell]:
        """Return all questions, of all rows and by key, at each guarantee."""
        by_key = ((None, ()), (self.key, tuple(keys)))
        return [
            Cell(self.name, kind, self._columns_of(kind), key, values, epsilon, delta)
            for delta, epsilon, (key, values), kind in product((0.0, DELTA), EPSILONS, by_key, KINDS)
            if kind == "count" or self._columns_of(kind)
        ]

    def _columns_of(self, kind: str) -> tuple[Number, ...]:
        """Return the columns of a kind of question; none where the table has too few."""
        if kind in ("count", "median", "quartiles"):
            return () if kind == "count" else (self.ranked,)
        numbers = self.nullable_numbers if "nullable" in kind else self.numbers
        size = int(kind[0]) if kind[0].isdigit() else 1
        return numbers[:size] if len(numbers) >= size else ()


def _nullable(name: str) -> str:
    return f"{name}_or_null"


def _with_nulls(columns: dict[str, Any], missing: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a copy of each column that has no value in some rows."""
    import pyarrow as pa

    return {_nullable(name): pa.array(np.asarray(each), mask=missing) for name, each in columns.items()}


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


Group = dict[str, "NDArray[np.float64]"]
"""The numbers of the rows of one group, not a number where one is missing; `""` has one 0 for each row."""


def split_groups(table: pa.Table, cell: Cell) -> list[Group]:
    """Return the rows of each group, clipped to the bounds; all rows where there is no key."""
    columns: Group = {"": np.zeros(table.num_rows)}
    for number in cell.columns:
        values = np.asarray(table[number.name].to_numpy(zero_copy_only=False), dtype=np.float64)
        columns[number.name] = np.clip(values, number.low, number.high)
    if cell.key is None:
        return [columns]
    names = np.asarray(table[cell.key].to_numpy(zero_copy_only=False)).astype(str)
    return [{name: rows[names == key] for name, rows in columns.items()} for key in cell.keys]


def exact(groups: list[Group], cell: Cell, figure: str) -> NDArray[np.float64]:
    """Return the exact numbers of a figure: one row for each column or share, one column for each group."""
    if figure.startswith("count"):
        return np.array([[float(group[""].size) for group in groups]])
    if cell.shares:
        return np.array([[np.quantile(group[cell.columns[0].name], share, method="inverted_cdf")
                          for group in groups] for share in cell.shares])  # fmt: skip
    of = np.nanvar if figure.endswith("variance") else np.nanmean
    return np.array([[float(of(group[number.name])) for group in groups] for number in cell.columns])


def ranges(cell: Cell, figure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of each number of a figure, one row each; counts have none."""
    if figure.startswith("count"):
        return np.array([[-np.inf]]), np.array([[np.inf]])
    numbers = cell.columns * len(cell.shares) if cell.shares else cell.columns
    if figure.endswith("variance"):
        return np.zeros((len(numbers), 1)), np.array([[number.width**2 / 4] for number in numbers])
    return np.array([[number.low] for number in numbers]), np.array([[number.high] for number in numbers])


# ---- the tables --------------------------------------------------------------------------------------------


def _diabetes() -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "diabetes130" / "diabetic_data.parquet")
    numbers = {each.name: table[each.name].cast(pa.int64()) for each in _DIABETES}
    specialty = np.asarray(table["medical_specialty"].cast(pa.string()).to_numpy(zero_copy_only=False))
    return pa.table(
        {
            "patient_nbr": table["patient_nbr"].cast(pa.int64()),
            "age": table["age"].cast(pa.string()),
            **numbers,
            **_with_nulls(numbers, specialty == "?"),
        }
    )


def _tweets() -> pa.Table:
    import pyarrow as pa

    with gzip.open(DATA / "movietweetings100k" / "ratings.dat.gz", "rt") as lines:
        user, _, rating, seconds = np.array([line.split("::") for line in lines], dtype=np.int64).T
    month = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(str)
    numbers = {"rating": rating, "hour": seconds // 3600 % 24}
    nowhere = np.zeros(len(user), dtype=np.bool_)
    return pa.table({"user_id": user, **numbers, **_with_nulls(numbers, nowhere), "month": month})


def _adult() -> pa.Table:
    import pyarrow as pa

    with gzip.open(DATA / "adult" / "adult.data.gz", "rt") as lines:
        rows = [line.strip().split(", ") for line in lines if line.strip()]
    places = {"age": 0, "weight": 2, "schooling": 4, "gain": 10, "loss": 11, "hours": 12}
    columns: dict[str, Any] = {name: np.array([int(row[at]) for row in rows]) for name, at in places.items()}
    columns["female"] = np.array([int(row[9] == "Female") for row in rows])
    columns["rich"] = np.array([int(row[14] == ">50K") for row in rows])
    unknown = np.array([row[6] == "?" for row in rows])
    return pa.table({**columns, **_with_nulls(columns, unknown), "education": [row[3] for row in rows]})


_DIABETES = (
    Number("time_in_hospital", 1, 14),
    Number("num_lab_procedures", 0, 140),
    Number("num_procedures", 0, 6),
    Number("num_medications", 0, 80),
    Number("number_outpatient", 0, 20),
    Number("number_emergency", 0, 20),
    Number("number_inpatient", 0, 20),
    Number("number_diagnoses", 1, 16),
)
_TWEETS = (Number("rating", 0, 10), Number("hour", 0, 23))
_ADULT = (
    Number("age", 17, 90),
    Number("hours", 1, 99),
    Number("schooling", 1, 16),
    Number("gain", 0, 20_000),
    Number("loss", 0, 4_000),
    Number("weight", 0, 500_000),
    Number("female", 0, 1),
    Number("rich", 0, 1),
)

STUDIES = (
    Study("diabetes130", "patient_nbr", 3, _DIABETES, _DIABETES[1], "age", _diabetes),
    Study("MovieTweetings", "user_id", 20, _TWEETS, _TWEETS[1], "month", _tweets),
    Study("Adult", None, 1, _ADULT, _ADULT[1], "education", _adult),
)
