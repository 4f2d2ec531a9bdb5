"""Tables to learn from and scores of a model, the same in our environment and in that of other libraries.

Features lie within [−1, 1] by fixed bounds. Adult and KDD-99 come in two forms: numbers with a column of
zeros and ones for each listed value, for models that add features up, and numbers beside codes, for trees.
Their listed values are public, as are the bounds of their numbers; long tails are taken by logarithms.
"""

from __future__ import annotations

import gzip
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import cluster, datasets
from sklearn.model_selection import train_test_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("SFUMATO_DATA", ROOT.parent / "shared" / "data"))
ADULT = (Path("adult") / "adult.data.gz", Path("adult") / "adult.test.gz")
KDD = (Path("kddcup99") / "kddcup.data_10_percent.gz",)
KDD_ROWS = 70_000
"""A sample with a fixed seed: about what the paper that first used these connections took."""
DENIALS = {"back.", "land.", "neptune.", "pod.", "smurf.", "teardrop."}


@dataclass(frozen=True, eq=False)
class Data:
    """Rows within [−1, 1]; what is public of them."""

    rows: Floats
    target: Any
    longest: float
    """No row is longer, whatever it holds within the bounds."""
    listed: tuple[int, ...] = ()
    """Which columns are codes of listed values."""

    @property
    def classes(self) -> list[int]:
        found: list[int] = np.unique(self.target).tolist()
        return found

    def split(self, seed: int) -> tuple[Floats, Floats, Any, Any]:
        found: tuple[Floats, Floats, Any, Any] = train_test_split(
            self.rows, self.target, test_size=0.3, random_state=seed
        )
        return found


def scaled(values: Floats) -> Floats:
    low, high = values.min(axis=0), values.max(axis=0)
    found: Floats = np.where(high > low, 2 * (values - low) / np.where(high > low, high - low, 1.0) - 1, 0.0)
    return found


def boxed(rows: Any, target: Any) -> Data:
    """All that is known of a row is its box."""
    return Data(scaled(np.asarray(rows, dtype=np.float64)), target, float(np.sqrt(rows.shape[1])))


# ---- tables of scikit-learn --------------------------------------------------------------------------------


@cache
def synthetic() -> Data:
    return boxed(*datasets.make_classification(50000, 20, n_informative=10, n_redundant=5, random_state=0))


@cache
def regression() -> Data:
    rows, target = datasets.make_regression(50000, 20, noise=50, random_state=0)
    return boxed(rows, scaled(target))


@cache
def diabetes() -> Data:
    rows, target = datasets.load_diabetes(return_X_y=True)
    return boxed(rows, scaled(target))


@cache
def wine() -> Data:
    return boxed(*datasets.load_wine(return_X_y=True))


@cache
def cancer() -> Data:
    return boxed(*datasets.load_breast_cancer(return_X_y=True))


@cache
def digits() -> Data:
    return boxed(*datasets.load_digits(return_X_y=True))


@cache
def blobs() -> Data:
    return boxed(*datasets.make_blobs(50000, 10, centers=8, random_state=0))


