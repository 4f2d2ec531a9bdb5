"""Tables that constants of learners are chosen on: none of their results is reported as unseen.

The real tables of the first page of measured learners (breast cancer, digits, wine, diabetes, Adult, KDD-99)
belong here, because constants were compared on some of them; and so do tables that were reported before,
since their results were known when the constants of today were chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn import datasets

from parts.unseen_tables import classified, generated, numbered, read_acs, read_file, read_stays

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.unseen_tables import Table

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


DEVELOPED: dict[str, Callable[[], Table]] = {
    "two groups": lambda: generated(8, n_samples=5000, n_features=10, n_informative=6, random_state=101),
    "imbalanced": lambda: generated(
        8, n_samples=4000, n_features=15, n_informative=6, weights=[0.8], class_sep=0.8, random_state=102
    ),
    "seven kinds": _kinds,
    "twenty classes": lambda: generated(
        10,
        n_samples=6000,
        n_features=30,
        n_informative=20,
        n_classes=20,
        n_clusters_per_class=1,
        random_state=104,
    ),
    "wide": lambda: generated(
        6, n_samples=3000, n_features=200, n_informative=20, class_sep=2, random_state=105
    ),
    "skewed": _skewed,
    "loose bounds": _loose,
    "small": lambda: generated(6, n_samples=860, n_features=8, n_informative=4, random_state=108),
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


# ---- reported before ---------------------------------------------------------------------------------------


def _iris() -> Table:
    rows, target = datasets.load_iris(return_X_y=True)
    return classified(rows, target, 0, 10)


def _cervical() -> Table:
    """Whether a biopsy was positive, from risk factors alone."""
    import pandas

    table = read_file("cervical/risk_factors_cervical_cancer.csv.gz").apply(
        pandas.to_numeric, errors="coerce"
    )
    target = table["Biopsy"].to_numpy().astype(int)
    rows = table.drop(columns=["Biopsy", "Hinselmann", "Schiller", "Citology"]).to_numpy(dtype=float)
    high = [100, 40, 40, 15, 1, 40, 40, 1, 40, 1, 40, 1, 10, *([1] * 12), 10, 40, 40, 1, 1, 1, 1]
    return classified(rows, target, 0, high[: rows.shape[1]])


def _tenure() -> Table:
    rows, target, low, high = read_acs("nist_acs/ma2019.csv.gz", "OWN_RENT")
    return classified(rows, target.astype(int), low, high)


def _ages() -> Table:
    rows, target, low, high = read_acs("nist_acs/ma2019.csv.gz", "AGEP")
    return numbered(rows, target, low, high, (0, 100))


def _poverty() -> Table:
    rows, target, low, high = read_acs("nist_acs/national2019.csv.gz", "POVPIP")
    return numbered(rows, target, low, high, (0, 501))


def _medications() -> Table:
    table, rows, high = read_stays("num_medications")
    return numbered(rows, table["num_medications"].to_numpy(dtype=float), 0, high, (0, 100))


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


KNOWN_BEFORE: dict[str, tuple[Callable[[], Table], str]] = {
    "iris": (_iris, ""),
    "cervical cancer": (_cervical, "cervical/risk_factors_cervical_cancer.csv.gz"),
    "tenure in Massachusetts": (_tenure, "nist_acs/ma2019.csv.gz"),
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
