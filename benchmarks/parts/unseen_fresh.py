"""Tables that are reported: none of their results chose a constant, or was known before all were fixed.

Generated ones have other seeds, shapes and formulas than those of development; real ones have files, or
targets of files, that no constant was compared on.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import datasets

from parts.learning import FOLDER
from parts.unseen_tables import (
    MOST_ROWS,
    classified,
    generated,
    numbered,
    read_acs,
    read_file,
    read_stays,
    sample_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.unseen_tables import Floats, Table

_NATION, _TAXI = "nist_acs/national2019.csv.gz", "hd/nist-taxi.parquet"


# ---- classes -----------------------------------------------------------------------------------------------


def _marriage() -> Table:
    rows, target, low, high = read_acs("nist_acs/national2019.csv.gz", "MSP")
    return classified(rows, target.astype(int), low, high)


def _sex() -> Table:
    rows, target, low, high = read_acs(_NATION, "SEX")
    return classified(rows, target.astype(int), low, high)


def _elderly() -> Table:
    table = sample_rows(read_file("hd/nltcs.csv.gz")).to_numpy(dtype=float)
    return classified(table[:, :-1], table[:, -1].astype(int), 0, 1)


def _readmitted() -> Table:
    table, rows, high = read_stays("")
    return classified(rows, (table["readmitted"] == "<30").to_numpy().astype(int), 0, high)


def _images(folder: str) -> Table:
    """Ten classes of pictures, shrunk to 7 × 7."""
    with gzip.open(FOLDER / folder / "t10k-images-idx3-ubyte.gz") as file:
        pictures = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 7, 4, 7, 4)
    with gzip.open(FOLDER / folder / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], dtype=np.uint8)
    return classified(pictures.mean(axis=(2, 4)).reshape(-1, 49)[:MOST_ROWS], labels[:MOST_ROWS], 0, 255)


_TRIPS = {"shift": 21, "payment_type": 9, "fare": 11, "tips": 11, "trip_seconds": 11, "trip_miles": 11}


def _trips(target: str) -> tuple[Floats, Any, list[int]]:
    """Trips of taxis; `trip_total` is left out, because it is nearly the sum of fare and tips."""
    table = sample_rows(read_file(_TAXI))
    names = [name for name in _TRIPS if name != target]
    return table[names].to_numpy(dtype=float), table[target].to_numpy(), [_TRIPS[name] for name in names]


def _payment() -> Table:
    rows, target, high = _trips("payment_type")
    return classified(rows, target == 1, 0, high)


def _crescents() -> Table:
    rows, target = datasets.make_moons(1800, noise=0.35, random_state=401)
    return classified(rows, target, -4, 4)


def _shells() -> Table:
    rows, target = datasets.make_gaussian_quantiles(
        n_samples=4500, n_features=4, n_classes=2, random_state=402
    )
    return classified(rows, target, -6, 6)


def _clusters() -> Table:
    rows, target = datasets.make_blobs(2200, 7, centers=3, cluster_std=6.0, random_state=403)
    return classified(rows, target, -40, 40)


def _sparse_logits() -> Table:
    rng = np.random.default_rng(405)
    rows = rng.standard_t(5, size=(6500, 40))
    target = rows[:, :6] @ np.array([1.5, -1.0, 0.8, 0.6, -0.6, 0.4]) + rng.logistic(size=6500) > 0.5
    return classified(rows, target, -12, 12)


def _lengths() -> Table:
    """Lengths and weights: features with long tails whose logarithms matter."""
    rng = np.random.default_rng(406)
    logs = rng.normal(size=(5500, 6)) * np.array([1.0, 0.8, 1.2, 0.6, 1.0, 0.9])
    target = logs @ np.array([0.9, -0.7, 0.5, 0.8, 0.0, 0.0]) + rng.logistic(size=5500) * 0.7 > 0.4
    return classified(np.exp(logs), target, 0, 100)


def _steps() -> Table:
    """Two thresholds and one product decide, for the most part."""
    rng = np.random.default_rng(407)
    rows = rng.uniform(0, 1, size=(6000, 9))
    score = 2.0 * (rows[:, 0] > 0.6) + 1.5 * (rows[:, 1] < 0.3) + 3 * rows[:, 2] * rows[:, 3] - 1.8
    return classified(rows, score + rng.logistic(size=6000) * 0.5 > 0, 0, 1)


# ---- numbers -----------------------------------------------------------------------------------------------


def _education() -> Table:
    rows, target, low, high = read_acs(_NATION, "EDU")
    return numbered(rows, target, low, high, (0, 12))


def _stay() -> Table:
    table, rows, high = read_stays("time_in_hospital")
    return numbered(rows, table["time_in_hospital"].to_numpy(dtype=float), 0, high, (0, 30))


def _fares() -> Table:
    rows, target, high = _trips("fare")
    return numbered(rows, target.astype(float), 0, high, (0, 20))


def _low_rank() -> Table:
    rows, target = datasets.make_regression(
        6000, 18, n_informative=8, effective_rank=6, noise=4, random_state=411
    )
    return numbered(rows, target, -0.2, 0.2, (-120, 120))


def _friedman_wide() -> Table:
    rows, target = datasets.make_friedman1(7000, n_features=20, noise=2.0, random_state=412)
    return numbered(rows, target, 0, 1, (-20, 60))


def _counts() -> Table:
    """Counts of events whose rate is a product."""
    rng = np.random.default_rng(413)
    rows = rng.uniform(0, 2, size=(5000, 5))
    target = rng.poisson(np.exp(0.6 * rows[:, 0] - 0.5 * rows[:, 1] + 0.3 * rows[:, 2] * (rows[:, 3] > 1)))
    return numbered(rows, target, 0, 2, (0, 100))


FRESH: dict[str, tuple[Callable[[], Table], str]] = {
    "nine hundred": (
        lambda: generated(7, n_samples=900, n_features=6, n_informative=3, flip_y=0.05, random_state=408),
        "",
    ),
    "crescents": (_crescents, ""),
    "events": (_counts, ""),
    "clusters": (_clusters, ""),
    "shells": (_shells, ""),
    "readmitted": (_readmitted, "diabetes130/diabetic_data.parquet"),
    "elderly": (_elderly, "hd/nltcs.csv.gz"),
    "sex": (_sex, _NATION),
    "fares": (_fares, _TAXI),
    "days in hospital": (_stay, "diabetes130/diabetic_data.parquet"),
    "low rank": (_low_rank, ""),
    "lengths": (_lengths, ""),
    "steps": (_steps, ""),
    "payment of taxis": (_payment, _TAXI),
    "education": (_education, _NATION),
    "Friedman 1 of twenty": (_friedman_wide, ""),
    "marital status": (_marriage, _NATION),
    "sparse logits": (_sparse_logits, ""),
    "three to one": (
        lambda: generated(
            9, n_samples=9_000, n_features=25, n_informative=9, weights=[0.75], random_state=20
        ),
        "",
    ),
    "six classes": (
        lambda: generated(
            8, n_samples=7000, n_features=12, n_informative=7, n_classes=6, class_sep=1.2, random_state=404
        ),
        "",
    ),
    "MNIST 7×7": (lambda: _images("mnist"), "mnist/t10k-images-idx3-ubyte.gz"),
    "Fashion-MNIST 7×7": (lambda: _images("fashion-mnist"), "fashion-mnist/t10k-images-idx3-ubyte.gz"),
}
