"""Arguments that must be constants: they decide the shape of a computation, so a row may not decide them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Listed, Numbers
from sfumato.engines.values import Constant
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.lower.lowered_value import LoweredValue


def require_typed_integer(part: LoweredValue, what: str, allowed: range) -> int:
    """Return an argument that is a constant whole number within a range."""
    domain = part.domain
    if (
        isinstance(part.value, Constant)
        and isinstance(domain, Numbers)
        and domain.step == 1
        and domain.low in allowed
    ):
        return domain.low
    raise PolicyError(
        "SF-Q135", f"{what} must be a constant whole number.", allowed=f"{allowed[0]} to {allowed[-1]}"
    )


def require_typed_text(part: LoweredValue) -> str:
    """Return an argument that is a constant text."""
    if (
        isinstance(part.value, Constant)
        and isinstance(part.domain, Listed)
        and part.domain.values
        and isinstance(part.domain.values[0], str)
    ):
        return part.domain.values[0]
    raise PolicyError("SF-Q135", "A constant text is expected here.", try_="CONTAINS(note, 'pain')")
