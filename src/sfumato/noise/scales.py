"""How wide noise may be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.errors import UsageError
from sfumato.privacy.exact import format_short, positive

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(2**40)


def parse_scale(value: Any, name: str) -> Fraction:
    """A noise scale in grid steps, exact. One that hides nothing, or drowns everything, is refused."""
    scale = positive(value, name)
    if not SMALLEST <= scale <= LARGEST:
        raise UsageError(
            "SF-N201",
            f"The noise {name} is out of range.",
            got=f"{format_short(scale)} grid steps",
            allowed="from 1/1000 to 2^40 grid steps",
            try_="a coarser grid if it is too large, a smaller epsilon if it is too small",
        )
    return scale