# ---- tables of people and of connections -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers within public bounds; with a long tail its logarithm is taken."""

    at: int
    low: float
    high: float
    tail: bool = False

    def read(self, column: Sequence[str]) -> Floats:
        found = np.clip(np.array(column, dtype=np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.tail:
            found, low, high = np.log1p(found), np.log1p(low), np.log1p(high)
        scaled_values: Floats = 2 * (found - low) / (high - low) - 1
        return scaled_values


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of text: numbers, columns of listed values, and which label counts as 1."""

    files: tuple[Path, ...]
    numbers: tuple[Number, ...]
    lists: tuple[int, ...]
    is_one: Callable[[str], bool]
    most: int | None = None

    def lines(self) -> list[list[str]]:
        found: list[list[str]] = []
        for name in self.files:
            with gzip.open(FOLDER / name, "rt", encoding="utf-8") as text:
                cells = ([cell.strip() for cell in line.split(",")] for line in text)
                found += [line for line in cells if len(line) > 1]
        if self.most is None:
            return found
        kept = np.random.default_rng(0).choice(len(found), self.most, replace=False)
        return [found[place] for place in kept]

    def data(self, codes: bool) -> Data:
        columns = list(zip(*self.lines(), strict=True))
        target = np.array([int(self.is_one(label)) for label in columns[-1]])
        numbers = [each.read(columns[each.at]) for each in self.numbers]
        longest = float(np.sqrt(len(numbers) + len(self.lists)))
        if not codes:
            zeros_and_ones = (column for at in self.lists for column in _indicators(columns[at]))
            return Data(np.column_stack([*numbers, *zeros_and_ones]), target, longest)
        coded = [_codes(columns[at]) for at in self.lists]
        listed = tuple(range(len(numbers), len(numbers) + len(coded)))
        return Data(np.column_stack([*numbers, *coded]), target, longest, listed)


def _indicators(column: Sequence[str]) -> Iterable[Floats]:
    """One column for each value: a row has one 1 in all of them."""
    values = np.array(column)
    return [(values == value).astype(np.float64) for value in np.unique(values)]


def _codes(column: Sequence[str]) -> Floats:
    return scaled(np.unique(column, return_inverse=True)[1].astype(np.float64))


_ADULT = Table(
    ADULT,
    (
        Number(0, 17, 90),
        Number(2, 10_000, 1_500_000, tail=True),
        Number(4, 1, 16),
        Number(10, 0, 99_999, tail=True),
        Number(11, 0, 5_000, tail=True),
        Number(12, 1, 99),
    ),
    (1, 5, 6, 7, 8, 9, 13),
    lambda label: label.startswith(">"),
)
_TAILED = {0: 60_000, 4: 1e9, 5: 1e9, 7: 3, 8: 3, 9: 100, 10: 5, 12: 1e4, 15: 1e4, 16: 100, 17: 5, 18: 10}
_COUNTED = {22: 511, 23: 511, 31: 255, 32: 255}
_SHARES = (6, 11, 13, 14, 19, 20, 21, *range(24, 31), *range(33, 41))
_KDD = Table(
    KDD,
    (
        *(Number(at, 0, high, tail=True) for at, high in _TAILED.items()),
        *(Number(at, 0, high) for at, high in _COUNTED.items()),
        *(Number(at, 0, 1) for at in _SHARES),
    ),
    (1, 2, 3),
    DENIALS.__contains__,
    KDD_ROWS,
)


@cache
def adult() -> Data:
    return _ADULT.data(codes=False)


@cache
def adult_coded() -> Data:
    return _ADULT.data(codes=True)


@cache
def connections() -> Data:
    return _KDD.data(codes=False)


@cache
def connections_coded() -> Data:
    return _KDD.data(codes=True)


# ---- what is measured --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Timed:
    """A model that counts the processor seconds of its fit."""

    model: Any
    seconds: float = 0.0

    def fit(self, *data: Any) -> Any:
        began = time.process_time()
        fitted = self.model.fit(*data)
        self.seconds = time.process_time() - began
        return fitted


def tested(model: Any, data: Data, seed: int) -> float:
    """The score on the rows that were left out: accuracy, or R²."""
    rows, held, target, wanted = data.split(seed)
    return float(model.fit(rows, target).score(held, wanted))


@cache
def least_inertia(data: Data) -> float:
    return float(cluster.KMeans(8, n_init=10, random_state=0).fit(data.rows).inertia_)


def inertia(model: Any, data: Data, seed: int) -> float:
    """Over that of scikit-learn's best of ten runs: lower is better."""
    centers = model.fit(data.rows).cluster_centers_
    squares = [((data.rows - center) ** 2).sum(axis=1) for center in centers]
    return float(np.min(squares, axis=0).sum()) / least_inertia(data)


def captured(model: Any, data: Data, seed: int) -> float:
    """The variance of all rows that components of seven tenths of them hold, of the most there is to hold."""
    rows = data.split(seed)[0]
    centred = data.rows - data.rows.mean(axis=0)
    most = float((np.linalg.svd(centred, compute_uv=False)[:5] ** 2).sum())
    return float(((centred @ model.fit(rows).components_.T) ** 2).sum()) / most


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    data: Callable[[], Data]
    asked: tuple[float, ...] = ()
    """For δ = 1e-6, by ε; with none, nothing is asked for."""
    measure: Callable[[Any, Data, int], float] = tested
    lower: bool = False
    """Whether less is better."""
    files: tuple[Path, ...] = ()
    """What must lie in the data folder."""

    @property
    def missing(self) -> str:
        gone = [str(name) for name in self.files if not (FOLDER / name).exists()]
        return f"there is no {', '.join(gone)} under SFUMATO_DATA" if gone else ""


EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-6
_LR, _NB, _BOOSTED = "logistic regression", "naive Bayes", "boosting"
STUDIES = (
    Study(f"{_LR}, breast cancer", cancer, (0.78, 0.86, 0.91, 0.95)),
    Study(f"{_LR}, digits", digits, (0.28, 0.66, 0.80, 0.91)),
    Study(f"{_LR}, wine", wine, (0.46, 0.70, 0.83, 0.92)),
    Study(f"{_LR}, synthetic", synthetic, (0.77, 0.78, 0.78, 0.78)),
    Study(f"{_NB}, synthetic", synthetic, (0.74, 0.81, 0.815, 0.818)),
    Study("linear regression, synthetic", regression, (0.30, 0.84, 0.91, 0.94)),
    Study("linear regression, diabetes", diabetes, (-0.02, -0.02, -0.02, -0.02)),
    Study("PCA of 5, wine", wine, (0.50, 0.64, 0.73, 0.86), captured),
    Study("PCA of 5, blobs", blobs, (), captured),
    Study("k-means, blobs", blobs, (2.0, 1.3, 1.15, 1.05), inertia, lower=True),
    Study("PCA of 5, synthetic", synthetic, (), captured),
    Study("k-means, synthetic", synthetic, (), inertia, lower=True),
    Study(f"{_BOOSTED}, synthetic", synthetic, (0.78, 0.83, 0.85, 0.87)),
    Study(f"additive {_BOOSTED}, synthetic", synthetic),
    Study("decision tree, synthetic", synthetic),
    Study(f"{_LR}, Adult", adult, files=ADULT),
    Study(f"{_NB}, Adult", adult, files=ADULT),
    Study(f"{_BOOSTED}, Adult", adult_coded, files=ADULT),
    Study(f"{_LR}, KDD-99", connections, files=KDD),
    Study(f"{_NB}, KDD-99", connections, files=KDD),
    Study(f"{_BOOSTED}, KDD-99", connections_coded, files=KDD),
)


def chosen(pattern: str) -> list[Study]:
    """Studies whose names hold the text; those whose files are absent are named, loudly, and left out."""
    found = [study for study in STUDIES if pattern in study.name]
    for study in found:
        if study.missing:
            print(f"{study.name}: NOT MEASURED: {study.missing}", flush=True)
    return [study for study in found if not study.missing]
