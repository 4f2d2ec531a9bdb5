"""What a table of the comparison on unseen tables is, and how real ones are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from parts.learning import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEVELOPMENT, KNOWN, REPORTED = "development", "known", "reported"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows within [−1, 1] by public bounds, and their classes, or numbers within [−1, 1] too."""

    rows: Floats
    target: Any
    classes: tuple[int, ...]
    """None for numbers."""

    def split(self, seed: int) -> tuple[Floats, Floats, Any, Any]:
        found: tuple[Floats, Floats, Any, Any] = train_test_split(
            self.rows, self.target, test_size=0.3, random_state=seed
        )
        return found


@dataclass(frozen=True, slots=True)
class Source:
    """A table by name, which pool it belongs to, and how it is made or read."""

    name: str
    pool: str
    load: Callable[[], Table]
    file: str = ""

    @property
    def missing(self) -> bool:
        return bool(self.file) and not (FOLDER / self.file).exists()


def _within(values: Any, low: Any, high: Any) -> Floats:
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    found: Floats = 2 * (np.clip(values, low, high) - low) / (high - low) - 1
    return np.nan_to_num(found)


def classified(rows: Any, target: Any, low: Any, high: Any) -> Table:
    """Return a table of classes from 0 on, with features within these bounds; missing ones in the middle."""
    listed, codes = np.unique(target, return_inverse=True)
    return Table(_within(np.asarray(rows, dtype=np.float64), low, high), codes, tuple(range(len(listed))))


def numbered(rows: Any, target: Any, low: Any, high: Any, ends: tuple[float, float]) -> Table:
    """Return a table of numbers within `ends`."""
    scaled = _within(np.asarray(rows, dtype=np.float64), low, high)
    return Table(scaled, _within(np.asarray(target, dtype=np.float64), *ends), ())


def generated(reach: float, **given: Any) -> Table:
    rows, target = datasets.make_classification(**given)
    return classified(rows, target, -reach, reach)


def read_file(name: str) -> Any:
    import pandas

    path = FOLDER / name
    return pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path, low_memory=False)


_ACS: dict[str, tuple[float, float]] = {
    "AGEP": (0, 100),
    "SEX": (1, 2),
    "MSP": (0, 6),
    "HISP": (0, 4),
    "RAC1P": (1, 9),
    "NOC": (0, 10),
    "NPF": (0, 20),
    "HOUSING_TYPE": (1, 3),
    "OWN_RENT": (0, 2),
    "EDU": (0, 12),
    "DVET": (0, 6),
    "DREM": (0, 2),
    "DPHY": (0, 2),
    "DEYE": (0, 2),
    "DEAR": (0, 2),
    "INDP_CAT": (0, 18),
    "POVPIP": (0, 501),
}


MOST_ROWS = 8000
"""Rows of a table that are used, drawn with a fixed seed: more would only take longer."""


def sample_rows(table: Any) -> Any:
    kept = np.random.default_rng(0).choice(len(table), min(MOST_ROWS, len(table)), replace=False)
    return table.iloc[kept]


def read_acs(file: str, target: str) -> tuple[Floats, Any, Floats, Floats]:
    import pandas

    table = sample_rows(read_file(file)).apply(pandas.to_numeric, errors="coerce").fillna(0)
    names = [name for name in _ACS if name != target]
    ends = np.array([_ACS[name] for name in names])
    return table[names].to_numpy(dtype=float), table[target].to_numpy(dtype=float), ends[:, 0], ends[:, 1]


_STAYS = {
    "time_in_hospital": 14, "num_lab_procedures": 150, "num_procedures": 10, "num_medications": 100,
    "number_outpatient": 50, "number_emergency": 100, "number_inpatient": 30, "number_diagnoses": 20,
}  # fmt: skip


def read_stays(target: str) -> tuple[Any, Floats, list[int]]:
    table = sample_rows(read_file("diabetes130/diabetic_data.parquet"))
    names = [name for name in _STAYS if name != target]
    return table, table[names].to_numpy(dtype=float), [_STAYS[name] for name in names]
