"""Two pools of tables, kept apart: constants are chosen on one, results are reported of the other.

Every table comes with public bounds of its features, which are wider than what occurs in it, and is scaled by
them to [−1, 1]. Generated tables of the two pools differ in seed, shape and formula. The real tables of the
first page of measured learners (breast cancer, digits, wine, diabetes, Adult, KDD-99) belong to development,
because constants were compared on some of them before.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from parts.learning import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEVELOPMENT, REPORTED = "development", "reported"


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


def _classes(reach: float, **given: Any) -> Table:
    rows, target = datasets.make_classification(**given)
    return classified(rows, target, -reach, reach)


# ---- development -------------------------------------------------------------------------------------------


def _kinds() -> Table:
    """Seven classes of very different size; some features are zeros and ones that go together."""
    rng = np.random.default_rng(103)
    target = rng.choice(7, 9000, p=[0.42, 0.34, 0.1, 0.05, 0.04, 0.03, 0.02])
    numbers = rng.normal(size=(7, 5))[target] * 0.7 + rng.normal(size=(9000, 5))
    soils = np.array([rng.dirichlet(np.full(16, 0.3)) for _ in range(7)])
    soil = np.array([rng.choice(16, p=0.5 * soils[each] + 0.5 * soils[0]) for each in target])
    return classified(np.hstack([numbers, np.eye(16)[soil]]), target, [-6] * 5 + [0] * 16, [6] * 5 + [1] * 16)


def _skewed() -> Table:
    rng = np.random.default_rng(106)
    logs = rng.normal(size=(8000, 8))
    target = logs @ rng.normal(size=8) * 0.6 + rng.logistic(size=8000) > 0
    return classified(np.exp(1.3 * logs), target, 0, 300)


def _loose() -> Table:
    rng = np.random.default_rng(107)
    rows = rng.normal(3, 1, size=(5000, 6))
    target = (rows - 3) @ rng.normal(size=6) + rng.logistic(size=5000) * 0.5 > 0
    return classified(rows, target, -300, 300)


def _rare() -> Table:
    rng = np.random.default_rng(110)
    rows = rng.normal(size=(2500, 20))
    target = rows[:, :4].sum(axis=1) + rng.logistic(size=2500) * 1.5 > 4.2
    return classified(rows, target, -5, 5)


def _moons() -> Table:
    rows, target = datasets.make_moons(3000, noise=0.25, random_state=109)
    return classified(rows, target, -3, 3)


def _cancer() -> Table:
    rows, target = datasets.load_breast_cancer(return_X_y=True)
    return classified(rows, target, 0, rows.max(axis=0) * 1.5)


def _waves() -> Table:
    rng = np.random.default_rng(111)
    rows = rng.uniform(-1, 1, (10_000, 8))
    target = (
        np.sin(3 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + np.abs(rows[:, 3]) + rng.normal(size=10_000) * 0.3
    )
    return numbered(rows, target, -1, 1, (-5, 5))


def _offset() -> Table:
    rng = np.random.default_rng(112)
    rows = rng.normal(size=(4000, 5))
    target = 900 + 4 * rows[:, 0] - 3 * rows[:, 1] + 2 * np.maximum(rows[:, 2], 0) + rng.normal(size=4000) * 2
    return numbered(rows, target, -5, 5, (0, 1000))


def _tails() -> Table:
    rng = np.random.default_rng(113)
    rows = rng.normal(size=(6000, 6))
    target = np.exp(rows @ np.array([0.6, 0.4, -0.5, 0.3, 0, 0]) + rng.normal(size=6000) * 0.4)
    return numbered(rows, target, -5, 5, (0, 400))


def _fifty() -> Table:
    rng = np.random.default_rng(114)
    shared = rng.normal(size=(10_000, 5))
    rows = rng.normal(size=(10_000, 50)) + 0.4 * shared @ rng.normal(size=(5, 50))
    target = rows @ rng.normal(size=50) + rng.normal(size=10_000) * 4
    return numbered(rows, target, -8, 8, (-80, 80))


def _answers() -> Table:
    """Answers to a questionnaire: most of them are rare, so that most leaves of a tree are nearly empty."""
    rng = np.random.default_rng(116)
    rare = rng.uniform(size=(6000, 10)) < rng.uniform(0.02, 0.2, 10)
    rows = np.hstack([rare, rng.integers(0, 9, (6000, 3)) ** 2])
    target = 40 + rows[:, :10] @ rng.normal(size=10) * 15 - rows[:, 10] / 3 + rng.normal(size=6000) * 12
    return numbered(rows, target, [0] * 13, [1] * 10 + [80] * 3, (0, 100))


def _few() -> Table:
    rng = np.random.default_rng(115)
    rows = rng.uniform(0, 10, size=(400, 4))
    target = rows @ np.array([1.0, -2.0, 0.5, 0.0]) + rng.normal(size=400) * 2
    return numbered(rows, target, 0, 10, (-40, 40))


def _diabetes() -> Table:
    rows, target = datasets.load_diabetes(return_X_y=True)
    return numbered(rows, target, -0.2, 0.2, (0, 500))


_DEVELOPED: dict[str, Callable[[], Table]] = {
    "two groups": lambda: _classes(8, n_samples=5000, n_features=10, n_informative=6, random_state=101),
    "imbalanced": lambda: _classes(
        8, n_samples=4000, n_features=15, n_informative=6, weights=[0.8], class_sep=0.8, random_state=102
    ),
    "seven kinds": _kinds,
    "twenty classes": lambda: _classes(
        10,
        n_samples=6000,
        n_features=30,
        n_informative=20,
        n_classes=20,
        n_clusters_per_class=1,
        random_state=104,
    ),
    "wide": lambda: _classes(
        6, n_samples=3000, n_features=200, n_informative=20, class_sep=2, random_state=105
    ),
    "skewed": _skewed,
    "loose bounds": _loose,
    "small": lambda: _classes(6, n_samples=860, n_features=8, n_informative=4, random_state=108),
    "moons": _moons,
    "rare": _rare,
    "breast cancer": _cancer,
    "waves": _waves,
    "offset": _offset,
    "long tails": _tails,
    "fifty features": _fifty,
    "answers": _answers,
    "few rows": _few,
    "diabetes": _diabetes,
}


# ---- reported ----------------------------------------------------------------------------------------------


def _iris() -> Table:
    rows, target = datasets.load_iris(return_X_y=True)
    return classified(rows, target, 0, 10)


def _read(name: str) -> Any:
    import pandas

    path = FOLDER / name
    return pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path, low_memory=False)


def _cervical() -> Table:
    """Whether a biopsy was positive, from risk factors alone."""
    import pandas

    table = _read("cervical/risk_factors_cervical_cancer.csv.gz").apply(pandas.to_numeric, errors="coerce")
    target = table["Biopsy"].to_numpy().astype(int)
    rows = table.drop(columns=["Biopsy", "Hinselmann", "Schiller", "Citology"]).to_numpy(dtype=float)
    high = [100, 40, 40, 15, 1, 40, 40, 1, 40, 1, 40, 1, 10, *([1] * 12), 10, 40, 40, 1, 1, 1, 1]
    return classified(rows, target, 0, high[: rows.shape[1]])


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


_MOST = 8000
"""Rows of a table that are used, drawn with a fixed seed: more would only take longer."""


def _sample(table: Any) -> Any:
    kept = np.random.default_rng(0).choice(len(table), min(_MOST, len(table)), replace=False)
    return table.iloc[kept]


def _acs(file: str, target: str) -> tuple[Floats, Any, Floats, Floats]:
    import pandas

    table = _sample(_read(file)).apply(pandas.to_numeric, errors="coerce").fillna(0)
    names = [name for name in _ACS if name != target]
    ends = np.array([_ACS[name] for name in names])
    return table[names].to_numpy(dtype=float), table[target].to_numpy(dtype=float), ends[:, 0], ends[:, 1]


def _tenure() -> Table:
    rows, target, low, high = _acs("nist_acs/ma2019.csv.gz", "OWN_RENT")
    return classified(rows, target.astype(int), low, high)


def _marriage() -> Table:
    rows, target, low, high = _acs("nist_acs/national2019.csv.gz", "MSP")
    return classified(rows, target.astype(int), low, high)


def _ages() -> Table:
    rows, target, low, high = _acs("nist_acs/ma2019.csv.gz", "AGEP")
    return numbered(rows, target, low, high, (0, 100))


def _poverty() -> Table:
    rows, target, low, high = _acs("nist_acs/national2019.csv.gz", "POVPIP")
    return numbered(rows, target, low, high, (0, 501))


def _elderly() -> Table:
    table = _sample(_read("hd/nltcs.csv.gz")).to_numpy(dtype=float)
    return classified(table[:, :-1], table[:, -1].astype(int), 0, 1)


_STAYS = {
    "time_in_hospital": 14, "num_lab_procedures": 150, "num_procedures": 10, "num_medications": 100,
    "number_outpatient": 50, "number_emergency": 100, "number_inpatient": 30, "number_diagnoses": 20,
}  # fmt: skip


def _stays(target: str) -> tuple[Any, Floats, list[int]]:
    table = _sample(_read("diabetes130/diabetic_data.parquet"))
    names = [name for name in _STAYS if name != target]
    return table, table[names].to_numpy(dtype=float), [_STAYS[name] for name in names]


def _readmitted() -> Table:
    table, rows, high = _stays("")
    return classified(rows, (table["readmitted"] == "<30").to_numpy().astype(int), 0, high)


def _medications() -> Table:
    table, rows, high = _stays("num_medications")
    return numbered(rows, table["num_medications"].to_numpy(dtype=float), 0, high, (0, 100))


def _images(folder: str) -> Table:
    """Ten classes of pictures, shrunk to 7 × 7."""
    with gzip.open(FOLDER / folder / "t10k-images-idx3-ubyte.gz") as file:
        pictures = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 7, 4, 7, 4)
    with gzip.open(FOLDER / folder / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], dtype=np.uint8)
    return classified(pictures.mean(axis=(2, 4)).reshape(-1, 49)[:_MOST], labels[:_MOST], 0, 255)


def _quantiles() -> Table:
    rows, target = datasets.make_gaussian_quantiles(
        n_samples=5000, n_features=6, n_classes=4, random_state=21
    )
    return classified(rows, target, -5, 5)


def _hastie() -> Table:
    rows, target = datasets.make_hastie_10_2(8000, random_state=22)
    return classified(rows, target, -5, 5)


def _circles() -> Table:
    rows, target = datasets.make_circles(4000, noise=0.15, factor=0.5, random_state=23)
    return classified(rows, target, -2, 2)


def _blobs() -> Table:
    rows, target = datasets.make_blobs(3000, 5, centers=5, cluster_std=4.0, random_state=24)
    return classified(rows, target, -30, 30)


def _gamma() -> Table:
    rng = np.random.default_rng(25)
    rows = rng.gamma(0.7, 20.0, size=(7000, 10))
    target = np.log1p(rows) @ rng.normal(size=10) * 0.5 + rng.logistic(size=7000)
    return classified(rows, target > np.quantile(target, 0.6), 0, 1000)


def _friedman(number: int, rows: int, ends: tuple[float, float]) -> Table:
    make = getattr(datasets, f"make_friedman{number}")
    found, target = make(rows, noise=1.0 if number < 3 else 0.1, random_state=30 + number)
    if number == 1:
        return numbered(found, target, 0, 1, ends)
    return numbered(found, target, [0, 120, 0, 1], [100, 1800, 1, 11], ends)


def _sparse() -> Table:
    rows, target = datasets.make_sparse_uncorrelated(4000, 12, random_state=34)
    return numbered(rows, target, -5, 5, (-30, 30))


def _linear() -> Table:
    rows, target = datasets.make_regression(9000, 45, n_informative=30, noise=80, random_state=35)
    return numbered(rows, target, -6, 6, (-3000, 3000))


def _claims() -> Table:
    """Amounts with a long tail, as claims have: few features say anything of them."""
    rng = np.random.default_rng(36)
    rows = rng.gamma(2.0, 1.0, size=(8000, 6))
    target = rng.gamma(0.8, 1.0, 8000) * np.exp(0.35 * rows[:, 0] - 0.3 * rows[:, 1] + 3)
    return numbered(rows, target, 0, 20, (0, 5000))


_SHOWN: dict[str, tuple[Callable[[], Table], str]] = {
    "iris": (_iris, ""),
    "cervical cancer": (_cervical, "cervical/risk_factors_cervical_cancer.csv.gz"),
    "tenure in Massachusetts": (_tenure, "nist_acs/ma2019.csv.gz"),
    "marital status": (_marriage, "nist_acs/national2019.csv.gz"),
    "elderly": (_elderly, "hd/nltcs.csv.gz"),
    "readmitted": (_readmitted, "diabetes130/diabetic_data.parquet"),
    "MNIST 7×7": (lambda: _images("mnist"), "mnist/t10k-images-idx3-ubyte.gz"),
    "Fashion-MNIST 7×7": (lambda: _images("fashion-mnist"), "fashion-mnist/t10k-images-idx3-ubyte.gz"),
    "three to one": (
        lambda: _classes(9, n_samples=9_000, n_features=25, n_informative=9, weights=[0.75], random_state=20),
        "",
    ),
    "Gaussian quantiles": (_quantiles, ""),
    "Hastie 10.2": (_hastie, ""),
    "circles": (_circles, ""),
    "blobs": (_blobs, ""),
    "gamma": (_gamma, ""),
    "Friedman 1": (lambda: _friedman(1, 10_000, (-10, 40)), ""),
    "Friedman 2": (lambda: _friedman(2, 5000, (-100, 2500)), ""),
    "Friedman 3": (lambda: _friedman(3, 5000, (-3, 3)), ""),
    "sparse uncorrelated": (_sparse, ""),
    "45 features": (_linear, ""),
    "claims": (_claims, ""),
    "ages": (_ages, "nist_acs/ma2019.csv.gz"),
    "poverty": (_poverty, "nist_acs/national2019.csv.gz"),
    "medications": (_medications, "diabetes130/diabetic_data.parquet"),
}
SOURCES = (
    *(Source(name, DEVELOPMENT, cache(load)) for name, load in _DEVELOPED.items()),
    *(Source(name, REPORTED, cache(load), file) for name, (load, file) in _SHOWN.items()),
)


def find_sources(pool: str, pattern: str = "") -> list[Source]:
    """Return the tables of a pool whose names hold a text; absent ones are named, loudly, and left out."""
    found = [each for each in SOURCES if each.pool == pool and pattern in each.name]
    for each in found:
        if each.missing:
            print(f"{each.name}: NOT MEASURED: there is no {each.file} under SFUMATO_DATA", flush=True)
    return [each for each in found if not each.missing]
