"""Mistakes about rows: bounds, keys, labels and scales that come from the data, rows that count twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from mistakes.mistake import EMPTY_AND_ONE, FEW, Mistake, clip_to_one, laplace

FAR = ((np.array([0.0]), np.array([0.0, 100.0])),)
MISSING = ((np.array([1.0]), np.array([1.0, np.nan])),)


def bounds_from_data(rows: Any) -> float:
    """The sensitivity is the largest value seen."""
    high = float(np.max(rows, initial=1.0))
    return float(np.sum(np.clip(rows, 0, high)) + laplace(high))


def min_max_scaled(rows: Any) -> list[float]:
    """Rows are scaled by their own least and greatest values before they are summed."""
    values = np.asarray(rows, dtype=float)
    low, high = values.min(initial=0.0), values.max(initial=1.0)
    return [float(np.sum((values - low) / (high - low)) + laplace(1.0)), float(high)]


def labels_from_data(rows: Any) -> dict[float, float]:
    """Classes are those that occur."""
    return {float(each): float(np.sum(rows == each) + laplace(1.0)) for each in np.unique(rows)}


def keys_unprotected(rows: Any) -> list[float]:
    """Groups of a count, the smallest with noise like the others, but all of them named."""
    return sorted(float(each) for each in np.unique(np.round(rows)))


def threshold_on_the_exact_count(rows: Any) -> float:
    """Small counts are suppressed by their exact size."""
    return float(len(rows) + laplace(1.0)) if len(rows) >= 10 else -1000.0


def nan_injected(rows: Any) -> float:
    """Clipping leaves NaN as it is."""
    return float(np.sum(np.clip(rows, 0, 1)) + laplace(1.0))


def not_clipped(rows: Any) -> float:
    """The gradient of a logistic regression at 0, for rows of norm 100, with noise for norm 1."""
    return float(np.sum(np.asarray(rows) / 2) + laplace(0.5))


def shares_swapped(rows: Any) -> list[float]:
    """A k-means step for bounds of 4: the sum gets the noise of the count, and the count that of the sum."""
    values = np.clip(rows, -4, 4)
    return [float(values.sum() + laplace(1.25)), float(len(values) + laplace(5.0))]


def one_row_too_many(rows: Any) -> float:
    """At most k = 2 rows a person, kept by an index that runs from 0 to k."""
    _, place = np.unique(rows, return_inverse=True)
    kept = sum(min(int(np.sum(place == each)), 3) for each in range(place.max(initial=-1) + 1))
    return float(kept + laplace(2.0))


PERSON = ((np.array([5.0]), np.array([5.0, 7.0, 7.0, 7.0, 7.0])),)


def stale_bound(rows: Any) -> float:
    """A column declared between 0 and 1 is redefined as three times itself, and the bound stays."""
    return float(np.sum(3 * clip_to_one(rows)) + laplace(1.0))


def rows_for_people(rows: Any) -> float:
    """A person with three rows is protected as if they had one."""
    return float(len(rows) + laplace(1.0))


def at_most_n(rows: Any) -> float:
    """The noisy count is cut at the exact number of rows, which cannot be exceeded."""
    return float(min(np.sum(np.asarray(rows) >= 0.0) + laplace(1.0), len(rows)))


def rounded_if_close(rows: Any) -> float:
    """The answer is the exact one where noise is small, because it looks better."""
    noise = laplace(1.0)
    return float(len(rows) + (0.0 if abs(noise) < 0.5 else noise))


def error_for_one_row(rows: Any) -> float:
    """A variance that refuses tables of fewer than two rows."""
    if len(rows) < 2:
        raise ValueError("variance needs two rows")
    return float(np.var(clip_to_one(rows)) + laplace(1.0))


def price_by_a_fit(rows: Any) -> float:
    """The scale is the least that keeps the error under 5 % of the exact sum."""
    total = float(np.sum(np.clip(rows, 0, 100)))
    return float(total + laplace(max(1.0, 0.05 * total)))


def replace_for_add(rows: Any) -> list[float]:
    """Noise for neighbours of equal size in a claim about adding a person to two cells."""
    return [float(len(rows) + laplace(1.0)), float(np.sum(np.asarray(rows) >= 0) + laplace(1.0))]


ROW_MISTAKES = (
    Mistake(
        "bounds from data",
        "diffprivlib's PrivacyLeakWarning",
        "sensitivity read off the rows",
        bounds_from_data,
        FAR,
    ),
    Mistake("min–max from data", "synthcity#278, dpmm#18", "exact extremes are used", min_max_scaled, FAR),
    Mistake(
        "labels from data",
        "diffprivlib's classifiers",
        "a class appears with its first row",
        labels_from_data,
    ),
    Mistake(
        "unprotected keys",
        "Korolova et al., 2009; Wilson et al., 2020",
        "rare keys are listed",
        keys_unprotected,
    ),
    Mistake(
        "domain by exact threshold",
        "minimum cell size rules",
        "an exact comparison",
        threshold_on_the_exact_count,
        FEW[2:],
    ),
    Mistake("NaN injection", "Haney et al., 2022", "NaN passes a clip", nan_injected, MISSING),
    Mistake(
        "row norm R, noise for 1",
        "diffprivlib's logistic regression",
        "rows of norm 100 not clipped",
        not_clipped,
        FAR,
    ),
    Mistake(
        "k-means shares swapped",
        "diffprivlib's k-means",
        "noise of the count on the sum",
        shares_swapped,
        FAR,
    ),
    Mistake(
        "keeps k + 1 rows", "an index that runs to k", "one row too many a person", one_row_too_many, PERSON
    ),
    Mistake("stale bound", "a column redefined after its bound", "a bound of the old column", stale_bound),
    Mistake("rows for people", "Wilson et al., 2020", "a person has several rows", rows_for_people, PERSON),
    Mistake(
        "cut at the exact n",
        "post-processing by a secret",
        "the largest answer is n",
        at_most_n,
        EMPTY_AND_ONE,
    ),
    Mistake(
        "exact where close",
        "rounding that looks at the truth",
        "often the exact answer",
        rounded_if_close,
        EMPTY_AND_ONE,
    ),
    Mistake(
        "an error tells", "Haeberlen et al., 2011", "an exception for few rows", error_for_one_row, FEW[:2]
    ),
    Mistake(
        "price by a fit",
        "a price that depends on the data",
        "the scale depends on the rows",
        price_by_a_fit,
        FAR,
    ),
    Mistake(
        "sensitivity of one cell",
        "sensitivity of a cell, not of a person",
        "two cells move, one is paid",
        replace_for_add,
    ),
)
