"""What every engine reads alike: the bounds, lists, keys and refusals that preparing a source shares."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, cast

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.engines.preparation import Codes, Preparation

LONGEST_TEXT = 1000
"""Code points of a text that are kept."""

WRITTEN_OUT_BELOW = 2**120
"""Whole doubles below this are written as integers, which DuckDB does through 128 bits."""

EXACT_BELOW = 2**53
"""From here on a double may stand for several whole numbers."""

YEAR_1 = -62_135_596_800
YEAR_10000 = 253_402_300_800
"""Seconds since 1970. Moments outside have no date that everyone can write down, and are missing."""

ISO = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]+)?)?"
    r"(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?"
)


def are_texts(codes: Codes) -> bool:
    return all(isinstance(value, str) for value in codes.values)


def listed(codes: Codes) -> dict[Any, int]:
    """From value to code. A value listed twice has its first code: a join must not double a row."""
    texts, values = are_texts(codes), cast("tuple[Any, ...]", codes.values)
    first: dict[Any, int] = {}
    for code, value in enumerate(values):
        first.setdefault(value if texts else float(value), code)
    return first


def key_for(preparation: Preparation, purpose: str) -> str:
    """A key of its own for each purpose, so that no digest is used twice; short, as it is hashed often."""
    return hmac.new(preparation.key, purpose.encode(), "sha256").hexdigest()[:32]


# ---- refusals ----------------------------------------------------------------------------------------------


def not_numbers(name: str) -> UsageError:
    return UsageError("SF-C206", f"The column '{name}' does not hold numbers.", try_="sf.one_of with texts")


def not_dates(name: str) -> UsageError:
    return UsageError(
        "SF-C208",
        f"The column '{name}' does not hold dates.",
        why="bounds that are dates take dates, moments, or texts such as 2024-01-31",
        try_="sf.between with numbers",
    )


def rounded_identifiers(name: str) -> UsageError:
    """Long integers become doubles beside one missing value, and then two people may have one number."""
    return UsageError(
        "SF-C207",
        f"The identifiers in '{name}' are floating-point numbers too large to tell people apart.",
        limit="2^53, about 16 digits",
        try_="read the column as integers or as text before it is rounded",
    )


def not_a_column_type(name: str, of_type: str) -> UsageError:
    return UsageError(
        "SF-C205",
        f"The values of column '{name}' cannot be used.",
        type=of_type,
        accepted="numbers of up to 38 digits, texts, booleans, dates and times",
    )
