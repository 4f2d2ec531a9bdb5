"""Generated people: what identifies them, drawn so that nobody is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    People = dict[str, NDArray[np.int64]]

VOTERS: Final = 54_805
"""Voters of Cambridge, Massachusetts, whose list Sweeney counted (*Weaving technology and policy together to
maintain confidentiality*, 1997)."""
ALONE: Final = (
    ("birth date", ("birth_date",), 0.12),
    ("birth date and sex", ("birth_date", "sex"), 0.29),
    ("birth date and 5-digit ZIP", ("birth_date", "zip"), 0.69),
    ("birth date and full postal code", ("birth_date", "postal_code"), 0.97),
)
"""What voters were known by, and the share of them who were alone with it."""
_DAYS: Final = 365 * 80


def draw_people(count: int, rng: np.random.Generator, zips: int = 100) -> People:
    """Return birth dates (as days), sexes and postal codes of people of all ages."""
    return {
        "birth_date": rng.integers(0, _DAYS, count),
        "sex": rng.integers(0, 2, count),
        "zip": rng.integers(0, zips, count),
    }


def draw_town(rng: np.random.Generator) -> People:
    """Return as many voters as Cambridge had: many students, six ZIP codes, full codes of a few houses."""
    students = rng.random(VOTERS) < 0.35
    age = np.where(students, rng.triangular(18, 24, 36, VOTERS), rng.triangular(18, 30, 95, VOTERS))
    zips = rng.choice(6, VOTERS, p=[0.05, 0.15, 0.2, 0.3, 0.2, 0.1])
    return {
        "birth_date": (age * 365).astype(np.int64),
        "sex": rng.integers(0, 2, VOTERS),
        "zip": zips,
        "postal_code": zips * 1000 + rng.integers(0, 500, VOTERS),
    }
