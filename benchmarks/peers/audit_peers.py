"""Audit what other libraries claim, in an environment of their own; the last line printed is JSON.

SFUMATO_PEERS=path/to/python python benchmarks/audit.py peers
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import opendp.prelude as dp
from diffprivlib.accountant import BudgetAccountant
from diffprivlib.models import GaussianNB, KMeans, LogisticRegression
from library_replay import replay_libraries

from sfumato import audit

SAMPLES, NUMBERS = 3000, 30
Row = list[Any]
Table = tuple[np.ndarray, np.ndarray]


def regress(norm: float) -> Any:
    """Return a program that fits one coefficient to rows of this norm at most."""

    def program(table: Table) -> list[float]:
        model = LogisticRegression(epsilon=1.0, data_norm=norm, fit_intercept=False)
        coefficient = float(model.fit(*table).coef_[0, 0])
        return [coefficient, abs(coefficient)]

    return program


def replaced(norm: float) -> list[tuple[Table, Table]]:
    """Return two tables of three rows that differ in one of them."""
    labels = np.array([0, 1, 1])
    return [((np.array([[0.0], [0.0], [norm]]), labels), (np.zeros((3, 1)), labels))]


def cluster(rows: np.ndarray) -> list[float]:
    model = KMeans(n_clusters=1, epsilon=1.0, bounds=(0.0, 1.0), random_state=1)
    return [float(each) for each in np.ravel(model.fit(rows).cluster_centers_)]


def count_classes(table: Table) -> list[float]:
    model = GaussianNB(epsilon=1.0, bounds=(0.0, 1.0), random_state=1).fit(*table)
    return [float(each) for each in model.class_count_]


def one_more(width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rows = np.random.default_rng(3).uniform(0, 1, (40, width))
    return [(rows, np.vstack([rows, np.ones(width)]))]


def new_class() -> list[tuple[Table, Table]]:
    rows, labels = one_more(2)[0][1], np.zeros(41, dtype=int)
    return [((rows, labels), (rows, np.append(labels[:-1], 1)))]


def count(rows: Any) -> int:
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    return int(dp.m.make_laplace(*space, scale=1.0)(len(rows)))


def count_twice(rows: Any) -> list[int]:
    return [count(rows), count(rows)]


def row(library: str, name: str, found: Any) -> Row:
    bound = (
        f", ε is above {found.lower_bound:.2f}" if found.violates and hasattr(found, "lower_bound") else ""
    )
    return [f"{library} {version(library)}", "ε = 1", name, f"{found.sentence}{bound}"]


def main() -> int:
    warnings.simplefilter("ignore")
    BudgetAccountant(np.inf, 0).set_default()
    rows: list[Row] = []
    for norm in (100.0,):
        found = audit.run(regress(norm), 1.0, neighbours=replaced(norm), samples=SAMPLES, last_bits=False)
        rows.append(row("diffprivlib", f"LogisticRegression, data_norm = {norm:g}", found))
    for width in (2, NUMBERS):
        found = replay_libraries(cluster, one_more(width), claim=1.0)
        rows.append(row("diffprivlib", f"KMeans of {width} columns", found))
    found = audit.run(count_classes, 1.0, neighbours=new_class(), samples=1000, last_bits=False)
    rows.append(row("diffprivlib", "GaussianNB, a class that one row has", found))
    for name, program in (("one count", count), ("two counts, claimed as one", count_twice)):
        found = replay_libraries(program, [([0] * 3, [0] * 4)], claim=1.0)
        rows.append(row("opendp", name, found))
    found = audit.run(count, 1.0, neighbours=[([0] * 3, [0] * 4)], samples=20_000)
    rows.append(row("opendp", "one count, sampled", found))
    for each in rows:
        print(each)
    print(json.dumps(rows, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
