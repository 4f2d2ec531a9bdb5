"""What all local mechanisms are given: an ε that can be drawn exactly, and values from a public list."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.noise.sampling.integers import parse_integers
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.exact import Number

SMALLEST, LARGEST = Fraction(1, 2**20), Fraction(40)
"""Range of ε for a single answer: within it the odds fit the 63-bit integers that are drawn."""
MOST_VALUES = 2**20
MOST_NUMBERS = 2**63
"""Largest bound of the uniform integers that are drawn."""


def parse_answer_epsilon(value: Number) -> Fraction:
    """Return the ε of a single answer."""
    epsilon = parse_positive(value, "epsilon")
    if not SMALLEST <= epsilon <= LARGEST:
        raise UsageError(
            "SF-N101",
            "ε is out of range for a single answer.",
            got=format_number(epsilon),
            allowed="2^-20 to 40",
        )
    return epsilon


def parse_values(value: int, most: int = MOST_VALUES) -> int:
    """Return the number of possible values."""
    values = parse_whole(value, "values")
    if not 2 <= values <= most:
        raise UsageError(
            "SF-N101", f"A question can have from 2 to 2^{most.bit_length() - 1} answers.", got=str(values)
        )
    return values


def require_drawable(numbers: int, values: int) -> None:
    """Refuse odds whose common denominator cannot be drawn."""
    if numbers > MOST_NUMBERS:
        raise UsageError("SF-N101", "So many answers cannot be drawn exactly at this ε.", got=str(values))


def parse_codes(given: Any, values: int) -> NDArray[np.int64]:
    """Return values or reports, which are whole numbers from 0 to values − 1 or booleans."""
    array = np.asarray(given)
    codes = parse_integers(array.astype(np.int64) if array.dtype == np.bool_ else given)
    if int(codes.min()) < 0 or int(codes.max()) >= values:
        raise UsageError(
            "SF-N502", "An answer is not one of the possible ones.", answers=f"0 to {values - 1}"
        )
    return codes.astype(np.int64)
